// Naps: short sleeps of a waiter that only a timer ends. They are tested on systems with precise and with late timers.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

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

/// Returns the number of naps of a waiter. Another thread holds the lock four times in a row, for 200 µs each, and an
/// unlock always wakes the waiter too late to acquire the lock in between.
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

// A process is stopped by SIGSTOP while eight of its threads nap. All eight naps end late, but this counts as one late
// nap, so that naps are still used.
TEST(naps, a_stop_of_the_process_counts_once) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    const std::atomic<std::uint32_t> word{0};
    std::atomic<unsigned> late{0};
    {
      std::vector<std::jthread> threads;
      std::barrier all(9);
      for (int i = 0; i < 8; i++)
        threads.emplace_back([&] {
          all.arrive_and_wait();
          const auto began = std::chrono::steady_clock::now();
          native::nap(word, 0, every_sleeper, 20000000, 0);
          late += std::chrono::steady_clock::now() - began > 25ms;
        });
      all.arrive_and_wait();
      std::this_thread::sleep_for(2ms);
      if (write(ready[1], "", 1) != 1) _exit(3);
    }
    _exit(late < 3 ? 2 : native::naps_end_in_time() ? 0 : 1);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(kill(child, SIGSTOP), 0);
  std::this_thread::sleep_for(60ms);
  ASSERT_EQ(kill(child, SIGCONT), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "the naps were over before the process was stopped";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  close(ready[0]), close(ready[1]);
}

// Waiters of four locks nap at overlapping times, and each nap ends up to 50 ms late. Late naps that overlap count
// once; a nap that begins after the last counted one has ended counts again. So the process soon stops using naps.
TEST(naps, late_ones_of_four_locks_are_noticed) {
  const pid_t child = fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    std::array<std::atomic<std::uint32_t>, 4> words{};
    {
      std::vector<std::jthread> threads;
      for (auto& word : words) {
        threads.emplace_back([&word] {
          if (prctl(PR_SET_TIMERSLACK, 50000000) != 0) _exit(2);
          for (int i = 0; i < 20 && native::naps_end_in_time(); i++) native::nap(word, 0, every_sleeper, 50000, 0);
        });
        std::this_thread::sleep_for(12ms);
      }
    }
    _exit(native::naps_end_in_time() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// cost_of_sleep() estimates the cost of a wake-up, and limits the time of polling. A single slow wake-up changes the
// estimate by less than a quarter. Many slow ones raise it to 50 µs at most, and quick ones bring it down again.
TEST(cost_of_sleep, follows_many_wake_ups) {
  constexpr std::uint64_t limit = native_detail::default_spin;
  for (int i = 0; i < 200; i++) native::note_wake(1000);  // forgets what other tests have measured
  EXPECT_EQ(native::cost_of_sleep(limit), limit);
  native::note_wake(1000000);
  EXPECT_LT(native::cost_of_sleep(limit), limit * 5 / 4);
  for (int i = 0; i < 1000; i++) native::note_wake(1000000);
  EXPECT_EQ(native::cost_of_sleep(limit), 50000u);
  EXPECT_EQ(native::cost_of_sleep(limit + 1), limit + 1);
  for (int i = 0; i < 80; i++) native::note_wake(1000);
  EXPECT_EQ(native::cost_of_sleep(limit), limit);
}

// The kernel ends each sleep late, by up to the timer slack. systemd's TimerSlackNSec or prctl() in a program sets it.
TEST(naps, late_ones_are_noticed) {
  const std::atomic<std::uint32_t> word{0};
  const auto nap = [&word] { native::nap(word, 0, every_sleeper, 50000, 0); };
  EXPECT_TRUE(native::naps_end_in_time());  // no nap has been late so far
  std::jthread([&] {
    ASSERT_EQ(prctl(PR_SET_TIMERSLACK, 50000000), 0);
    for (int i = 0; i < 60 && native::naps_end_in_time(); i++) nap();
    EXPECT_FALSE(native::naps_end_in_time());
  }).join();
}

}  // namespace
}  // namespace usher
