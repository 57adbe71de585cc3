// Samples the threads of the recorded processes about ten times a second: whether they sleep, and in which system call;
// how long they waited for a CPU; the CPU time of the processes.
//
//     update()   by the observer, after each census: the processes that live, and the ids of their threads
//     a pass     reads for each thread its files `schedstat` and `syscall` in /proc. A thread that sleeps in a recorded
//                wait counts for the kind of its object. For any other the caller of the system call is searched on its
//                stack, once for each sleep.
//     results    in memory that the sampler and the observer share
//
// The attacker is the recorded process. It chooses its stack pointer, its stack, its mappings and their names, and has
// as many threads as it likes, which end while they are read. So each read has a limit, an address is only compared
// with the mappings that the kernel reports, and a pass takes a limited CPU time: of more threads than can be read in
// it, a random part is read, which stands for all.
//
// A read of the process's memory may block for as long as the process wants (userfaultfd, FUSE). So the passes run
// beside the observer: for a process that is attached to, in a child, which is killed if a read takes long; it is left
// behind if it cannot be killed. For a command they run in a thread, because Yama permits a process only to read its
// descendants, and the child would be a sibling of the command. A command has the rights of its observer anyway.
//
// Results can be wrong: a function that has just returned leaves its return address on the stack, and the search may
// take it for a caller (off_cpu::place::is_certain). What a thread waited for a CPU between the last pass and its end
// is missing.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "watch/access/census.hpp"
#include "watch/contract/live.hpp"
#include "watch/reader/read/off_cpu.hpp"

namespace usher::reader {

/// The sampler's figures about CPUs.
struct sampled_cpu {
  double cpus = 0;           ///< that the first process may use; 0: not known
  double elapsed = 0;        ///< seconds from the sampler's start to its end
  double counted = 0;        ///< seconds to which `seconds` and `waited` belong: a busy machine delays passes
  double seconds = 0;        ///< CPU time of all processes
  double waited = 0;         ///< seconds that threads were ready to run and waited for a CPU
  bool knows_waits = false;  ///< the kernel tells `waited`
};

class thread_sampler {
 public:
  enum class place { thread, child };

  /// Starts the passes. With `place::child` what the processes did before is not counted. If no thread or child can be
  /// started there are no results.
  thread_sampler(contract::live record, place where);
  thread_sampler(const thread_sampler&) = delete;
  thread_sampler& operator=(const thread_sampler&) = delete;
  ~thread_sampler();

  /// To be called after each census. `program`: the first processes, which are looked at, with their descendants, as
  /// long as no living process is in the record: they may have made no recorded call.
  void update(const access::seen_ids& ids, const std::vector<pid_t>& program);
  /// Ends the passes. A pass that does not end within a fifth of a second is abandoned.
  void stop();

  /// After stop(). Nullopt: no pass was made.
  std::optional<sampled_sleeps> sleeps() const;
  std::optional<sampled_cpu> cpu() const;
  /// The number of passes, and the CPU time that they took.
  std::uint64_t passes() const;
  double own_seconds() const;

  struct board;  ///< the shared memory

 private:
  void start();
  void look_at_child();
  void end_child();

  contract::live record_;
  place where_;
  std::shared_ptr<board> board_;
  std::thread thread_;
  pid_t child_ = -1;
  std::chrono::steady_clock::time_point began_, ended_{};
  std::uint64_t passes_seen_ = 0;
  std::chrono::steady_clock::time_point progress_at_;  ///< when the child's last progress was seen
};

}  // namespace usher::reader
