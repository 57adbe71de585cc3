// The lifetimes of a record's threads and processes, whose ends the library does not record, and sums over a record.
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

/// The ids of a record's processes and threads in the observer's PID namespace, by slot. The record has the ids in the
/// processes' own namespace, which may be another one.
struct seen_ids {
  struct entry {
    std::uint32_t own = 0;   ///< as in the record, when `seen` was found; the slot may have been reused since
    pid_t seen = 0;          ///< 0: not found yet
    bool is_inside = false;  ///< of a process: it is in another PID namespace
    bool is_hidden = false;  ///< of a process: /proc does not show whether it lives
  };
  std::vector<entry> processes, threads;
};

/// Records the lifetimes of threads and processes. The program may forge the ids in the record, so they are used only
/// to read entries of /proc. If /proc has no information on a thread, the library's values stay.
class census {
 public:
  enum class looks { at_lives, also_at_handlers };
  /// `descriptor`: of the record's file; -1: there is no file.
  explicit census(contract::live r, int descriptor = -1, looks what = looks::at_lives);
  void sample(std::uint64_t now);
  /// Takes the last sample: `now` is the end of threads and processes that still live.
  void finish(std::uint64_t now);
  /// The number of processes that lived at the last sample and still live.
  unsigned living_processes() const;
  /// Whether, at some sample, a process handled the signals by which garbage collectors stop and resume threads. Needs
  /// looks::also_at_handlers.
  bool parks_threads() const { return parks_threads_; }
  const seen_ids& ids() const { return ids_; }

 private:
  struct process_state {
    support::seen_process seen;
    bool is_sought = false, lives = false;
  };
  struct threads_of_process {
    support::thread_list list;
    std::uint64_t read_at = 0;  ///< number of the sample
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
  bool is_hiding_;  ///< /proc may omit processes
  std::vector<process_state> states_;
  seen_ids ids_;
  std::unordered_map<std::uint32_t, threads_of_process> threads_;  ///< by the process's slot
  std::unordered_map<pid_t, std::uint32_t> slots_;  ///< of living processes, by the id in the observer's namespace
  std::uint64_t samples_ = 0;
  unsigned searches_left_ = 0;
};

/// Sums over a whole record, which must be a copy.
struct recorded_calls {
  std::uint64_t locks = 0;                      ///< calls that locked or tried to lock a mutex
  std::uint64_t contended = 0;                  ///< of these: calls that had to wait or failed
  std::uint64_t waits = 0;                      ///< for condition variables
  std::uint64_t semaphores = 0;                 ///< credits taken and given, and waits that timed out
  std::uint64_t rwlocks = 0;                    ///< calls that locked a read-write lock, or gave up at a deadline
  std::uint64_t contended_rwlocks = 0;          ///< of these: calls that had to wait
  std::uint64_t others = 0;                     ///< acquisitions of spin locks, waits at barriers, and joins
  std::uint64_t processes = 0;                  ///< processes that had loaded the library
  std::uint64_t threads = 0;                    ///< largest number alive at once, without threads whose slot was reused
  std::uint64_t lives = 0;                      ///< ticks, the sum of all threads' lifetimes
  std::uint64_t waited = 0;                     ///< ticks, the sum of all threads' waits for mutexes
  std::uint64_t waited_for_rwlocks = 0;         ///< the same for read-write locks
  std::uint64_t waited_for_shared_rwlocks = 0;  ///< of these ticks: for process-shared ones

  std::uint64_t all() const { return locks + waits + semaphores + rwlocks + others; }
  /// The quotient of these ticks and the threads' lifetimes, 0 to 1.
  std::optional<double> share(std::uint64_t ticks) const {
    if (lives == 0) return std::nullopt;
    return static_cast<double>(ticks) / static_cast<double>(lives);
  }
};
recorded_calls sum_of(contract::view r);

}  // namespace usher::access
