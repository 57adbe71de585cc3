// Waiting without sleeping: the pause instruction, the policies of await(), and the pause of a retry loop.
//
// A waiter that never sleeps may hold the CPU that the awaited thread needs. So a waiter that polls for longer than
// about a microsecond yields its CPU between loads. If the wait has no limit, the waiter finally sleeps for short
// times, because a thread of lower real-time priority gets no CPU from a yield. await() with pacing::polling and no
// limit does neither: spin locks need a CPU for each thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "usher/core/platform.hpp"
#include "usher/platform/monitor.hpp"
#include "usher/platform/native/futex.hpp"
#include "usher/platform/native/state.hpp"
#include "usher/platform/native/system_call.h"
#include "usher/platform/native/wait_tally.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2::native_detail {

struct polling {
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    // Not `yield`, which current processors ignore; `isb` takes about as long as x86's pause (rust-lang/rust, pull
    // request 84725, measured on Graviton2).
    __asm__ __volatile__("isb" ::: "memory");
#endif
  }

  template <class Word, class Pred>
  static auto await(const Word& word, Pred pred, std::memory_order order, pacing::endless<pacing::by::polling>)
      -> decltype(word.load()) {
    for (std::uint64_t polls = 0;; polls++) {
      const auto v = word.load(order);
      if (pred(v)) {
        count_polls(polls);
        return v;
      }
      pause();
    }
  }

  /// Polls, and yields between loads after about a microsecond. A yield without effect costs about as much as a few
  /// pauses.
  template <class Word, class Pred>
  static auto await(const Word& word, Pred pred, std::memory_order order, pacing::within<pacing::by::polling> limit)
      -> std::optional<decltype(word.load())> {
    return await_until(word, pred, order, limit.ns, [](unsigned i) { i < yields_after ? pause() : give_way(); });
  }

  template <class Word, class Pred>
  static auto await(const Word& word, Pred pred, std::memory_order order, pacing::within<pacing::by::yielding> limit)
      -> std::optional<decltype(word.load())> {
    return await_until(word, pred, order, limit.ns, [](unsigned) { give_way(); });
  }

  /// Polls, then yields, then sleeps for short times between loads. The opening comment has the reason.
  template <class Word, class Pred>
  static auto await(const Word& word, Pred pred, std::memory_order order,
                    pacing::endless<pacing::by::polling_then_yielding>) -> decltype(word.load()) {
    if (auto v = await(word, pred, order, pacing::polling.within(1000))) return *v;
    if (auto v = await(word, pred, order, pacing::yielding.within(100000))) return *v;
    for (;;) {
      backoff(sleep_from);
      const auto v = word.load(order);
      if (pred(v)) return v;
    }
  }

  template <class Word, class Pred>
  static auto await(const Word& word, Pred pred, std::memory_order order, pacing::endless<pacing::by::sleeping> policy)
      -> decltype(word.load()) {
    for (;; sleep_for(policy.period)) {
      const auto v = word.load(order);
      if (pred(v)) return v;
    }
  }

  /// Waits by an instruction of monitor.hpp if the processor has one.
  template <class Word, class Pred>
  static auto await(const Word& word, Pred pred, std::memory_order order, pacing::within<pacing::by::monitoring> limit)
      -> std::optional<decltype(word.load())> {
    using namespace native_detail;
    auto& known = usher_process_state.monitor;
    std::uint32_t can = known.load(std::memory_order_relaxed);
    if (can == 0) [[unlikely]]
      known.store(can = find_monitor(), std::memory_order_relaxed);
    switch (can) {
#if defined(__x86_64__)
      case monitor_umwait:
        return await_by_monitor<umwait>(word, pred, order, limit.ns, now);
      case monitor_mwaitx:
        return await_by_monitor<mwaitx>(word, pred, order, limit.ns, now);
#elif defined(__aarch64__)
      case monitor_wfet:
        return await_by_monitor<wfet>(word, pred, order, limit.ns, now);
      case monitor_wfe:
        return await_by_monitor<wfe>(word, pred, order, limit.ns, now);
#endif
      default:
        return await(word, pred, order, pacing::polling.within(limit.ns));
    }
  }

  static void backoff(std::uint32_t ns) {
    if (ns >= sleep_from) return sleep_for(ns);
    const std::uint64_t end = now() + ns;
    do pause();
    while (now() < end);
  }

 private:
  static void give_way() { system_call(SYS_sched_yield); }

  static constexpr unsigned yields_after = 32;        // loads
  static constexpr std::uint32_t sleep_from = 50000;  // ns; a shorter sleep costs more than it saves

  /// Not inlined, because in lock functions it would take registers from their fast paths.
  [[gnu::cold, gnu::noinline]] static void sleep_for(std::uint64_t ns) {
    // Not by nanosleep(), which is a cancellation point; lock functions must not contain one.
    std::atomic<std::uint32_t> nothing{0};
    sleeping::park_for(nothing, 0u, every_sleeper, ns);
  }

  template <class Word, class Pred, class Pause>
  static auto await_until(const Word& word, Pred pred, std::memory_order order, std::uint64_t ns, Pause relax)
      -> std::optional<decltype(word.load())> {
    std::uint64_t end = 0;
    for (unsigned i = 0;; i++) {
      const auto v = word.load(order);
      if (pred(v)) {
        count_polls(i);
        return v;
      }
      if (i % 8 == 0) {  // reading the clock costs about as much as eight loads of the word
        const std::uint64_t t = ns != 0 ? now() : 0;
        if (i == 0) end = t + ns;
        if (t >= end) {
          count_polls(i + 1);
          return std::nullopt;
        }
      }
      relax(i);
    }
  }
};

}  // namespace usher::inline v2::native_detail

#include "usher/core/shadow_end.h"
