// The kinds of objects and the operations on them (verbs), for the record of `usher stat` (format.hpp), the streams of
// `usher record` (stream_format.hpp) and recordings (lab/recordings/recording.hpp).
//
// The record and the streams contain these values, so a change must raise their versions. Recording files have their
// own codes (lab/recordings/file.cpp).
#pragma once

#include <cstdint>

namespace usher::inline v2::contract {

/// The kind of a recorded object. The kinds from `rwlock` to `join` are recorded only in programs with libusher-stat.so
/// (watch/recorder/others.hpp). `spin` is a spin lock; `join` is a place in the program that waits for threads to end.
/// Only recordings have the last two kinds: the record marks a recursive mutex by an attribute (mutex_attributes), and
/// has no entries for threads as objects of `join` and `start`.
enum class kind : std::uint8_t {
  none,
  mutex,
  condition,
  semaphore,
  rwlock,
  spin,
  barrier,
  join,
  recursive_mutex,
  thread,
};
inline constexpr int kinds = 7;  ///< in a record, without `none`
/// The names of a record's kinds, as in JSON.
inline constexpr const char* kind_names[] = {"",       "mutex", "condition", "semaphore",
                                             "rwlock", "spin",  "barrier",   "join"};
static_assert(sizeof kind_names / sizeof *kind_names == kinds + 1 && int(kind::join) == kinds);
constexpr int index_of(kind k) {
  return int(k) - 1;
}
/// Whether only one thread at a time holds the object, so its entry has hold times.
constexpr bool has_holds(kind k) {
  return k == kind::mutex || k == kind::spin;
}

/// The operation of a thread. The comments name its object.
enum class verb : std::uint8_t {
  lock,             ///< a mutex; here and below, a successful try counts, too
  try_lock_failed,  ///< a mutex
  unlock,           ///< a mutex
  wait,             ///< a condition variable, with its mutex; it ends when the mutex is held again after a signal
  wait_timed_out,   ///< the same, ended by its deadline
  signal,           ///< a condition variable
  broadcast,        ///< a condition variable
  semaphore_wait,
  semaphore_post,
  read_lock,          ///< a read-write lock
  write_lock,         ///< a read-write lock
  read_write_unlock,  ///< a read-write lock
  barrier_wait,
  join,       ///< a thread that has ended
  start,      ///< a created thread
  end,        ///< no object: the thread ends, or its part of a window. Only in recordings
  cpu_clock,  ///< no call: a reading of the thread's CPU clock. Only in streams (stream_call)
};
inline constexpr unsigned last_verb = unsigned(verb::cpu_clock);

/// The kind of a verb's object; `mutex` also for a recursive one. `none`: the verb has no object.
constexpr kind object_of(verb v) {
  switch (v) {
    case verb::lock:
    case verb::try_lock_failed:
    case verb::unlock:
      return kind::mutex;
    case verb::wait:
    case verb::wait_timed_out:
    case verb::signal:
    case verb::broadcast:
      return kind::condition;
    case verb::semaphore_wait:
    case verb::semaphore_post:
      return kind::semaphore;
    case verb::read_lock:
    case verb::write_lock:
    case verb::read_write_unlock:
      return kind::rwlock;
    case verb::barrier_wait:
      return kind::barrier;
    case verb::join:
    case verb::start:
      return kind::thread;
    case verb::end:
    case verb::cpu_clock:
      break;
  }
  return kind::none;
}

}  // namespace usher::inline v2::contract
