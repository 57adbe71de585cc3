// Sleeping and waking by the kernel's futex, the clock by which sleeps are measured, and asymmetric fences by
// membarrier.
//
// The word that a wake() names may have been freed by then: core/platform.hpp. errno belongs to the program: no
// function here changes it. No function here is a cancellation point.
#pragma once

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <time.h>

#include <atomic>
#include <cstdint>

#include "usher/core/platform.hpp"
#include "usher/core/timespec.hpp"
#include "usher/platform/native/clock.hpp"
#include "usher/platform/native/probes.hpp"
#include "usher/platform/native/system_call.h"
#include "usher/platform/native/wait_tally.hpp"

namespace usher::inline v2::native_detail {

/// Returns the nanoseconds of the clock to which the time-outs of FUTEX_WAIT_BITSET refer.
inline std::uint64_t now() {
  const timespec t = clocks::read(CLOCK_MONOTONIC);
  return std::uint64_t(t.tv_sec) * 1000000000u + std::uint64_t(t.tv_nsec);
}

/// The time left until a time on a clock, for timed_waiters.hpp. A sleep with this deadline ends by that clock, even if
/// the clock is set meanwhile or jumps after a suspend of the machine.
struct clock_deadline {
  clockid_t clock;  ///< CLOCK_REALTIME or CLOCK_MONOTONIC
  timespec until;
  std::uint64_t operator()() const { return nanoseconds_between(clocks::read(clock), until); }
};

/// The default limit of polling before a sleep, in ns: 20,000 cycles at 3.6 GHz, a context switch's round trip
/// according to the Malthusian paper (§5, the machine of §6).
inline constexpr std::uint32_t default_spin = 5555;

struct sleeping {
  static void park(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint32_t mask) {
    USHER_PROBE1(sleep, key_of(word).word);
    count_sleep();
    futex(key_of(word).word, FUTEX_WAIT_BITSET_PRIVATE, expected, nullptr, mask);
  }

  static void park(const std::atomic<std::uint64_t>& word, std::uint64_t expected, std::uint32_t mask) {
    USHER_PROBE1(sleep, key_of(word).word);
    count_sleep();
    futex(key_of(word).word, FUTEX_WAIT_BITSET_PRIVATE, std::uint32_t(expected >> 32), nullptr, mask);
  }

  static void park_for(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint32_t mask,
                       std::uint64_t ns) {
    sleep_until(word, expected, mask, now() + ns);
  }

  static void park_until(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint32_t mask,
                         const clock_deadline& end) {
    USHER_PROBE1(sleep, key_of(word).word);
    count_sleep();
    const int clock = end.clock == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0;
    futex(key_of(word).word, FUTEX_WAIT_BITSET_PRIVATE | clock, expected, &end.until, mask);
  }

  static void nap(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint32_t mask, std::uint64_t ns,
                  std::uint32_t) {
    const std::uint64_t end = now() + ns;
    sleep_until(word, expected, mask, end);
    note_nap(end);
  }

  /// Returns whether short sleeps end in time. They do not with a large timer slack (systemd's TimerSlackNSec,
  /// PR_SET_TIMERSLACK). After three naps in a row, of any threads, that ended at least 5 ms late, returns false for a
  /// thousand times the last delay, at most 100 s. A late nap counts only if its end was due after the last counted nap
  /// had ended, because all threads share the delay when a process is stopped. A single late nap may have waited for a
  /// CPU; on a machine that is loaded for long, three in a row may have, too. The slack is not queried, because a
  /// system-call filter may kill the process for the query.
  static bool naps_end_in_time() {
    const std::uint64_t until = no_naps_until.load(std::memory_order_relaxed);
    return until == 0 || now() >= until;
  }

  static wake_key key_of(const std::atomic<std::uint32_t>& word) {
    return {const_cast<void*>(static_cast<const void*>(&word))};
  }

  static wake_key key_of(const std::atomic<std::uint64_t>& word) {
    constexpr bool little_endian = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    auto* bytes = const_cast<char*>(static_cast<const char*>(static_cast<const void*>(&word)));
    return {bytes + (little_endian ? 4 : 0)};
  }

  static void wake(wake_key key, std::uint32_t mask, int most) {
    USHER_PROBE2(wake, key.word, most);
    futex(key.word, FUTEX_WAKE_BITSET_PRIVATE, std::uint32_t(most), nullptr, mask);
  }

  /// Called by a thread whose wake-up of another thread took `ns`. A time too short for a wake-up is ignored: the other
  /// thread was not asleep yet. This is not part of wake(), because a debugger that executes wake() one instruction at
  /// a time would never leave the vDSO's clock function, which repeats a reading that a timer tick has interrupted.
  static void note_wake(std::uint64_t ns) {
    if (ns < least_wake) return;
    const std::uint32_t t = wake_time.load(std::memory_order_relaxed), step = t / 32 + 1;
    const std::uint32_t longer = t + 3 * step < most_wake ? t + 3 * step : most_wake;
    wake_time.store(ns > t ? longer : t > step ? t - step : 1, std::memory_order_relaxed);
  }

