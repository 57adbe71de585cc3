// Compiles one lock for the platform `native`, real hardware, as tables of functions. The build makes a translation
// unit for each lock of library/catalog/catalog.list; each includes this header.
#pragma once

#include "library/catalog/family.hpp"
#include "usher/core/inflatable.hpp"
#include "usher/core/waiting.hpp"
#include "usher/platform/native.hpp"

namespace usher::inline v2 {

template <class P, class W, class Large>
inline constexpr std::size_t inflated_size<inflatable<P, W, Large>> = sizeof(Large);

/// Makes the family of a lock for the platform `native`. Calls make.operator()<Lock>(kind) for each way of waiting. If
/// the lock is too large for a pthread_mutex_t, `Lock` is its inflatable form (core/inflatable.hpp).
template <template <class, class> class Lock, class Table, class Make>
constexpr family<Table> make_family(Make make) {
  return make_family_on<native, Lock, Table>([&]<class L, class W>(waiting_kind kind) {
    static_assert(lockable<L>);
    return make.template operator()<embeddable_or_inflatable<native, W, L>>(kind);
  });
}

}  // namespace usher::inline v2
