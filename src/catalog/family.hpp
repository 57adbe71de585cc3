// One lock compiled for a platform, as tables: a family, with a table for each way of waiting that the lock is made for.
#pragma once

#include <array>
#include <cstddef>

#include "usher/core/lock_table.hpp"
#include "usher/core/waiting.hpp"

namespace usher::inline v1 {

/// The names of a family's forms, in the order of `all_kinds`.
struct family_names {
  const char* family;
  const char* spin;
  const char* yield;
  const char* park;
  const char* sleep;
  const char* mwait;

  constexpr const char* of(waiting_kind k) const {
    switch (k) {
      case waiting_kind::spin:
        return spin;
      case waiting_kind::yield_then_park:
        return yield;
      case waiting_kind::park:
        return park;
      case waiting_kind::sleep:
        return sleep;
      case waiting_kind::mwait_then_park:
        return mwait;
      case waiting_kind::spin_then_park:
        break;
    }
    return family;
  }
};

inline constexpr std::array all_kinds{waiting_kind::spin_then_park, waiting_kind::spin,  waiting_kind::yield_then_park,
                                      waiting_kind::park,           waiting_kind::sleep, waiting_kind::mwait_then_park};

template <class Lock>
constexpr lock_table make_lock_table(const family_names& names, waiting_kind kind) {
  lock_table t{
      .name = names.of(kind),
      .family = names.family,
      .kind = kind,
      .traits = &Lock::traits,
      .size = sizeof(Lock),
      .align = alignof(Lock),
      .lock = [](void* state) { static_cast<Lock*>(state)->lock(); },
      .try_lock = [](void* state) { return static_cast<Lock*>(state)->try_lock(); },
      .unlock = [](void* state) { static_cast<Lock*>(state)->unlock(); },
      .lock_as_guest = nullptr,
  };
  if constexpr (requires(Lock& l) { l.lock_as_guest(); })
    t.lock_as_guest = [](void* state) { static_cast<Lock*>(state)->lock_as_guest(); };
  return t;
}

/// One family: a table for each kind at most; `count` of them are filled.
template <class Table>
struct family {
  std::array<Table, all_kinds.size()> tables{};
  std::size_t count = 0;
};

/// Fills a family, for a platform. `make` is called as make.operator()<Lock, Waiting>(kind) for each kind that the lock's traits
/// name.
template <platform P, template <class, class> class Lock, class Table, class Make>
constexpr family<Table> make_family_on(Make make) {
  family<Table> f;
  const auto add = [&]<waiting_kind K>() {
    // The traits are the same for all kinds: those of the plain form say which kinds there are.
    using plain = Lock<P, waiting<P, waiting_kind::spin_then_park>>;
    using waits = waiting<P, K>;
    if constexpr (has(plain::traits.kinds, K)) f.tables[f.count++] = make.template operator()<Lock<P, waits>, waits>(K);
  };
  add.template operator()<all_kinds[0]>();
  add.template operator()<all_kinds[1]>();
  add.template operator()<all_kinds[2]>();
  add.template operator()<all_kinds[3]>();
  add.template operator()<all_kinds[4]>();
  add.template operator()<all_kinds[5]>();
  return f;
}

}  // namespace usher::inline v1