  /// Returns the cost of a sleep, in ns, if `limit` is the default limit of polling: three times the time that a
  /// wake-up takes the waking thread, at least the limit and at most 50 µs. The factor 3 is the ratio of the time until
  /// the woken thread runs to the duration of the call, on two virtual machines (lab/pages: calibration). Other limits
  /// are returned unchanged.
  static std::uint64_t cost_of_sleep(std::uint64_t limit) {
    if (limit != default_spin) return limit;
    const std::uint64_t cost = 3 * std::uint64_t{wake_time.load(std::memory_order_relaxed)};
    return cost < limit ? limit : cost < most_cost ? cost : most_cost;
  }

 private:
  static constexpr std::uint64_t late = 5000000, most_late = 100000000, off_for = 1000;  // ns, ns, a factor. Chosen
  static constexpr std::uint32_t late_in_a_row = 3;                                      // chosen
  static inline constinit std::atomic<std::uint64_t> no_naps_until{0};
  static inline constinit std::atomic<std::uint32_t> late_naps{0};
  static inline constinit std::atomic<std::uint64_t> last_late_ended{0};  // the end of the last late nap that counted

  static constexpr std::uint64_t most_cost = 50000;  // ns. Chosen
  static constexpr std::uint64_t least_wake = 400;   // ns. Chosen: a futex call that wakes no thread takes 200 to 350
  static constexpr std::uint32_t most_wake = most_cost / 3 + 1;  // a greater estimate would not change the cost
  /// The time that a wake-up takes the waking thread, in ns; at first the time that the default limit of polling
  /// implies. It estimates the third quartile: a shorter call lowers the estimate by 1/32 of it, a longer one raises it
  /// by 3/32. (A call is short if the woken thread must wait for a CPU, and takes long if this thread takes the
  /// caller's CPU.)
  static inline constinit std::atomic<std::uint32_t> wake_time{default_spin / 3};

  static void note_nap(std::uint64_t end) {
    const std::uint64_t ended = now();
    if (ended < end) return;  // woken, or not asleep at all: no evidence about the timer
    if (ended < end + late) {
      if (late_naps.load(std::memory_order_relaxed) != 0) late_naps.store(0, std::memory_order_relaxed);
    } else if (std::uint64_t last = last_late_ended.load(std::memory_order_relaxed);
               end < last || !last_late_ended.compare_exchange_strong(last, ended, std::memory_order_relaxed)) {
      return;  // late together with the last counted nap: of two that end at the same time, one counts
    } else if (late_naps.fetch_add(1, std::memory_order_relaxed) + 1 >= late_in_a_row) {
      late_naps.store(0, std::memory_order_relaxed);
      // The delay is limited, because a process may have been stopped meanwhile (SIGSTOP, a paused virtual machine).
      const std::uint64_t by = ended - end < most_late ? ended - end : most_late;
      no_naps_until.store(ended + by * off_for, std::memory_order_relaxed);
    }
  }

  static void sleep_until(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint32_t mask,
                          std::uint64_t end) {
    const timespec t{time_t(end / 1000000000u), long(end % 1000000000u)};
    USHER_PROBE1(sleep, key_of(word).word);
    count_sleep();
    futex(key_of(word).word, FUTEX_WAIT_BITSET_PRIVATE, expected, &t, mask);
  }

  /// Not inlined, because in lock functions it would take registers from their fast paths.
  [[gnu::noinline]] static void futex(void* word, int op, std::uint32_t value, const timespec* timeout,
                                      std::uint32_t mask) {
    system_call(SYS_futex, word, op, value, timeout, nullptr, mask);
  }
};

struct fences {
  /// Only a compiler fence: the heavy fence makes every other thread pass a real one.
  static void fence_light() { std::atomic_signal_fence(std::memory_order_seq_cst); }

  /// Every running thread of the process executes a full memory barrier during the call, between two of its
  /// instructions; a thread that does not run has already executed one. Linux 4.14; false where it is refused.
  static bool fence_heavy() {
    constexpr long not_registered = -1;  // EPERM: the process has not registered for it yet
    long answer = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    if (answer == not_registered && prepare_heavy_fences()) answer = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    return answer == 0;
  }

  /// Registers the process for heavy fences. The call is cheap while the process has one thread and takes milliseconds
  /// later, so programs that need heavy fences should call it early.
  static bool prepare_heavy_fences() { return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0; }

 private:
  static long membarrier(int command) { return system_call(SYS_membarrier, command, 0); }
};

}  // namespace usher::inline v2::native_detail
