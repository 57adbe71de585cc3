// A library to be preloaded: it implements the read-write locks of POSIX by a mutex, so that readers exclude each
// other, too. So a program whose authors or packagers chose read-write locks runs as if they had chosen mutexes
// (Malthusian Locks §6.6 changed Kyoto Cabinet in this way). The library calls the process's mutex functions, so that
// these are libusher.so's if that is preloaded as well, in either order.
//
// POSIX's rules of recursion hold. A thread that has the lock for reading may lock it for reading again. If it asks for
// writing, or if it has the lock for writing and asks again, the result is EDEADLK. The mutex lies in the bytes of the
// read-write lock, beside the address of its owner and the depth of the recursion. The word with the lock's kind is
// left unchanged. A static initialiser sets no other word, and so makes a free mutex.
//
// Locks that are shared between processes are refused (ENOTSUP). At the end of the process, if RWLOCK_AS_MUTEX_REPORT
// is set, the library prints the number of acquisitions and the file whose functions serve its mutexes.
#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace {

struct held_lock {
  const void* owner;      // the address of a variable of the thread that has the mutex; other threads read it
  pthread_mutex_t mutex;  // not at the lock's own address, by which usher stat knows the read-write lock
  int kind;               // of the initialiser; not used
  int depth;              // 0 or less: for writing; otherwise the owner's read locks
};
static_assert(sizeof(held_lock) == sizeof(pthread_rwlock_t) && alignof(held_lock) <= alignof(pthread_rwlock_t));

thread_local char myself;
long reported = 0;  // acquisitions of the threads that have ended

struct counter {
  long acquisitions = 0;
  ~counter() { __atomic_fetch_add(&reported, acquisitions, __ATOMIC_RELAXED); }
};
thread_local counter mine;

const bool reports = std::getenv("RWLOCK_AS_MUTEX_REPORT") != nullptr;

[[gnu::destructor]] void report() {
  if (!reports) return;
  Dl_info serves{};
  dladdr(reinterpret_cast<void*>(pthread_mutex_lock), &serves);
  std::fprintf(stderr, "rwlock_as_mutex: %ld acquisitions of mutexes of %s\n",
               __atomic_load_n(&reported, __ATOMIC_RELAXED), serves.dli_fname);
}

held_lock& in(pthread_rwlock_t* l) {
  return *reinterpret_cast<held_lock*>(l);
}

// Relaxed: a thread finds its own address only if it has written that address itself, and no other thread writes in
// between.
bool is_mine(const held_lock& l) {
  return __atomic_load_n(&l.owner, __ATOMIC_RELAXED) == &myself;
}

template <class Take>
int for_writing(held_lock& l, int if_mine, Take take) {
  if (is_mine(l)) return if_mine;
  if (const int error = take(&l.mutex)) return error;
  l.depth = 0;
  __atomic_store_n(&l.owner, &myself, __ATOMIC_RELAXED);
  if (reports) ++mine.acquisitions;
  return 0;
}

template <class Take>
int for_reading(held_lock& l, int if_mine, Take take) {
  if (is_mine(l) && l.depth > 0) {
    ++l.depth;
    return 0;
  }
  const int error = for_writing(l, if_mine, take);
  if (error == 0) l.depth = 1;
  return error;
}

auto until(const timespec* end) {
  return [end](pthread_mutex_t* m) { return pthread_mutex_timedlock(m, end); };
}
auto until(clockid_t clock, const timespec* end) {
  return [clock, end](pthread_mutex_t* m) { return pthread_mutex_clocklock(m, clock, end); };
}

}  // namespace

extern "C" {

int pthread_rwlock_init(pthread_rwlock_t* l, const pthread_rwlockattr_t* a) noexcept {
  int shared = PTHREAD_PROCESS_PRIVATE;
  if (a != nullptr) pthread_rwlockattr_getpshared(a, &shared);
  if (shared != PTHREAD_PROCESS_PRIVATE) return ENOTSUP;
  in(l) = {};
  return pthread_mutex_init(&in(l).mutex, nullptr);
}

int pthread_rwlock_destroy(pthread_rwlock_t* l) noexcept {
  return pthread_mutex_destroy(&in(l).mutex);
}

int pthread_rwlock_wrlock(pthread_rwlock_t* l) noexcept {
  return for_writing(in(l), EDEADLK, pthread_mutex_lock);
}
int pthread_rwlock_trywrlock(pthread_rwlock_t* l) noexcept {
  return for_writing(in(l), EBUSY, pthread_mutex_trylock);
}
int pthread_rwlock_timedwrlock(pthread_rwlock_t* l, const timespec* end) noexcept {
  return for_writing(in(l), EDEADLK, until(end));
}
int pthread_rwlock_clockwrlock(pthread_rwlock_t* l, clockid_t clock, const timespec* end) noexcept {
  return for_writing(in(l), EDEADLK, until(clock, end));
}

int pthread_rwlock_rdlock(pthread_rwlock_t* l) noexcept {
  return for_reading(in(l), EDEADLK, pthread_mutex_lock);
}
int pthread_rwlock_tryrdlock(pthread_rwlock_t* l) noexcept {
  return for_reading(in(l), EBUSY, pthread_mutex_trylock);
}
int pthread_rwlock_timedrdlock(pthread_rwlock_t* l, const timespec* end) noexcept {
  return for_reading(in(l), EDEADLK, until(end));
}
int pthread_rwlock_clockrdlock(pthread_rwlock_t* l, clockid_t clock, const timespec* end) noexcept {
  return for_reading(in(l), EDEADLK, until(clock, end));
}

int pthread_rwlock_unlock(pthread_rwlock_t* l) noexcept {
  held_lock& held = in(l);
  if (!is_mine(held)) return EPERM;
  if (--held.depth > 0) return 0;
  __atomic_store_n(&held.owner, nullptr, __ATOMIC_RELAXED);
  return pthread_mutex_unlock(&held.mutex);
}
}
