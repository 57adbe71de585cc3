// Naps: sleeps of waiters that only a timer ends, on systems with precise and with late timers.
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "usher/locks/steady.hpp"
#include "usher/platform/native.hpp"

namespace usher {
namespace {

using namespace std::chrono_literals;

/// Counts naps. Reports the system's timers as precise or late, whichever the test has set.
struct napping : native {
  static inline std::atomic<unsigned> naps{0};
  static inline std::atomic<bool> in_time{true};
  static void nap(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint32_t mask, std::uint64_t ns,
                  std::uint32_t bits) {
    naps++;
    native::nap(word, expected, mask, ns, bits);
  }
  static bool naps_end_in_time() { return in_time; }
};

/// Returns the number of naps of a waiter beside a thread that holds the lock four times in a row, for 200 µs each. The
/// waiter is always woken too late to acquire the lock in between.
unsigned naps_beside_bursts(bool in_time) {
  napping::in_time = in_time;
  napping::naps = 0;
  steady<napping, waiting<napping, waiting_kind::spin_then_park>> lock{};
  std::atomic<bool> over = false;
  {
    const std::jthread waiter([&] {
      while (!over) {
        lock.lock();
        lock.unlock();
      }
    });
    const auto end = std::chrono::steady_clock::now() + 5s;
    while (napping::naps == 0 && std::chrono::steady_clock::now() < (in_time ? end : end - 4s))
      for (int i = 0; i < 4; i++) {
        lock.lock();
        std::this_thread::sleep_for(200us);  // the waiter sleeps
        lock.unlock();
      }
    over = true;
  }
  return napping::naps;
}

TEST(naps, of_a_standby_that_was_woken_too_late) {
  EXPECT_GT(naps_beside_bursts(true), 0u);
  EXPECT_EQ(naps_beside_bursts(false), 0u);
}

// The kernel ends each sleep late, by up to the timer slack. systemd's TimerSlackNSec or prctl() in a program sets it.
TEST(naps, late_ones_are_noticed) {
  const std::atomic<std::uint32_t> word{0};
  const auto nap = [&word] { native::nap(word, 0, every_sleeper, 50000, 0); };
  EXPECT_TRUE(native::naps_end_in_time());  // none has been late so far
  std::jthread([&] {
    ASSERT_EQ(prctl(PR_SET_TIMERSLACK, 50000000), 0);
    for (int i = 0; i < 60 && native::naps_end_in_time(); i++) nap();
    EXPECT_FALSE(native::naps_end_in_time());
  }).join();
}

}  // namespace
}  // namespace usher
