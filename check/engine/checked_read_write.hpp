// A read-write lock compiled for the checker, as a table of functions. Generated translation units
// (check/read_write.cpp.in) add their tables to the list of targets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "check/engine/checked_platform.hpp"
#include "usher/core/waiting.hpp"

namespace usher::check {

struct checked_read_write {
  /// Returns the nanoseconds that are left.
  struct time_left {
    std::uint64_t (*ask)(void*);
    void* context;
    std::uint64_t operator()() const { return ask(context); }
  };

  std::string name, family, mutation;
  std::size_t size;
  bool recursive;     ///< a thread may lock again for reading
  bool fifo_writers;  ///< writers queue on a FIFO lock
  void (*make)(void*);
  void (*end)(void*);
  void (*lock)(void*);
  bool (*try_lock)(void*);
  bool (*lock_while_time)(void*, time_left);
  void (*unlock)(void*);
  void (*lock_shared)(void*);
  bool (*try_lock_shared)(void*);
  bool (*lock_shared_while_time)(void*, time_left);
  void (*unlock_shared)(void*);
  bool (*try_upgrade)(void*);
  void (*unlock_and_lock_shared)(void*);
  bool (*is_idle)(void*);
  void (*renew)(void*, std::uint32_t reads, bool writes);
  void (*count_from)(void*, std::uint32_t);
};

inline std::vector<checked_read_write>& checked_read_writes() {
  static std::vector<checked_read_write> list;
  return list;
}

template <class Lock>
void add_read_write(const std::string& family, const char* suffix, const char* mutation) {
  static constexpr auto l = [](void* p) -> Lock& { return *static_cast<Lock*>(p); };
  using time_left = checked_read_write::time_left;
  checked_read_writes().push_back({
      .name = family + suffix,
      .family = family,
      .mutation = mutation,
      .size = sizeof(Lock),
      .recursive = unsigned(Lock::traits.rule) != 0,  // a mutant's enumeration is another type
      .fifo_writers = Lock::writers_lock::traits.fifo,
      .make = [](void* at) { ::new (at) Lock{}; },
      .end = [](void* p) { l(p).~Lock(); },
      .lock = [](void* p) { l(p).lock(); },
      .try_lock = [](void* p) { return l(p).try_lock(); },
      .lock_while_time = [](void* p, time_left t) { return l(p).lock_while_time(t); },
      .unlock = [](void* p) { l(p).unlock(); },
      .lock_shared = [](void* p) { l(p).lock_shared(); },
      .try_lock_shared = [](void* p) { return l(p).try_lock_shared(); },
      .lock_shared_while_time = [](void* p, time_left t) { return l(p).lock_shared_while_time(t); },
      .unlock_shared = [](void* p) { l(p).unlock_shared(); },
      .try_upgrade = [](void* p) { return l(p).try_upgrade(); },
      .unlock_and_lock_shared = [](void* p) { l(p).unlock_and_lock_shared(); },
      .is_idle = [](void* p) { return l(p).is_idle(); },
      .renew = [](void* p, std::uint32_t reads, bool writes) { l(p).renew(reads, writes); },
      .count_from = [](void* p, std::uint32_t n) { l(p).count_from(n); },
  });
}

/// Adds a read-write lock in the forms that differ in the checker.
template <template <class, class> class Lock>
bool add_read_write_family(const char* name, const char* mutation) {
  add_read_write<Lock<checked, waiting<checked, waiting_kind::spin_then_park>>>(name, "", mutation);
  add_read_write<Lock<checked, waiting<checked, waiting_kind::spin>>>(name, "-spin", mutation);
  add_read_write<Lock<checked, waiting<checked, waiting_kind::park>>>(name, "-park", mutation);
  return true;
}

}  // namespace usher::check
