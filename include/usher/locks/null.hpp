// Null: excludes no thread. A benchmark with this lock measures all costs except those of a lock.
//
// Source: Malthusian Locks §6.1: "null where the lock acquire and release operators are degenerate and return
// immediately. Null is suitable only for trivial microbenchmarks".
// Guarantees: none. The catalogue contains it because benchmarks take their locks from there. libusher.so and the
// command `usher` refuse it, since `excludes` is false in its traits.
// Cost: none.
// Layout: nothing.
#pragma once

#include "usher/core/waiting.hpp"

namespace usher::inline v2 {

template <platform P, class W>
class null {
 public:
  static constexpr lock_traits traits{
      .summary = "does nothing and excludes no thread: for measurements only",
      .paper = "Malthusian Locks, section 6.1",
      .words = 0,
      .kinds = static_cast<unsigned>(waiting_kind::spin_then_park),
      .excludes = false,
  };

  void lock() {}
  bool try_lock() { return true; }
  void unlock() {}
};

}  // namespace usher::inline v2
