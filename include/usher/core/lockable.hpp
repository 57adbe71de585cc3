// The contract of a lock. It is checked where a lock enters the catalogue, usher::mutex, the simulator or the checker.
// CONTRIBUTING.md has the part that no compiler can check.
//
//   lock(), try_lock(), unlock()   on one object by any number of threads. try_lock() never waits.
//   traits             the lock's guarantees, as data: traits.hpp
//   all zero bytes     are the free lock, and the destructor is trivial (natively; other platforms call constructor
//                      and destructor)
//   touched_after_hand_over   must not be a member. It marks a lock from a paper whose unlock() accesses the lock after
//                      the hand-over; only the simulator and the checker accept such a lock.
//
// Optional:
//
//   lock_as_guest()    as lock(), without a queue node
//   has_certain_successor()   called by the owner: true only if another thread is certain to get the lock next
//   unlock_is_due()    called by the owner: true if a thread that has waited long depends on this unlock (loiter.hpp)
//   urgent_wait()      called by the owner: true if a thread with a real-time priority waits
//   uncontended()      the word that is the lock's whole state while no thread waits: uncontended_word, below
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <type_traits>

#include "usher/core/traits.hpp"

namespace usher::inline v2 {

namespace lock_contract {

/// Instantiating this class is a compile error that names the members that L lacks, if any.
template <class L>
struct algorithm {
  static_assert(
      requires {
        { L::traits } -> std::same_as<const lock_traits&>;
      }, "a lock needs static constexpr lock_traits traits");
  static_assert(
      requires(L& l) {
        { l.lock() } -> std::same_as<void>;
      }, "a lock needs void lock()");
  static_assert(
      requires(L& l) {
        { l.try_lock() } -> std::same_as<bool>;
      }, "a lock needs bool try_lock()");
  static_assert(
      requires(L& l) {
        { l.unlock() } -> std::same_as<void>;
      }, "a lock needs void unlock()");
  static_assert(std::is_default_constructible_v<L>, "a lock needs a default constructor: the free lock");
  static constexpr bool looked_through = true;
};

template <class L>
consteval bool make() {
  [[maybe_unused]] const L lock{};
  return true;
}
template <class L>
concept constant_initialised = requires { typename std::bool_constant<make<L>()>; };

template <class L>
struct zero_bytes : algorithm<L> {
  static_assert(std::is_trivially_destructible_v<L>, "a lock's destruction is nothing: it needs a trivial destructor");
  static_assert(!std::is_trivially_destructible_v<L> || !std::is_default_constructible_v<L> || constant_initialised<L>,
                "all zero bytes are the free lock: a lock needs a constexpr default constructor");
  static_assert(
      !requires { L::touched_after_hand_over; },
      "unlock() of this lock accesses it after the hand-over, when its memory may be gone");
};

}  // namespace lock_contract

// These concepts are for static_assert and template heads, not for conditions: they are never false, because a missing
// member is a compile error that names the member.

/// The contract on any platform.
template <class L>
concept lock_algorithm = lock_contract::algorithm<L>::looked_through;

/// A lock for the native platform, on which all zero bytes must be the free lock. The compiler checks that the lock has
/// a constexpr default constructor and a trivial destructor, but not that the constructed bytes are zero.
template <class L>
concept lockable = lock_contract::zero_bytes<L>::looked_through;

/// The result of uncontended(). lock() of the free lock changes this word from 0 to `held`, unlock() without a waiter
/// changes it back, and neither writes anything else. So while no other thread can use the lock, a thread may lock and
/// unlock by plain loads and stores of this word.
template <class Word, class Value>
struct uncontended_word {
  Word& word;
  Value held;
};
template <class Word, class Value>
uncontended_word(Word&, Value) -> uncontended_word<Word, Value>;

/// For use in conditions: false if the lock has no uncontended().
template <class L>
concept has_uncontended_word =
    requires(L& l) { l.uncontended().word.store(l.uncontended().held, std::memory_order_relaxed); };

/// For use in conditions: whether the lock fits into the free bytes of a pthread_mutex_t.
template <class L>
concept embeddable = sizeof(L) <= 16 && alignof(L) <= 8;

}  // namespace usher::inline v2
