/// Finds the threads of a recording in this process's /proc: which of them live, and their ids as this process sees
/// them.
///
/// A slot contains the ids that its thread sees itself. In another PID namespace these ids belong to other threads. A
/// process also keeps its id when it executes another program. So a process is that of a slot if its id in its own
/// namespace is the slot's, and if it maps the recording's file at the slot's address. In later looks it must have the
/// same start time and, as long as it executes no other program, the same stack.
///
/// The attacker is the recorded program, which may write any id and address. These are used only to read /proc, and one
/// look searches for at most most_searches processes. A program that forges ids loses records of its own threads only.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "lab/recordings/raw_window.hpp"
#include "support/process/process_ids.hpp"

namespace usher::recording {

class living_threads {
 public:
  /// `file`: the descriptor of the file that recorded processes map.
  explicit living_threads(int file);

  /// Fills in `is`, `seen_pid` and `seen_tid` of all slots that were read before this call.
  void look(std::span<raw_thread> threads);
  /// Whether no thread of the process had a system-call filter (seccomp) at the time of the call. To be called after
  /// look().
  bool has_no_filter(std::uint32_t process) const;

 private:
  struct process {
    std::uint32_t own = 0;
    std::uint64_t mapped_at = 0;
    support::seen_process seen;  // pid 0: not found yet
    std::uint64_t stack = 0;
    bool is_inside = false, has_ended = false;
    support::thread_list threads;  // used if the process is in another PID namespace
    std::uint64_t looked = 0, listed_again = 0;
  };

  process& entry_of(const raw_thread& t);
  void search(std::uint32_t number, process& p, const std::string& name);
  void look_again(process& p);
  void end_replaced();
  void look_at_thread(raw_thread& t);

  support::process_finder finder_;
  std::map<std::uint32_t, process> processes_;  // by their numbers in the file
  std::uint64_t looks_ = 0;
};

}  // namespace usher::recording
