// Locks with the suffix -yield, whose waiters yield their CPUs before they sleep.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

#include "usher/locks/loiter.hpp"
#include "usher/locks/mcscr.hpp"
#include "usher/locks/steady.hpp"
#include "usher/locks/ttas.hpp"
#include "usher/locks/twa.hpp"
#include "usher/platform/native.hpp"
#include "waiters.hpp"

namespace usher {
namespace {

/// Sums the time, in nanoseconds, for which waiters keep their CPUs by pausing.
struct pausing : native {
  static inline std::atomic<std::uint64_t> kept{0};
  static void backoff(std::uint32_t ns) {
    kept += ns;
    native::backoff(ns);
  }
};
using yielding = waiting<pausing, waiting_kind::yield_then_park>;

template <class Lock>
class yield_forms : public testing::Test {};
using locks = testing::Types<steady<pausing, yielding>, loiter<pausing, yielding>, ttas<pausing, yielding>,
                             twa<pausing, yielding>, mcscr<pausing, yielding>>;
TYPED_TEST_SUITE(yield_forms, locks);

TYPED_TEST(yield_forms, a_waiter_does_not_keep_its_cpu) {
  TypeParam lock{};
  lock.lock();
  pausing::kept = 0;
  auto waiter = test::asleep_in([&lock] {
    lock.lock();
    lock.unlock();
  });
  const std::uint64_t kept = pausing::kept;
  lock.unlock();
  waiter.join();
  // Some locks pause for a short, bounded time before a waiter joins the queue; the limit is far below the 1 ms of a
  // -yield form.
  EXPECT_LT(kept, 10000u);
}

}  // namespace
}  // namespace usher
