// Compiles one lock for a platform into a family: a table of functions for each way of waiting that the lock supports.
// A lock with one way of waiting is a form: `twa-spin` is the lock `twa` whose waiters spin.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <string_view>
#include <utility>

#include "usher/core/lock_table.hpp"
#include "usher/core/lockable.hpp"
#include "usher/core/waiting.hpp"

namespace usher::inline v2 {

/// The names of a family's forms: the lock's name and the suffix of the way of waiting.
class family_names {
 public:
  static constexpr std::size_t most = 40;

  consteval explicit family_names(std::string_view family) {
    for (const way_of_waiting& way : ways_of_waiting) {
      // If the compiler reports an index beyond the array's end here, the name of a lock is too long. (A counter is the
      // index, not a sum: with a sum, gcc 12 crashes under -flto.)
      std::size_t n = 0;
      for (const char c : family) names_[index(way.kind)][n++] = c;
      for (const char c : std::string_view(way.suffix)) names_[index(way.kind)][n++] = c;
      names_[index(way.kind)][n] = '\0';
    }
  }

  constexpr const char* of(waiting_kind k) const { return names_[index(k)]; }
  constexpr const char* family() const { return of(ways_of_waiting.front().kind); }

 private:
  static constexpr std::size_t index(waiting_kind k) { return std::size_t(std::countr_zero(unsigned(k))); }

  char names_[ways_of_waiting.size()][most] = {};
};

/// The bytes of the state that a contended lock takes from a pool; 0 if it takes none. compile.hpp specialises it.
template <class Lock>
inline constexpr std::size_t inflated_size = 0;

template <class Lock>
constexpr lock_table make_lock_table(const family_names& names, waiting_kind kind) {
  lock_table t{
      .name = names.of(kind),
      .family = names.family(),
      .kind = kind,
      .traits = &Lock::traits,
      .size = sizeof(Lock),
      .align = alignof(Lock),
      .lock = [](void* state) { static_cast<Lock*>(state)->lock(); },
      .try_lock = [](void* state) { return static_cast<Lock*>(state)->try_lock(); },
      .unlock = [](void* state) { static_cast<Lock*>(state)->unlock(); },
      .lock_as_guest = nullptr,
      .inflated_size = inflated_size<Lock>,
  };
  if constexpr (requires(Lock& l) { l.lock_as_guest(); })
    t.lock_as_guest = [](void* state) { static_cast<Lock*>(state)->lock_as_guest(); };
  return t;
}

/// The tables of a family, at most one for each way of waiting. The first `count` are filled.
template <class Table>
struct family {
  std::array<Table, ways_of_waiting.size()> tables{};
  std::size_t count = 0;
};

/// Makes the family of a lock for a platform. Calls make.operator()<Lock, Waiting>(kind), which returns a table, for
/// each way of waiting that the lock's traits name.
template <platform P, template <class, class> class Lock, class Table, class Make>
constexpr family<Table> make_family_on(Make make) {
  // The traits do not depend on the way of waiting, so the plain form's traits tell the kinds that the lock supports.
  using plain = Lock<P, waiting<P, ways_of_waiting.front().kind>>;
  static_assert(lock_algorithm<plain>);
  static_assert(has(plain::traits.kinds, ways_of_waiting.front().kind),
                "a lock is made for the plain way of waiting, too");
  family<Table> f;
  const auto add = [&]<waiting_kind K>() {
    using waits = waiting<P, K>;
    static_assert(way_to_wait<waits>);
    if constexpr (has(plain::traits.kinds, K)) f.tables[f.count++] = make.template operator()<Lock<P, waits>, waits>(K);
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (add.template operator()<ways_of_waiting[I].kind>(), ...);
  }(std::make_index_sequence<ways_of_waiting.size()>());
  return f;
}

}  // namespace usher::inline v2
