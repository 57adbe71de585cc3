// Null: no mutual exclusion. A benchmark under it shows the cost of everything but a lock.
//
// Source: Malthusian Locks §6.1: "null where the lock acquire and release operators are degenerate and return
// immediately. Null is suitable only for trivial microbenchmarks".
// Guarantees: none. It is in the catalogue for benchmarks that take locks from there; libusher.so and the command
// refuse it (`excludes` in its traits).
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
