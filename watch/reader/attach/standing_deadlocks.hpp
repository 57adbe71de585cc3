// Finds deadlocks that are older than the recording. The record has no waits of threads that already slept when `usher
// stat -p` attached, and no holders of the mutexes that these threads wait for.
//
// Threads that sleep in a futex call without a time limit are found in /proc/PID/task/TID/syscall. So are waiters of
// the lock `steady` that *look*: they wake up from time to time to read the lock word; the mask of their call
// identifies them. If the futex is the first word of a pthread mutex, the mutex has the thread id of its holder (the C
// library's mutexes; of Usher's the recursive and error-checking ones) or the address of the holder's record (Usher's
// others). Threads that sleep on another word, such as a queue node or a lock of the program's own, are counted and not
// explained.
//
// The attacker is the process: it chooses all words in its memory and the arguments of its futex calls, and the
// observer may be root. So each reading runs in a child with a time limit (in_child.hpp), reads a limited number of
// threads, and copies 24 bytes for each. A word of the program may look like a mutex by accident. So a circle is
// reported only if each member has the lock word, kind, counts and futex arguments of a mutex with waiters, and its
// mutex names another member as holder. Each member must have slept for a second without a context switch, or with no
// more switches than looks cause. All members must have slept at one moment: their numbers of context switches did not
// change for a second or, if a member looks, from one reading to the next.
//
// Not found: a circle of only priority-inheriting mutexes. The kernel refuses its last wait, and the C library lets
// that thread sleep elsewhere. Under Usher's locks, a circle with a holder that has no tag, because it has never
// waited, or with a member that waits behind another thread, on its queue node.
//
// Reported by mistake: forged mutexes that name each other's sleepers. Such a process deceives only its own report, and
// its threads do sleep without a time limit. A mutex that its holder locks again, for another thread to unlock, also
// looks like a deadlock, until the unlock.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "watch/reader/attach/target_memory.hpp"

namespace usher::reader {

/// A futex call in which a thread sleeps until another thread wakes it.
struct futex_sleep {
  std::uint64_t address = 0;
  std::uint32_t value = 0;
  bool is_private = false, inherits_priority = false;  ///< FUTEX_PRIVATE_FLAG; FUTEX_LOCK_PI
  bool looks = false;  ///< the call has a time limit, and the mask of `steady`'s waiters without a deadline
};
/// Parses a line of /proc/PID/task/TID/syscall. Nullopt: the thread is not in such a call.
std::optional<futex_sleep> futex_sleep_of(std::string_view line);

/// The first bytes of a pthread_mutex_t: layout.hpp. In Usher's mutexes `count` may be the owner tag, and `epoch` is
/// the fork epoch; in the C library's `epoch` has the spins.
struct mutex_words {
  std::uint32_t lock, count, owner, users, kind, epoch;
};
/// The holder's thread id, or its tag under Usher's locks; at most one is not 0. Both 0: the words are not a mutex that
/// this call waits for, or the mutex has no holder.
struct mutex_owner {
  std::uint32_t tid = 0, tag = 0;
  bool operator==(const mutex_owner&) const = default;
};
/// `is_of_usher`: the process uses a lock of Usher's.
mutex_owner owner_in(const mutex_words& m, const futex_sleep& call, bool is_of_usher);

/// A thread that sleeps in a call of type futex_sleep.
struct sleeping_thread {
  std::int32_t tid = 0;        ///< in the PID namespace of this process
  std::uint32_t own = 0;       ///< in the PID namespace of the recorded process
  std::uint32_t owner = 0;     ///< holder of the awaited mutex, in the recorded process's namespace; 0: not known
  bool looks = false;          ///< wakes up from time to time, and sleeps again
  bool is_unsure = false;      ///< it looks, and was not seen asleep at the same moment as the rest of its circle
  std::uint8_t reserved[2]{};  ///< 0
  std::uint64_t address = 0;
  std::uint64_t switches = 0;  ///< context switches so far
  bool operator==(const sleeping_thread&) const = default;
};
/// Whether each thread waits for the same mutex in both circles. A signal, a stop of the process, or a look wakes a
/// thread and changes its number of switches, but the thread then continues its wait.
bool is_same_wait(const std::vector<sleeping_thread>& a, const std::vector<sleeping_thread>& b);
/// Whether the thread may have slept since `first` was read, `seconds` ago, except for its looks.
bool has_slept_on(const sleeping_thread& first, const sleeping_thread& now, double seconds);
/// The circles of threads each of which waits for the next; the thread with the lowest id comes first.
std::vector<std::vector<sleeping_thread>> circles_of(const std::vector<sleeping_thread>& threads);

/// The locks that the process uses. `look`: the lock is `steady`, whose waiters look.
struct known_locks {
  bool are_of_usher = false, look = false;
};

/// The threads of a process at one time.
struct thread_reading {
  unsigned threads = 0, unread = 0;  ///< all threads; threads for which no time was left
  std::vector<sleeping_thread> sleepers;
};
/// Reads the threads one by one, for a limited time, since the process may have any number of threads and mappings.
/// Each reading begins with the same threads: a circle counts only if two readings contain all of it.
thread_reading read_threads(pid_t pid, const target_memory& memory, known_locks locks,
                            std::chrono::milliseconds budget);

/// A module at an address.
struct standing_module {
  std::uint64_t begin = 0, end = 0, bias = 0, identity = 0;
  std::string path;  ///< empty: no module contains the address
};

class standing_deadlocks {
 public:
  using interruption = std::function<bool()>;
  using circle = std::vector<sleeping_thread>;

  explicit standing_deadlocks(pid_t pid) : pid_(pid), memory_(pid) {}

  /// Reads the threads, if it is time for a reading. To be called often, after the attach, whose stop wakes the
  /// threads. False: there is no new reading.
  bool sample(const interruption& interrupted);
  /// Reads the threads at once. False: they could not be read.
  bool finish(const interruption& interrupted) { return read(interrupted); }

  /// Present circles whose threads have all slept for a second.
  const std::vector<circle>& circles() const { return circles_; }
  /// All circles of the last reading, including those that may be an artefact of reading threads one by one.
  const std::vector<circle>& present() const { return present_; }
  /// The time since the circle was first seen, in seconds.
  double seconds(const circle& c) const;
  /// The number of threads of the process; sleepers(): of those that have slept in such calls for a second.
  unsigned threads() const { return threads_; }
  /// The number of threads that one of the last two readings had no time for. A circle needs two readings.
  unsigned unread() const { return std::max(unread_[0], unread_[1]); }
  unsigned sleepers() const;
  /// The name of the lock under which the process runs; empty: not known.
  const std::string& lock() const { return lock_; }
  /// The modules at these addresses; at most `most_modules` are looked up.
  std::vector<standing_module> modules_at(const std::vector<std::uint64_t>& addresses, const interruption& interrupted);
  static constexpr std::size_t most_modules = 64;

 private:
  using clock = std::chrono::steady_clock;
  struct observed {
    sleeping_thread thread;   ///< from the first reading of its present sleep
    clock::time_point since;  ///< the time of that reading
  };

  bool read(const interruption& interrupted);

  pid_t pid_;
  target_memory memory_;
  clock::time_point next_{}, now_{};
  std::unordered_map<std::int32_t, observed> asleep_;  ///< by id
  std::vector<circle> circles_, present_;
  unsigned threads_ = 0;
  unsigned unread_[2] = {};
  unsigned failures_ = 0;
  bool is_prepared_ = false;
  known_locks locks_;
  std::string lock_;
};

}  // namespace usher::reader
