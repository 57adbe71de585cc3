// A lock compiled for the checker, as a table of functions, so that one scenario serves all locks. Generated
// translation units (check/engine/lock.cpp.in) add their tables to the list of targets.
#pragma once

#include <concepts>
#include <cstddef>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "check/engine/checked_platform.hpp"
#include "usher/core/lockable.hpp"
#include "usher/core/traits.hpp"
#include "usher/core/waiting.hpp"

namespace usher::check {

struct checked_lock {
  std::string name, family;
  std::string mutation;  ///< the mutant's change; empty for the shipped lock
  const lock_traits* traits;
  std::size_t size;
  void (*make)(void*);
  void (*end)(void*);
  void (*lock)(void*);
  bool (*try_lock)(void*);
  void (*unlock)(void*);
  void (*lock_as_guest)(void*);          ///< null if the lock has no guests
  bool (*has_certain_successor)(void*);  ///< null here and in the next two if the lock does not define the function
  bool (*unlock_is_due)(void*);
  bool (*urgent_wait)(void*);
  void (*lock_with_deadline)(void*);           ///< the deadline never comes; null if the lock does not define it
  void (*lock_without_deadline)(void*);        ///< null if the lock does not define it
  void (*count_from)(void*, std::uint32_t);    ///< null if the lock does not count
  void (*expect_holds)(void*, std::uint64_t);  ///< null if the lock does not measure its holds
  bool is_had_when_freed;                      ///< see check/timed_locks.hpp
  bool goes_past_stopped;                      ///< see the scenario `stopped`
  bool announces_doorway;                      ///< calls P::doorway() itself (core/inflatable.hpp)
  bool entry_for_each_node;                    ///< its table has an entry for each NUMA node
  bool touched_after_hand_over;                ///< its memory outlives all calls (tkt_dual_variants.hpp)
};

std::vector<checked_lock>& checked_locks();
void add_to_list(checked_lock& table, const char* family, const char* suffix, const char* mutation);

/// Any lock of the list, with the members that a condition variable requires of its mutex.
struct lock_handle {
  const checked_lock* table;
  void* state;
  void lock() const { table->lock(state); }
  bool try_lock() const { return table->try_lock(state); }
  void unlock() const { table->unlock(state); }
  // Returns false if the lock does not define the function. Then every unlock of the lock may hand over to a requeued
  // thread.
  bool has_certain_successor() const {
    return table->has_certain_successor != nullptr && table->has_certain_successor(state);
  }
  bool unlock_is_due() const { return table->unlock_is_due != nullptr && table->unlock_is_due(state); }
  bool urgent_wait() const { return table->urgent_wait != nullptr && table->urgent_wait(state); }
};

/// The locks that scenarios of other targets use as a mutex: some with hand-over, some with concurrency restriction,
/// some with barging.
const std::vector<const checked_lock*>& mutexes();

template <class Lock>
void add_lock(const char* family, const char* suffix, const char* mutation) {
  constexpr bool touched_after_hand_over = requires { Lock::touched_after_hand_over; };
  checked_lock t{.name = {},
                 .family = {},
                 .mutation = {},
                 .traits = &Lock::traits,
                 .size = sizeof(Lock),
                 .make = [](void* at) { ::new (at) Lock{}; },
                 .end = [](void* l) { static_cast<Lock*>(l)->~Lock(); },
                 .lock = [](void* l) { static_cast<Lock*>(l)->lock(); },
                 .try_lock = [](void* l) { return static_cast<Lock*>(l)->try_lock(); },
                 .unlock = [](void* l) { static_cast<Lock*>(l)->unlock(); },
                 .lock_as_guest = nullptr,
                 .has_certain_successor = nullptr,
                 .unlock_is_due = nullptr,
                 .urgent_wait = nullptr,
                 .lock_with_deadline = nullptr,
                 .lock_without_deadline = nullptr,
                 .count_from = nullptr,
                 .expect_holds = nullptr,
                 .is_had_when_freed = false,
                 .goes_past_stopped = false,
                 .announces_doorway = requires {Lock::announces_doorway;
}
, .entry_for_each_node = requires { Lock::entry_for_each_node; }, .touched_after_hand_over = touched_after_hand_over
};  // namespace usher::check
if constexpr (requires(Lock& l) { l.lock_as_guest(); })
  t.lock_as_guest = [](void* l) { static_cast<Lock*>(l)->lock_as_guest(); };
if constexpr (requires(Lock& l) { l.has_certain_successor(); })
  t.has_certain_successor = [](void* l) { return static_cast<Lock*>(l)->has_certain_successor(); };
if constexpr (requires(Lock& l) { l.unlock_is_due(); })
  t.unlock_is_due = [](void* l) { return static_cast<Lock*>(l)->unlock_is_due(); };
if constexpr (requires(Lock& l) { l.urgent_wait(); })
  t.urgent_wait = [](void* l) { return static_cast<Lock*>(l)->urgent_wait(); };
if constexpr (requires(Lock& l) { l.lock_with_deadline(); })
  t.lock_with_deadline = [](void* l) { static_cast<Lock*>(l)->lock_with_deadline(); };
if constexpr (requires(Lock& l) { l.lock_without_deadline(); })
  t.lock_without_deadline = [](void* l) { static_cast<Lock*>(l)->lock_without_deadline(); };
if constexpr (requires(Lock& l) { l.count_from(0u); })
  t.count_from = [](void* l, std::uint32_t n) { static_cast<Lock*>(l)->count_from(n); };
if constexpr (requires(Lock& l) { l.expect_holds(0u); })
  t.expect_holds = [](void* l, std::uint64_t ns) { static_cast<Lock*>(l)->expect_holds(ns); };
if constexpr (requires { Lock::is_had_when_freed; }) t.is_had_when_freed = Lock::is_had_when_freed;
if constexpr (requires { Lock::goes_past_stopped; }) t.goes_past_stopped = Lock::goes_past_stopped;
add_to_list(t, family, suffix, mutation);
}

/// The type that is checked in place of a lock: its form with small arrays (`small`), which few threads can fill, if
/// the lock has one; otherwise the lock itself.
template <class Lock>
struct small_form {
  using type = Lock;
};
template <class Lock>
  requires requires { typename Lock::small; }
struct small_form<Lock> {
  using type = typename Lock::small;
};

/// Adds a lock in all forms that differ in the checker. Ways of waiting that have the same states in the checker are
/// one form.
template <template <class, class> class Lock>
bool add_family(const char* name, const char* mutation) {
  using plain = Lock<checked, waiting<checked, ways_of_waiting.front().kind>>;
  static_assert(lock_algorithm<plain>);
  const auto add = [&]<waiting_kind K>() {
    if constexpr (has(plain::traits.kinds, K) && plain::traits.excludes && first_with_states_of(K) == K)
      add_lock<typename small_form<Lock<checked, waiting<checked, K>>>::type>(name, way_of(K).suffix, mutation);
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (add.template operator()<ways_of_waiting[I].kind>(), ...);
  }(std::make_index_sequence<ways_of_waiting.size()>());
  return true;
}

}  // namespace usher::check
