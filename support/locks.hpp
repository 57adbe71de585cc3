// Facts about locks that several subcommands use.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

#include "library/catalog/names.hpp"
#include "library/catalog/read_write_names.hpp"
#include "library/catalog/suggestion.hpp"
#include "usher/catalog.hpp"

namespace usher::support {

constexpr std::string_view to_string(waiting_kind kind) {
  return way_of(kind).name();
}

/// Whether waiters spin or poll for so long that each needs a CPU of its own.
inline bool needs_own_cpu(const lock_table& lock) {
  return way_of(lock.kind).wants_cpu;
}

/// Whether unlock() hands the lock over to one certain thread, whether or not that thread is running. If threads
/// outnumber CPUs and critical sections are short, such a lock cannot be the fastest.
inline bool hands_over(const lock_table& lock) {
  const lock_traits& t = *lock.traits;
  return t.fifo || t.bypass != unbounded || t.context;
}

/// Whether threads may wait for a waiter that a signal handler has parked. Locks that grant a waiter its turn, or may
/// do so, have this property. The default lock, if its waiters park, does not: it takes the grant back (rule 7 in
/// steady.hpp).
inline bool waits_for_parked(const lock_table& lock) {
  const bool takes_back = std::string_view(lock.family) == default_lock && way_of(lock.kind).parks;
  return lock.traits->excludes && !takes_back && (hands_over(lock) || lock.traits->starvation_free);
}

/// Whether libusher.so has a read-write lock of this name.
inline bool is_read_write_lock(std::string_view name) {
  return std::find(std::begin(read_write_names), std::end(read_write_names), name) != std::end(read_write_names);
}

/// The name of the read-write lock that is nearest to a misspelt one; empty if none is near.
inline std::string_view nearest_read_write_lock(std::string_view misspelt) {
  nearest_name nearest(misspelt);
  for (const std::string_view known : read_write_names) nearest.consider(known);
  return nearest.best();
}

}  // namespace usher::support
