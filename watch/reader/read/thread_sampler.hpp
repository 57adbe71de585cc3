// Samples the threads of the recorded processes about ten times a second: whether they sleep, and in which system call;
// how long they waited for a CPU; the CPU time of the processes.
//
//     update()   called by the observer after each census: the living processes, and the ids of their threads
//     a pass     reads each thread's files `schedstat` and `syscall` in /proc. A thread that sleeps in a recorded wait
//                counts for the kind of its object. For any other sleep, the stack is searched once for the caller of
//                the system call.
//     results    in memory that the sampler and the observer share
//
// The attacker is the recorded process: it chooses its stack pointer, its stack, its mappings and their names, and has
// any number of threads, which end while they are read. So each read has a limit, an address is only compared with the
// mappings that the kernel reports, and the CPU time of a pass is limited: if it does not suffice for all threads, a
// random sample of them is read, which stands for all.
//
// A read of the process's memory may block for any time (userfaultfd, FUSE). So the passes run concurrently with the
// observer. For an attached process they run in a child, which is killed if a read takes long; a child that cannot be
// killed is abandoned. For a command they run in a thread, because Yama permits a process only to read its descendants,
// and a child would be a sibling of the command. A command has the rights of its observer in any case.
//
// Results can be wrong: the return address of a function that has just returned is still on the stack, and the search may
// take it for a caller (off_cpu::place::is_certain). A thread's waiting for a CPU between the last pass and its end is
// missing.
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

/// The sampler's results on CPUs.
struct sampled_cpu {
  double cpus = 0;           ///< number of CPUs that the first process may use; 0: not known
  double elapsed = 0;        ///< seconds from the sampler's start to its end
  double counted = 0;        ///< seconds covered by `seconds` and `waited`, since a busy machine delays passes
  double seconds = 0;        ///< CPU time of all processes
  double waited = 0;         ///< seconds that threads were ready to run and waited for a CPU
  bool knows_waits = false;  ///< the kernel reports `waited`
};

class thread_sampler {
 public:
  enum class place { thread, child };

  /// Starts the passes. With `place::child` the processes' earlier times are not counted. If no thread or child can be
  /// started, there are no results.
  thread_sampler(contract::live record, place where);
  thread_sampler(const thread_sampler&) = delete;
  thread_sampler& operator=(const thread_sampler&) = delete;
  ~thread_sampler();

  /// To be called after each census. `program`: the first processes. While no living process is in the record, perhaps
  /// for lack of a recorded call, these and their descendants are sampled.
  void update(const access::seen_ids& ids, const std::vector<pid_t>& program);
  /// Ends the passes. A pass that does not end within a fifth of a second is abandoned.
  void stop();

  /// To be called after stop(). Nullopt: no pass was made.
  std::optional<sampled_sleeps> sleeps() const;
  std::optional<sampled_cpu> cpu() const;
  /// The number of passes, and their CPU time.
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
