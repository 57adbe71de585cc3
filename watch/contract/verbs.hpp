// What threads do with which objects, in all that Usher records: one enumeration of the kinds of objects and one of the
// verbs, for the record of `usher stat` (format.hpp), the streams of `usher record` (stream_format.hpp) and recordings
// (lab/recordings/recording.hpp).
//
// The values are parts of the first two formats, whose versions rise if a value changes. Files of recordings have codes of
// their own (lab/recordings/file.cpp).
#pragma once

#include <cstdint>

namespace usher::inline v2::contract {

/// The kind of a recorded object. Those from `rwlock` to `join` are recorded only in programs that have libusher-stat.so
/// (watch/recorder/others.hpp). A `spin` is a spin lock, and a `join` is a place in the program that waits for threads to
/// end. Only recordings have the last two: a record has an attribute for a recursive mutex (mutex_attributes), and no
/// entries for the threads that calls of `join` and `start` name.
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
/// Whether one thread at a time holds the object, and its entry has the figures of holds.
constexpr bool has_holds(kind k) {
  return k == kind::mutex || k == kind::spin;
}

/// What a thread did. The comments name the objects.
enum class verb : std::uint8_t {
  lock,             ///< a mutex; here and below, also a try that succeeds
  try_lock_failed,  ///< a mutex
  unlock,           ///< a mutex
  wait,             ///< a condition; with the mutex: until it was signalled and had the mutex again
  wait_timed_out,   ///< the same
  signal,           ///< a condition
  broadcast,        ///< a condition
  semaphore_wait,
  semaphore_post,
  read_lock,          ///< a read-write lock
  write_lock,         ///< a read-write lock
  read_write_unlock,  ///< a read-write lock
  barrier_wait,
  join,       ///< a thread
  start,      ///< a thread that was created
  end,        ///< no object: the thread ends, or its part of a window does. Only in recordings
  cpu_clock,  ///< no call: a reading of the thread's CPU clock. Only in streams (stream_call)
};
inline constexpr unsigned last_verb = unsigned(verb::cpu_clock);

/// The kind of the object that a verb has, without regard to attributes: `mutex` also of a recursive one. `none`: it has
/// no object.
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
