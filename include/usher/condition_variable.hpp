// A condition variable for any lock. Its waiters are woken first in, first out, or mostly last in, first out.
//
//     #include <mutex>
//     #include <usher/condition_variable.hpp>
//     #include <usher/locks/twa.hpp>
//     #include <usher/mutex.hpp>
//
//     usher::mutex<usher::twa> m;
//     usher::condition_variable c;                                    // first in, first out
//     usher::condition_variable l(usher::append_probability(0.001));  // mostly last in, first out
//     std::unique_lock lock(m);
//     c.wait(lock, [&] { return ready; });
//     c.wait_for(lock, 10ms);
//     c.notify_one();  c.notify_all();
//
// It works as std::condition_variable_any without stop tokens, with any type that has lock() and unlock(). The list of
// waiters and its guarantees: core/wait_queue.hpp. notify_all() wakes one thread. Each woken thread wakes the next when
// it has locked the mutex again, so at most one of them competes for the mutex at a time. If the caller of notify_*()
// holds a usher::timed_mutex, the unlock wakes the notified thread (core/wait_morphing.hpp); with other locks
// notify_*() wakes it. Nothing is allocated. An object has 56 bytes; zero bytes are a valid object.
//
// A condition variable must not be destroyed while it has waiters that have not been notified: they would never wake.
// It may be destroyed right after notify_all(). If lock() throws within a wait, the next thread of a broadcast is still
// woken. unlock() may throw only if the calling thread does not hold the mutex afterwards.
#pragma once

#include <condition_variable>  // std::cv_status

#include "usher/core/condition_core.hpp"
#include "usher/core/deadline.hpp"
#include "usher/platform/native.hpp"
#ifdef USHER_RECORD
#include "usher/platform/native/recorded.hpp"
#endif

namespace usher::inline v2 {

#ifdef USHER_RECORD
namespace native_detail {
using condition_base = recorded_condition<basic_condition_variable<native>>;
}
inline namespace recorded {  // mutex.hpp says why
#else
namespace native_detail {
using condition_base = basic_condition_variable<native>;
}
#endif

class condition_variable : public native_detail::condition_base {
 public:
  using native_detail::condition_base::condition_base;

  template <class Lock, class Clock, class Duration>
  std::cv_status wait_until(Lock& lock, const std::chrono::time_point<Clock, Duration>& deadline) {
    return wait_while_time(lock, [&] { return nanoseconds_until(deadline); }) ? std::cv_status::no_timeout
                                                                              : std::cv_status::timeout;
  }
  template <class Lock, class Clock, class Duration, class Predicate>
  bool wait_until(Lock& lock, const std::chrono::time_point<Clock, Duration>& deadline, Predicate done) {
    while (!done())
      if (wait_until(lock, deadline) == std::cv_status::timeout) return done();
    return true;
  }

  template <class Lock, class Rep, class Period>
  std::cv_status wait_for(Lock& lock, const std::chrono::duration<Rep, Period>& d) {
    return wait_until(lock, from_now(d));
  }
  template <class Lock, class Rep, class Period, class Predicate>
  bool wait_for(Lock& lock, const std::chrono::duration<Rep, Period>& d, Predicate done) {
    return wait_until(lock, from_now(d), done);
  }
};

#ifdef USHER_RECORD
}  // namespace recorded
#endif

}  // namespace usher::inline v2
