// The tables of functions to which the exported functions jump, each through its pointer in `current_calls`. All
// pointers lead to one of the tables below; connect() (selection.hpp) sets them.
//
//     at first         first_calls: each function calls connect() and then jumps again. `current_calls` is
//                      constant-initialised to this table, so the exports work before any constructor has run
//     with threads     our_calls, with the mutex functions of the selected lock (mutex_operations.hpp)
//     with one thread  as above, but lock, trylock and unlock are lock_single() and so on, without atomic operations
//                      (one_thread.hpp). If such a function finds more threads, it sets these three pointers to the
//                      functions with atomic operations for good: these do not test the number of threads
//     C library        c_library_calls, if USHER_LOCK selects the C library's locks
//     recorded         the table of a recorder (observer.hpp), whose functions call the selected ones
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include <atomic>
#include <type_traits>

#include "library/preload/relaxed_load.hpp"

namespace usher::preload {

/// The exported functions, one a line: member of `calls`, exported name, parameters with types, parameters' names.
// clang-format off
#define USHER_CALLS(call) \
  call(lock, pthread_mutex_lock, (pthread_mutex_t* m), (m)) \
  call(trylock, pthread_mutex_trylock, (pthread_mutex_t* m), (m)) \
  call(unlock, pthread_mutex_unlock, (pthread_mutex_t* m), (m)) \
  call(timedlock, pthread_mutex_timedlock, (pthread_mutex_t* m, const timespec* until), (m, until)) \
  call(clocklock, pthread_mutex_clocklock, (pthread_mutex_t* m, clockid_t k, const timespec* until), (m, k, until)) \
  call(mutex_init, pthread_mutex_init, (pthread_mutex_t* m, const pthread_mutexattr_t* a), (m, a)) \
  call(mutex_destroy, pthread_mutex_destroy, (pthread_mutex_t* m), (m)) \
  call(cond_wait, pthread_cond_wait, (pthread_cond_t* c, pthread_mutex_t* m), (c, m)) \
  call(cond_timedwait, pthread_cond_timedwait, (pthread_cond_t* c, pthread_mutex_t* m, const timespec* until), (c, m, until)) \
  call(cond_clockwait, pthread_cond_clockwait, \
       (pthread_cond_t* c, pthread_mutex_t* m, clockid_t k, const timespec* until), (c, m, k, until)) \
  call(cond_signal, pthread_cond_signal, (pthread_cond_t* c), (c)) \
  call(cond_broadcast, pthread_cond_broadcast, (pthread_cond_t* c), (c)) \
  call(cond_init, pthread_cond_init, (pthread_cond_t* c, const pthread_condattr_t* a), (c, a)) \
  call(cond_destroy, pthread_cond_destroy, (pthread_cond_t* c), (c)) \
  call(sem_wait, sem_wait, (sem_t* s), (s)) \
  call(sem_trywait, sem_trywait, (sem_t* s), (s)) \
  call(sem_timedwait, sem_timedwait, (sem_t* s, const timespec* until), (s, until)) \
  call(sem_clockwait, sem_clockwait, (sem_t* s, clockid_t k, const timespec* until), (s, k, until)) \
  call(sem_post, sem_post, (sem_t* s), (s)) \
  call(sem_getvalue, sem_getvalue, (sem_t* s, int* value), (s, value)) \
  call(sem_init, sem_init, (sem_t* s, int shared, unsigned value), (s, shared, value)) \
  call(sem_destroy, sem_destroy, (sem_t* s), (s))
// clang-format on

// NOLINTBEGIN(bugprone-macro-parentheses): types, not expressions
#define USHER_CALL_MEMBER(member, name, parameters, arguments) int(*member) parameters;
struct calls {
  USHER_CALLS(USHER_CALL_MEMBER)
};
#undef USHER_CALL_MEMBER

/// A pointer to a function, which may change while other threads call through it. Loads are relaxed, so an exported
/// function is one jump. A function that needs data written before the pointer was set must acquire it itself.
template <class F>
class call_pointer;
template <class... Args>
class call_pointer<int(Args...)> {
 public:
  using function = int (*)(Args...);
  constexpr call_pointer() = default;
  constexpr explicit call_pointer(function f) : to_(f) {}
  int operator()(Args... args) const { return load_relaxed(to_)(args...); }
  void set(function f) { to_.store(f, std::memory_order_relaxed); }
  function get() const { return to_.load(std::memory_order_relaxed); }
  void change(function from, function to) { to_.compare_exchange_strong(from, to, std::memory_order_relaxed); }

 private:
  std::atomic<function> to_{nullptr};
};

/// The members of `calls` as call_pointers, with the same layout.
#define USHER_CALL_POINTER(member, name, parameters, arguments) call_pointer<int parameters> member;
#define USHER_SET_POINTER(member, name, parameters, arguments) member.set(from.member);
struct call_pointers {
  USHER_CALLS(USHER_CALL_POINTER)
  void set(const calls& from) { USHER_CALLS(USHER_SET_POINTER) }
};
#undef USHER_CALL_POINTER
#undef USHER_SET_POINTER
// NOLINTEND(bugprone-macro-parentheses)
static_assert(sizeof(call_pointers) == sizeof(calls) && sizeof(calls) % sizeof(void*) == 0 &&
              std::is_standard_layout_v<call_pointers> && std::atomic<int (*)()>::is_always_lock_free);

/// The pointers through which the exported functions jump.
[[gnu::visibility("hidden")]] extern constinit call_pointers current_calls;

extern const calls first_calls, our_calls, c_library_calls;

}  // namespace usher::preload
