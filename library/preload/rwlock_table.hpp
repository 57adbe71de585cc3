// The functions of pthread_rwlock_t: the tables of Usher's read-write locks, and the pointers through which the
// exported functions jump. connect() (selection.hpp) sets all pointers together:
//
//     at first         functions that call connect() and then jump again
//     C library        the C library's functions, unless USHER_RWLOCK selects a lock of Usher's
//     Usher            those of the selected lock; with one thread its functions without atomic operations
//     recorded         those of a recorder (observer.hpp), which call the functions above
#pragma once

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <span>

#include "library/preload/calls.hpp"

namespace usher::preload {

// clang-format off
#define USHER_RWLOCKS(call) \
  call(rwlock_init, pthread_rwlock_init, (pthread_rwlock_t* l, const pthread_rwlockattr_t* a), (l, a)) \
  call(rwlock_destroy, pthread_rwlock_destroy, (pthread_rwlock_t* l), (l)) \
  call(rdlock, pthread_rwlock_rdlock, (pthread_rwlock_t* l), (l)) \
  call(tryrdlock, pthread_rwlock_tryrdlock, (pthread_rwlock_t* l), (l)) \
  call(timedrdlock, pthread_rwlock_timedrdlock, (pthread_rwlock_t* l, const timespec* until), (l, until)) \
  call(clockrdlock, pthread_rwlock_clockrdlock, \
       (pthread_rwlock_t* l, clockid_t k, const timespec* until), (l, k, until)) \
  call(wrlock, pthread_rwlock_wrlock, (pthread_rwlock_t* l), (l)) \
  call(trywrlock, pthread_rwlock_trywrlock, (pthread_rwlock_t* l), (l)) \
  call(timedwrlock, pthread_rwlock_timedwrlock, (pthread_rwlock_t* l, const timespec* until), (l, until)) \
  call(clockwrlock, pthread_rwlock_clockwrlock, \
       (pthread_rwlock_t* l, clockid_t k, const timespec* until), (l, k, until)) \
  call(rwlock_unlock, pthread_rwlock_unlock, (pthread_rwlock_t* l), (l))
// clang-format on

// NOLINTBEGIN(bugprone-macro-parentheses): types, not expressions
#define USHER_RWLOCK_MEMBER(member, name, parameters, arguments) int(*member) parameters;
struct rwlock_calls {
  USHER_RWLOCKS(USHER_RWLOCK_MEMBER)
};
#undef USHER_RWLOCK_MEMBER
#define USHER_RWLOCK_POINTER(member, name, parameters, arguments) call_pointer<int parameters> member;
#define USHER_SET_RWLOCK_POINTER(member, name, parameters, arguments) member.set(from.member);
#define USHER_COPY_RWLOCK_POINTER(member, name, parameters, arguments) member.set(from.member.get());
struct rwlock_pointers {
  USHER_RWLOCKS(USHER_RWLOCK_POINTER)
  void set(const rwlock_calls& from) { USHER_RWLOCKS(USHER_SET_RWLOCK_POINTER) }
  void set(const rwlock_pointers& from) { USHER_RWLOCKS(USHER_COPY_RWLOCK_POINTER) }
};
#undef USHER_RWLOCK_POINTER
#undef USHER_SET_RWLOCK_POINTER
#undef USHER_COPY_RWLOCK_POINTER
// NOLINTEND(bugprone-macro-parentheses)

struct rwlock_table {
  const char* name;
  rwlock_calls calls;
  /// Maps memory that the lock needs; null: none. Called at the selection: a system-call filter may be in force later.
  bool (*prepare)();
  // For a process with one thread. If they find more threads, they call end_one_thread_mode().
  int (*rdlock_single)(pthread_rwlock_t*);
  int (*wrlock_single)(pthread_rwlock_t*);
  int (*unlock_single)(pthread_rwlock_t*);
};

/// The tables of all read-write locks of this library.
std::span<const rwlock_table> phase_fair_tables();
std::span<const rwlock_table> bravo_tables();

/// Returns the table that USHER_RWLOCK selects; null: the C library's locks. The first call makes the selection.
const rwlock_table* selected_rwlocks();

/// The pointers through which the exported functions jump.
[[gnu::visibility("hidden")]] extern constinit rwlock_pointers current_rwlocks;

/// The functions that serve while nothing is recorded, and that a recorder's functions call. connect() sets them.
[[gnu::visibility("hidden")]] extern constinit rwlock_pointers unrecorded_rwlocks;

/// Sets the exported functions' pointers: to a recorder's functions, or if `recorded` is null to unrecorded_rwlocks.
void connect_rwlocks(const rwlock_calls* recorded);

/// Does for read-write locks what the function in selection.hpp does for mutexes.
int end_one_thread_mode(pthread_rwlock_t* l, int (*then)(pthread_rwlock_t*));

namespace c_library {

[[gnu::visibility("hidden")]] extern constinit rwlock_pointers rwlocks;

/// Looks up the C library's functions that have not been found yet.
void look_up_rwlocks();

}  // namespace c_library

}  // namespace usher::preload
