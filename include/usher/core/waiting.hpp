// How to wait: the second parameter of every lock.
//
// A lock writes its slow path once:
//
//     if (auto v = W::poll(word, pred)) return *v;       // a spinning lock always returns here
//     if constexpr (W::parks) { … announce, P::park(…), wake by the one who hands over … }
//
// Two kinds differ at compile time: a lock that spins, and a lock that parks (its unlock has a wake in it). How long
// a parking lock stays awake first is a limit, read in the cold path. One that sleeps between looks is to its lock as one
// that spins: nobody wakes it. Which ways there are is the table in ways_of_waiting.hpp.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "usher/core/lockable.hpp"
#include "usher/core/platform.hpp"
#include "usher/core/traits.hpp"

namespace usher::inline v1 {

template <platform P, waiting_kind K>
struct waiting {
  using platform_type = P;
  static constexpr waiting_kind kind = K;
  static constexpr way_of_waiting way = way_of(K);
  static constexpr bool parks = way.parks;

  /// Stays awake until `pred` holds of the word, or as long as this kind of waiting does: then nullopt.
  /// Orders: acquire, so that what the granting thread wrote is seen.
  template <class Word, class Pred>
  static auto poll(const Word& word, Pred pred) -> std::optional<decltype(word.load())> {
    constexpr auto acquire = std::memory_order_acquire;
    constexpr look::endless<way.looks> policy{};
    if constexpr (way.looks == look::by::sleeping)
      return P::await(word, pred, acquire, look::sleeping(limit()));
    else if constexpr (way.limit != nullptr)
      return P::await(word, pred, acquire, policy.within(limit()));
    else if constexpr (parks)
      return P::await(word, pred, acquire, policy.within(0));
    else
      return P::await(word, pred, acquire, policy);
  }

  /// Waits for something that another thread is about to do (a link to be written, say): short, unless that thread
  /// has lost its CPU; then a lock that does not spin must not keep the CPU from it.
  template <class Word, class Pred>
  static auto await_soon(const Word& word, Pred pred) -> decltype(word.load()) {
    if constexpr (!parks && way.wants_cpu)
      return P::await(word, pred, std::memory_order_acquire, look::polling);
    else
      return P::await(word, pred, std::memory_order_acquire, look::polling_then_yielding);
  }

  /// How long an arriving thread contends for a word that others also want, in nanoseconds.
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
    constexpr std::uint32_t wait_limits::*which = way.limit;  // not looked up in the table at run time
    return P::limits().*which;
  }
};

namespace waiting_contract {

/// Instantiated, it has said what is missing.
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

/// What a lock may ask of its second parameter. As the concepts of platforms: no question, what is missing is an error.
template <class W>
concept way_to_wait = waiting_contract::complete<W>::looked_through;

}  // namespace usher::inline v1
