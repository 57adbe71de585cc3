// A lock compiled for the checker, as a table, so that one client serves all. Translation units made by the
// build add theirs to the list: check/lock.cpp.in.
#pragma once

#include <concepts>
#include <cstddef>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "check/relacy_platform.hpp"

namespace usher::check {

struct checked_lock {
  std::string name;
  std::string bug;  ///< what is wrong with it, if it is a lock that must fail
  const lock_traits* traits;
  std::size_t size;
  void (*make)(void*);
  void (*end)(void*);
  void (*lock)(void*);
  bool (*try_lock)(void*);
  void (*unlock)(void*);
  void (*lock_as_guest)(void*);  ///< null where there are no guests
  bool (*contended)(void*);      ///< null where a lock cannot say
  bool tickets;                  ///< the first two words are ticket and grant
};

inline std::vector<checked_lock>& checked_locks() {
  static std::vector<checked_lock> list;
  return list;
}

/// Any lock of the list, as a program would hand it to a condition variable.
struct lock_handle {
  const checked_lock* table;
  void* state;
  void lock() const { table->lock(state); }
  bool try_lock() const { return table->try_lock(state); }
  void unlock() const { table->unlock(state); }
};

/// Those that clients of other things take for a mutex: that hand over, that restrict, that let overtake.
inline const std::vector<const checked_lock*>& mutexes() {
  static const std::vector<const checked_lock*> list = [] {
    std::vector<const checked_lock*> some;
    for (const checked_lock& l : checked_locks())
      for (const char* name : {"loiter", "mcscr", "ticket", "futex", "loiter-park", "mcscr-park"})
        if (l.name == name) some.push_back(&l);
    return some;
  }();
  return list;
}

template <class Lock>
void add_lock(std::string name, std::string bug, bool tickets) {
  checked_lock t{
      .name = std::move(name),
      .bug = std::move(bug),
      .traits = &Lock::traits,
      .size = sizeof(Lock),
      .make = [](void* at) { ::new (at) Lock{}; },
      .end = [](void* l) { static_cast<Lock*>(l)->~Lock(); },
      .lock = [](void* l) { static_cast<Lock*>(l)->lock(); },
      .try_lock = [](void* l) { return static_cast<Lock*>(l)->try_lock(); },
      .unlock = [](void* l) { static_cast<Lock*>(l)->unlock(); },
      .lock_as_guest = nullptr,
      .contended = nullptr,
      .tickets = tickets,
  };
  if constexpr (requires(Lock& l) { l.lock_as_guest(); })
    t.lock_as_guest = [](void* l) { static_cast<Lock*>(l)->lock_as_guest(); };
  if constexpr (requires(Lock& l) { l.contended(); })
    t.contended = [](void* l) { return static_cast<Lock*>(l)->contended(); };
  checked_locks().push_back(std::move(t));
}

/// A lock in the forms that differ here: yield-then-park and spin-then-park poll alike.
template <template <class, class> class Lock>
bool add_family(const std::string& name, const std::string& bug, bool tickets) {
  const auto add = [&]<waiting_kind K>(const char* suffix) {
    using plain = Lock<checked, waiting<checked, waiting_kind::spin_then_park>>;
    if constexpr (has(plain::traits.kinds, K) && plain::traits.excludes)
      add_lock<Lock<checked, waiting<checked, K>>>(name + suffix, bug, tickets);
  };
  add.template operator()<waiting_kind::spin_then_park>("");
  add.template operator()<waiting_kind::spin>("-spin");
  add.template operator()<waiting_kind::park>("-park");
  return true;
}

}  // namespace usher::check
