// Compiles one lock for the hardware, as tables. The build makes a translation unit for each lock of
// library/catalog/catalog.list; each of them includes this header.
#pragma once

#include "library/catalog/family.hpp"
#include "usher/core/inflatable.hpp"
#include "usher/core/waiting.hpp"
#include "usher/platform/native.hpp"

namespace usher::inline v2 {

template <class P, class W, class Large>
inline constexpr std::size_t inflated_size<inflatable<P, W, Large>> = sizeof(Large);

/// Calls make_family_on() for the hardware, and `make` as make.operator()<Lock>(kind). A lock that is too large for a
/// pthread_mutex_t is compiled in its inflatable form.
template <template <class, class> class Lock, class Table, class Make>
constexpr family<Table> make_family(Make make) {
  return make_family_on<native, Lock, Table>([&]<class L, class W>(waiting_kind kind) {
    static_assert(lockable<L>);
    return make.template operator()<embeddable_or_inflatable<native, W, L>>(kind);
  });
}

}  // namespace usher::inline v2
