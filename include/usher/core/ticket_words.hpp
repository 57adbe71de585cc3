// The two words that ticket locks share.
//
//     ticket   bits 31…1: the next number to be given out    bit 0: unused, 0
//     grant    bits 31…1: the number now served              bit 0: `asleep`: a waiter sleeps on grant or is about to
//
// Numbers wrap; comparisons are on differences. The lock is free when both numbers are equal; otherwise the number of
// waiters is ticket − grant − 1. At most 2^31 − 1 threads may wait.
#pragma once

#include <atomic>
#include <cstdint>

#include "usher/core/waiting.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2::ticket_words {

inline constexpr std::uint32_t one = 2;     ///< a step of a number
inline constexpr std::uint32_t asleep = 1;  ///< the mark in grant

constexpr std::uint32_t number(std::uint32_t word) {
  return word & ~asleep;
}

/// Returns how many unlocks remain until the number `mine` is served.
constexpr std::uint32_t distance(std::uint32_t mine, std::uint32_t grant) {
  return (mine - number(grant)) / one;
}

/// The bit of a futex mask under which the thread with this number sleeps.
constexpr std::uint32_t mask_of(std::uint32_t number) {
  return 1u << (number / one % 32);
}

/// Takes a number only if that number is served at once.
template <class Word>
bool try_lock(Word& ticket, Word& grant) {
  std::uint32_t next = ticket.load(std::memory_order_relaxed);
  // Acquire here and not in the compare-and-swap: the last owner wrote grant. If the compare-and-swap succeeds, ticket
  // was `next` all the time (it only grows, and wraps only after 2^31 acquisitions), so grant is still `next`, too.
  if (number(grant.load(std::memory_order_acquire)) != next) return false;
  return ticket.compare_exchange_strong(next, next + one, std::memory_order_relaxed, std::memory_order_relaxed);
}

/// Sleeps until the number or the mark `asleep` in `grant` differs from `seen`. May return spuriously.
template <platform P, class Word>
void park_on(Word& grant, std::uint32_t seen, std::uint32_t mask) {
  // Each sleeper sets the mark, even if the mark is already set. So an owner that clears the mark has acquired every
  // sleeper's ticket, not only the first one's. acq_rel orders the mark after this thread's ticket.
  if (!grant.compare_exchange_strong(seen, seen | asleep, std::memory_order_acq_rel, std::memory_order_relaxed)) return;
  P::park(grant, seen | asleep, mask);
}

template <platform P, class Word>
void sleep_until(Word& grant, std::uint32_t mine, std::uint32_t mask) {
  for (;;) {
    const std::uint32_t g = grant.load(std::memory_order_acquire);
    if (number(g) == mine) return;
    park_on<P>(grant, g, mask);
  }
}

template <platform P, class W, class Word>
void wait_until(Word& grant, std::uint32_t mine, std::uint32_t mask) {
  if (W::poll(grant, [mine](std::uint32_t g) { return number(g) == mine; })) return;
  if constexpr (W::parks) sleep_until<P>(grant, mine, mask);
}

/// Called by the owner: clears the mark if there are no waiters. `next` is the number after its own.
template <class Word>
[[gnu::cold, gnu::noinline]] void unmark(Word& ticket, Word& grant, std::uint32_t next) {
  if (ticket.load(std::memory_order_relaxed) != next) return;
  // A waiter draws its ticket before it sets the mark, and every sleeper sets the mark, even if it is already set. So
  // an operation that clears a waiter's mark acquires the waiter's ticket: then the second load sees the ticket, and
  // the mark is set again. That load is relaxed: it publishes no other data.
  grant.fetch_and(~asleep, std::memory_order_acq_rel);
  if (ticket.load(std::memory_order_relaxed) != next) grant.fetch_or(asleep, std::memory_order_relaxed);
}

/// The front end of ticket locks with two words side by side: the words, arrival, and try_lock().
template <platform P>
class front_end {
 public:
  bool try_lock() { return ticket_words::try_lock(ticket_, grant_); }

  /// For tests: sets the numbers in `ticket` and `grant` of a free lock to n.
  void count_from(std::uint32_t n) {
    ticket_.store(n * one, std::memory_order_relaxed);
    grant_.store(n * one, std::memory_order_relaxed);
  }

 protected:
  using word = typename P::template atomic<std::uint32_t>;

  /// The doorway: takes a number. Relaxed: the load of grant acquires the last owner's writes.
  std::uint32_t draw() { return ticket_.fetch_add(one, std::memory_order_relaxed); }

  bool served(std::uint32_t mine) const {
    // (1) acquire: pairs with (2), by which unlock() writes to grant.
    return number(grant_.load(std::memory_order_acquire)) == mine;
  }

  /// Called by the owner. Returns the number after its own.
  std::uint32_t following() const { return number(grant_.load(std::memory_order_relaxed)) + one; }

  std::uint32_t distance_of(std::uint32_t mine, std::memory_order order) const {
    return distance(mine, grant_.load(order));
  }

  word ticket_;
  word grant_;
};

}  // namespace usher::inline v2::ticket_words

#include "usher/core/shadow_end.h"
