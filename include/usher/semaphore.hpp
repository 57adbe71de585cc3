// A counting semaphore whose waiters are served first in, first out, or mostly last in, first out.
//
//     #include <usher/semaphore.hpp>
//
//     usher::semaphore s(5);                                         // 5 credits; first in, first out
//     usher::semaphore l(0, usher::append_probability(0.001));       // mostly last in, first out
//     s.acquire();  s.try_acquire();  s.try_acquire_for(1s);  s.release();
//
// Guarantees, cost and algorithm: core/semaphore_core.hpp. release() never waits and may be called from a signal
// handler. It does not touch the semaphore after it has woken a waiter, which may destroy it. Nothing is allocated.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "usher/core/deadline.hpp"
#include "usher/core/platform.hpp"
#include "usher/core/semaphore_core.hpp"
#include "usher/platform/native.hpp"
#ifdef USHER_RECORD
#include "usher/platform/native/recorded.hpp"
#endif

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

static_assert(sizeof(semaphore_core<native>) == 32);

#ifdef USHER_RECORD
namespace unrecorded {
#endif

/// A semaphore of 40 bytes with the interface of std::counting_semaphore and a choice of the order of service.
class semaphore {
  using core = semaphore_core<native>;

 public:
  static constexpr std::ptrdiff_t max() noexcept { return core::max; }

  /// `credits` above max() counts as max(), below 0 as 0.
  constexpr explicit semaphore(std::ptrdiff_t credits = 0, append_probability probability = {})
      : core_(clamped(credits)), probability_(probability) {}
  semaphore(const semaphore&) = delete;
  semaphore& operator=(const semaphore&) = delete;

  /// Adds n credits, or only as many as are missing to max(). May be called from a signal handler.
  void release(std::ptrdiff_t n = 1) {
    if (n == 1)
      release_one();
    else
      core_.release(clamped(n));
  }
  /// Adds a credit. Returns false, and adds none, if there are already max() credits.
  bool release_one() { return core_.release(); }

  [[nodiscard]] bool try_acquire() { return core_.try_acquire(); }

  void acquire() {
    if (core_.try_acquire()) return;
    wait([](waiter& me) {
      native::park(me.state, waiter::waiting, every_sleeper);
      return core::wait_end::woken;
    });
  }

  template <class Rep, class Period>
  [[nodiscard]] bool try_acquire_for(const std::chrono::duration<Rep, Period>& d) {
    return try_acquire_until(from_now(d));
  }

  template <class Clock, class Duration>
  [[nodiscard]] bool try_acquire_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    return acquire_while_time([&] { return nanoseconds_until(deadline); });
  }

  /// `remaining()` returns the nanoseconds left until the deadline. At 0 the wait ends and the result is false.
  template <class Remaining>
  bool acquire_while_time(Remaining remaining) {
    return core_.try_acquire() || wait([&](waiter& me) {
             const std::uint64_t left = remaining();
             if (left == 0) return core::wait_end::leave;
             native::park_for(me.state, waiter::waiting, every_sleeper, left);
             return core::wait_end::woken;
           });
  }

 private:
  using waiter = core::waiter;

  static constexpr std::uint32_t clamped(std::ptrdiff_t n) {
    return n < 0 ? 0 : n < max() ? std::uint32_t(n) : core::max;
  }

  /// `sleep(waiter)`: see semaphore_core::wait().
  template <class Sleep>
  [[gnu::cold]] bool wait(Sleep sleep) {
    waiter me;
    return core_.wait(me, probability_, [&] { return sleep(me); });
  }

  core core_;
  append_probability probability_;
};

#ifdef USHER_RECORD
}  // namespace unrecorded

inline namespace recorded {  // mutex.hpp says why

class semaphore : public native_detail::recorded_semaphore<unrecorded::semaphore> {
 public:
  using recorded_semaphore::recorded_semaphore;
};

}  // namespace recorded
#endif

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
