// Ways of waiting: the second template parameter of every lock.
//
// Each lock has one slow path for all ways of waiting:
//
//     if (auto v = W::poll(word, pred)) return *v;       // in a spinning lock poll() always returns a value
//     if constexpr (W::parks) { … announce, P::park(…), woken by the hand-over … }
//
// A lock is compiled as one of two kinds: one that spins, and one that parks (its unlock contains a wake-up). A waiter
// of a parking lock stays awake for a limited time before it sleeps; the limit is read in the cold path. A way of
// waiting that sleeps between loads counts as spinning, because no thread wakes the waiter. The ways of waiting are
// listed in ways_of_waiting.hpp.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "usher/core/lockable.hpp"
#include "usher/core/platform.hpp"
#include "usher/core/traits.hpp"

namespace usher::inline v2 {

template <platform P, waiting_kind K>
struct waiting {
  using platform_type = P;
  static constexpr waiting_kind kind = K;
  static constexpr way_of_waiting way = way_of(K);
  static constexpr bool parks = way.parks;

  /// Polls the word. Returns its value as soon as `pred` holds for it, or nullopt at the limit of this way of waiting.
  /// The loads are acquire, so that the waiter sees the granting thread's writes.
  template <class Word, class Pred>
  static auto poll(const Word& word, Pred pred) -> std::optional<decltype(word.load())> {
    constexpr auto acquire = std::memory_order_acquire;
    constexpr pacing::endless<way.pace> policy{};
    if constexpr (way.pace == pacing::by::sleeping)
      return P::await(word, pred, acquire, pacing::sleeping(limit()));
    else if constexpr (way.limit != nullptr)
      return P::await(word, pred, acquire, policy.within(limit()));
    else if constexpr (parks)
      return P::await(word, pred, acquire, policy.within(0));
    else
      return P::await(word, pred, acquire, policy);
  }

  /// Waits for a step that another thread is about to take, such as the write of a link. The wait is short, unless that
  /// thread has lost its CPU: then a waiter of a lock that does not spin must not keep the CPU from it.
  template <class Word, class Pred>
  static auto await_soon(const Word& word, Pred pred) -> decltype(word.load()) {
    if constexpr (!parks && way.wants_cpu)
      return P::await(word, pred, std::memory_order_acquire, pacing::polling);
    else
      return P::await(word, pred, std::memory_order_acquire, pacing::polling_then_yielding);
  }

  /// How long an arriving thread competes for a word before it queues, in nanoseconds.
  static std::uint64_t spin_budget() {
    if constexpr (!parks)
      return ~std::uint64_t{0};
    else if constexpr (way.limit != nullptr)
      return limit();
    else
      return 0;
  }

 private:
  static std::uint32_t limit() {
    constexpr std::uint32_t wait_limits::*which =
        way.limit;  // known at compile time: no look-up in the table at run time
    return P::limits().*which;
  }
};

/// Pauses an arriving thread for about `ns` nanoseconds between two attempts at a word. With a way of waiting that
/// yields the CPU, the thread yields here, too, because the thread that will change the word may need this CPU; then
/// the pause ends as soon as `pred` holds for the word.
template <platform P, class W, class Word, class Pred>
void pause_between_attempts(const Word& word, Pred pred, std::uint32_t ns) {
  if constexpr (way_of(W::kind).pace == pacing::by::yielding)
    P::await(word, pred, std::memory_order_relaxed, pacing::yielding.within(ns));
  else
    P::backoff(ns);
}

namespace waiting_contract {

/// Instantiating this class is a compile error that names the members that W lacks, if any.
template <class W>
struct complete {
  using word = typename W::platform_type::template atomic<std::uint32_t>;
  using pred = bool (*)(std::uint32_t);

  static_assert(
      requires { requires std::same_as<decltype(W::kind), const waiting_kind>; },
      "a way of waiting needs the constant waiting_kind kind");
  static_assert(
      requires { typename std::bool_constant<W::parks>; }, "a way of waiting needs the constant bool parks");
  static_assert(
      requires(const word& w, pred p) {
        { W::poll(w, p) } -> std::same_as<std::optional<std::uint32_t>>;
      }, "a way of waiting needs poll(word, pred)");
  static_assert(
      requires(const word& w, pred p) {
        { W::await_soon(w, p) } -> std::same_as<std::uint32_t>;
      }, "a way of waiting needs await_soon(word, pred)");
  static_assert(
      requires {
        { W::spin_budget() } -> std::same_as<std::uint64_t>;
      }, "a way of waiting needs spin_budget()");
  static constexpr bool looked_through = true;
};

}  // namespace waiting_contract

/// The contract of a lock's second template parameter. Not for conditions: a missing member is a compile error.
template <class W>
concept way_to_wait = waiting_contract::complete<W>::looked_through;

}  // namespace usher::inline v2
