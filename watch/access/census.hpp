// The lifetimes of the threads and processes of a record, whose ends the library does not record, and sums over a record.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "support/process/process_ids.hpp"
#include "watch/contract/format.hpp"
#include "watch/contract/live.hpp"

namespace usher::access {

/// The ids of a record's processes and threads as this process sees them, by slot. The record has the ids that the
/// processes see themselves, which differ in another PID namespace.
struct seen_ids {
  struct entry {
    std::uint32_t own = 0;   ///< as the record has it; the slot may be another's now
    pid_t seen = 0;          ///< 0: it was never seen
    bool is_inside = false;  ///< of a process: in another PID namespace
    bool is_hidden = false;  ///< of a process: /proc does not show whether it lives
  };
  std::vector<entry> processes, threads;
};

/// Records the lifetimes of threads and processes. The ids come from the record, which the program may forge, so they
/// are used only to read their entries in /proc. A thread without any information keeps the library's values.
class census {
 public:
  enum class looks { at_lives, also_at_handlers };
  /// `descriptor`: that of the record's file; -1: there is none.
  explicit census(contract::live r, int descriptor = -1, looks what = looks::at_lives);
  void sample(std::uint64_t now);
  /// Takes the last sample: `now` is the end of threads and processes that still live.
  void finish(std::uint64_t now);
  /// The number of processes that lived at the last sample and still live.
  unsigned living_processes() const;
  /// Whether a process had handlers for the signals by which collectors stop and resume threads, at some sample.
  /// Only if it looks for handlers.
  bool parks_threads() const { return parks_threads_; }
  const seen_ids& ids() const { return ids_; }

 private:
  struct process_state {
    support::seen_process seen;
    bool is_sought = false, lives = false;
  };
  struct threads_of_process {
    support::thread_list list;
    std::uint64_t read_at = 0;  ///< the number of the sample
    bool is_visible = false;
  };

  void sample_processes(std::uint64_t now);
  bool look_at(std::uint32_t slot, std::uint32_t own);
  bool look_for(std::uint32_t slot, std::uint32_t own);
  bool is_taken(const support::seen_process& p, std::uint32_t by_other_than) const;
  enum class life { lives, over, unknown };
  life thread_life(std::uint32_t thread, std::uint32_t own, std::uint32_t process);

  contract::live record_;
  support::process_finder finder_;
  bool looks_at_handlers_, parks_threads_ = false;
  bool is_hiding_;  ///< /proc may leave processes out
  std::vector<process_state> states_;
  seen_ids ids_;
  std::unordered_map<std::uint32_t, threads_of_process> threads_;  ///< by slot of the process
  std::unordered_map<pid_t, std::uint32_t> slots_;  ///< of living processes, by the id that this process sees
  std::uint64_t samples_ = 0;
  unsigned searches_left_ = 0;
};

/// Sums over a whole record, which must be a copy.
struct recorded_calls {
  std::uint64_t locks = 0;              ///< calls that locked or tried to lock a mutex
  std::uint64_t contended = 0;          ///< of these: calls that had to wait or failed
  std::uint64_t waits = 0;              ///< for condition variables
  std::uint64_t semaphores = 0;         ///< credits taken and given, and waits that timed out
  std::uint64_t rwlocks = 0;            ///< calls that locked a read-write lock, or gave up at a deadline
  std::uint64_t contended_rwlocks = 0;  ///< of these: calls that had to wait
  std::uint64_t others = 0;             ///< acquisitions of spin locks, and waits at barriers and for threads
  std::uint64_t processes = 0;          ///< that had loaded the library
  std::uint64_t threads = 0;  ///< the most that lived at the same time; a thread whose slot was reused is not counted
  std::uint64_t lives = 0;    ///< ticks, the sum of all threads' lifetimes
  std::uint64_t waited = 0;   ///< ticks, the sum of all threads' waits for mutexes
  std::uint64_t waited_for_rwlocks = 0;         ///< the same for read-write locks
  std::uint64_t waited_for_shared_rwlocks = 0;  ///< of these ticks: for process-shared ones

  std::uint64_t all() const { return locks + waits + semaphores + rwlocks + others; }
  /// The share of the threads' lifetimes that these ticks are, 0 to 1.
  std::optional<double> share(std::uint64_t ticks) const {
    if (lives == 0) return std::nullopt;
    return static_cast<double>(ticks) / static_cast<double>(lives);
  }
};
recorded_calls sum_of(contract::view r);

}  // namespace usher::access
