// How to wait: the second parameter of every lock.
//
// A lock writes its slow path once:
//
//     if (auto v = W::poll(word, pred)) return *v;       // a spinning lock always returns here
//     if constexpr (W::parks) { … announce, P::park(…), wake by the one who hands over … }
//
// Two kinds differ at compile time: a lock that spins, and a lock that parks (its unlock has a wake in it). How long
// a parking lock stays awake first is a limit, read in the cold path. One that sleeps between looks is to its lock as one
// that spins: nobody wakes it.
#pragma once

#include <atomic>
#include <optional>

#include "usher/core/platform.hpp"
#include "usher/core/traits.hpp"

namespace usher::inline v1 {

template <platform P, waiting_kind K>
struct waiting {
  using platform_type = P;
  static constexpr waiting_kind kind = K;
  static constexpr bool parks = K != waiting_kind::spin && K != waiting_kind::sleep;

  /// Stays awake until `pred` holds of the word, or as long as this kind of waiting does: then nullopt.
  /// Orders: acquire, so that what the granting thread wrote is seen.
  template <class Word, class Pred>
  static auto poll(const Word& word, Pred pred) -> std::optional<decltype(word.load())> {
    constexpr auto acquire = std::memory_order_acquire;
    if constexpr (K == waiting_kind::spin)
      return P::await(word, pred, acquire);
    else if constexpr (K == waiting_kind::spin_then_park)
      return P::await_for(word, pred, acquire, P::limits().spin);
    else if constexpr (K == waiting_kind::yield_then_park)
      return P::await_yielding_for(word, pred, acquire, P::limits().yield);
    else if constexpr (K == waiting_kind::mwait_then_park)
      return P::await_monitoring_for(word, pred, acquire, P::limits().spin);
    else if constexpr (K == waiting_kind::sleep)
      return P::await_sleeping(word, pred, acquire, P::limits().sleep);
    else
      return P::await_for(word, pred, acquire, 0);
  }

  /// Waits for something that another thread is about to do (a link to be written, say): short, unless that thread
  /// has lost its CPU; then a lock that does not spin must not keep the CPU from it.
  template <class Word, class Pred>
  static auto await_soon(const Word& word, Pred pred) {
    if constexpr (K != waiting_kind::spin)
      return P::await_yielding(word, pred, std::memory_order_acquire);
    else
      return P::await(word, pred, std::memory_order_acquire);
  }

  /// How long an arriving thread contends for a word that others also want, in nanoseconds.
  static std::uint64_t patience() {
    if constexpr (!parks)
      return ~std::uint64_t{0};
    else if constexpr (K == waiting_kind::spin_then_park || K == waiting_kind::mwait_then_park)
      return P::limits().spin;
    else if constexpr (K == waiting_kind::yield_then_park)
      return P::limits().yield;
    else
      return 0;
  }
};

}  // namespace usher::inline v1
