// The exported pthread_cond_* functions: a condition variable that unlocks and locks whatever mutex it is given through
// our own functions. It has to be ours, because the C library's would unlock our mutexes by its own code.
//
// A waiter sleeps on a sequence number that every signal advances; the kernel's queue is first in, first out.
//
//     offset  0   sequence    advanced by signal and broadcast
//             8   waiters     fork stamp << 32 | how many wait: a count with another stamp is of threads that are gone
//            36   flags       as the C library has them: bit 0 process-shared, bit 1 CLOCK_MONOTONIC
//
// A signal reaches a thread that waited before it: a waiter reads the sequence while it holds the mutex; if the sequence
// has moved on when it is about to sleep, it does not sleep. One that came later finds its place in the kernel's queue
// behind those that came before. More waiters than one may wake; POSIX calls that spurious.
#include <atomic>
#include <cerrno>

#include "preload/c_library.hpp"
#include "preload/cancellable_wait.h"
#include "preload/layout.hpp"
#include "preload/mutex_table.hpp"

#define USHER_EXPORT extern "C" [[gnu::visibility("default")]]

namespace usher::preload {
namespace {

struct cond_layout {
  std::atomic<std::uint32_t> sequence;
  alignas(8) std::atomic<std::uint64_t> waiters;
  unsigned char unused[20];
  std::uint32_t flags;
};
static_assert(offsetof(cond_layout, flags) == 36 && sizeof(cond_layout) <= sizeof(pthread_cond_t));

constexpr std::uint32_t shared = 1, monotonic = 2;

cond_layout& cond_of(pthread_cond_t* c) {
  return *reinterpret_cast<cond_layout*>(c);
}
bool is_private(const cond_layout& c) {
  return (c.flags & shared) == 0;
}

std::uint32_t count(std::uint64_t waiters, std::uint32_t stamp) {
  return std::uint32_t(waiters >> 32) == stamp ? std::uint32_t(waiters) : 0;
}

void enter(cond_layout& c) {
  const std::uint32_t stamp = native::fork_stamp();
  std::uint64_t seen = c.waiters.load(std::memory_order_relaxed);
  // Relaxed: a signal that must find us is sent under, or after, the mutex that we hold.
  while (!c.waiters.compare_exchange_weak(seen, (std::uint64_t{stamp} << 32) + count(seen, stamp) + 1,
                                          std::memory_order_relaxed)) {
  }
}

/// The last touch of the condition variable by a waiter: release, pairs with the acquire in destroy.
void leave(cond_layout& c) {
  c.waiters.fetch_sub(1, std::memory_order_release);
}

struct waiting_thread {
  cond_layout& cond;
  pthread_mutex_t* mutex;
  std::uint32_t sequence;
};

/// A cancelled waiter may have been the one that a signal chose: it passes the signal on if there was one.
void on_cancel(void* argument) {
  auto& w = *static_cast<waiting_thread*>(argument);
  if (w.cond.sequence.load(std::memory_order_relaxed) != w.sequence)
    native::wake(native::key_of(w.cond.sequence), every_sleeper, 1);
  leave(w.cond);
  pthread_mutex_lock(w.mutex);
}

int wait(pthread_cond_t* cond, pthread_mutex_t* mutex, bool realtime, const timespec* until) {
  cond_layout& c = cond_of(cond);
  waiting_thread me{c, mutex, 0};
  enter(c);
  me.sequence = c.sequence.load(std::memory_order_relaxed);
  if (const int error = pthread_mutex_unlock(mutex)) {
    leave(c);
    return error;
  }
  int result;
  do {
    result = usher_cancellable_wait(reinterpret_cast<std::uint32_t*>(&c.sequence), me.sequence, until, realtime,
                                    on_cancel, &me);
  } while (result == EINTR && c.sequence.load(std::memory_order_relaxed) == me.sequence);
  leave(c);
  const int error = pthread_mutex_lock(mutex);
  return error != 0 ? error : result == ETIMEDOUT ? ETIMEDOUT : 0;
}

int check_and_wait(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  if (until != nullptr && (until->tv_nsec < 0 || until->tv_nsec >= 1000000000)) return EINVAL;
  // The kernel refuses times before 1970; any time in the past does as well.
  constexpr timespec past{0, 0};
  if (until != nullptr && until->tv_sec < 0) until = &past;
  return wait(cond, mutex, clock == CLOCK_REALTIME, until);
}

/// Whether the C library has to do it: −1 no, 1 yes, else the error.
int elsewhere(pthread_cond_t* cond, pthread_mutex_t* mutex) {
  if (selected().passes_through) return 1;
  if (is_private(cond_of(cond))) return -1;
  // It would unlock one of our mutexes by its own code.
  return is_ours(kind_of(layout(mutex).kind_and_stamp.load(std::memory_order_relaxed))) ? EINVAL : 1;
}

int notify(pthread_cond_t* cond, int most) {
  cond_layout& c = cond_of(cond);
  if (count(c.waiters.load(std::memory_order_relaxed), native::fork_stamp()) == 0) return 0;
  const wake_key key = native::key_of(c.sequence);
  c.sequence.fetch_add(1, std::memory_order_release);
  native::wake(key, every_sleeper, most);
  return 0;
}

}  // namespace
}  // namespace usher::preload

using namespace usher::preload;  // NOLINT(google-build-using-namespace): this file is the room's surface

USHER_EXPORT int pthread_cond_init(pthread_cond_t* c, const pthread_condattr_t* attributes) {
  return c_library::cond_init(c, attributes);  // it writes zeros and the flags
}

USHER_EXPORT int pthread_cond_destroy(pthread_cond_t* cond) {
  cond_layout& c = cond_of(cond);
  if (selected().passes_through || !is_private(c)) return c_library::cond_destroy(cond);
  // Legal right after a broadcast: the woken may still be on their way out. They need no mutex for that.
  const std::uint32_t stamp = usher::native::fork_stamp();
  usher::native::await_yielding(
      c.waiters, [stamp](std::uint64_t w) { return count(w, stamp) == 0; }, std::memory_order_acquire);
  return 0;
}

USHER_EXPORT int pthread_cond_wait(pthread_cond_t* c, pthread_mutex_t* m) {
  if (const int e = elsewhere(c, m); e >= 0) return e == 1 ? c_library::cond_wait(c, m) : e;
  return check_and_wait(c, m, CLOCK_MONOTONIC, nullptr);
}

USHER_EXPORT int pthread_cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, const timespec* until) {
  if (const int e = elsewhere(c, m); e >= 0) return e == 1 ? c_library::cond_timedwait(c, m, until) : e;
  return check_and_wait(c, m, cond_of(c).flags & monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME, until);
}

USHER_EXPORT int pthread_cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const timespec* until) {
  if (const int e = elsewhere(c, m); e >= 0) return e == 1 ? c_library::cond_clockwait(c, m, clock, until) : e;
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) return EINVAL;
  return check_and_wait(c, m, clock, until);
}

USHER_EXPORT int pthread_cond_signal(pthread_cond_t* c) {
  if (selected().passes_through || !is_private(cond_of(c))) return c_library::cond_signal(c);
  return notify(c, 1);
}

USHER_EXPORT int pthread_cond_broadcast(pthread_cond_t* c) {
  if (selected().passes_through || !is_private(cond_of(c))) return c_library::cond_broadcast(c);
  return notify(c, usher::all);
}
