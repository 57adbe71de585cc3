// C11's mutexes and condition variables. In the C library they have the layout of pthread's. Here they are passed on to
// the pthread functions by name, so to libusher.so's: an object that a thread has once locked there must be unlocked
// there, also when nothing is recorded any more.
#include <pthread.h>
#include <threads.h>

#include "record/others.hpp"

// Before glibc 2.34 libpthread.so.0 alone had these functions, and this library does not depend on it. libusher.so
// always has the first two.
#pragma weak pthread_mutex_timedlock
#pragma weak pthread_mutex_trylock
#pragma weak pthread_mutexattr_destroy
#pragma weak pthread_mutexattr_init
#pragma weak pthread_mutexattr_settype

static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t) && sizeof(cnd_t) == sizeof(pthread_cond_t));

namespace {

using usher::preload::c11_result;

pthread_mutex_t* of(mtx_t* m) {
  return reinterpret_cast<pthread_mutex_t*>(m);
}
pthread_cond_t* of(cnd_t* c) {
  return reinterpret_cast<pthread_cond_t*>(c);
}

}  // namespace

USHER_EXPORT int mtx_init(mtx_t* m, int type) {
  if ((type & mtx_recursive) == 0) return c11_result(pthread_mutex_init(of(m), nullptr));
  if (pthread_mutexattr_init == nullptr) {  // a library has brought libpthread.so.0 later, by dlopen()
    *of(m) = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    return thrd_success;
  }
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  const int error = pthread_mutex_init(of(m), &recursive);
  pthread_mutexattr_destroy(&recursive);
  return c11_result(error);
}
USHER_EXPORT void mtx_destroy(mtx_t* m) {
  pthread_mutex_destroy(of(m));
}
USHER_EXPORT int mtx_lock(mtx_t* m) {
  return c11_result(pthread_mutex_lock(of(m)));
}
USHER_EXPORT int mtx_trylock(mtx_t* m) {
  return c11_result(pthread_mutex_trylock(of(m)));
}
USHER_EXPORT int mtx_timedlock(mtx_t* m, const timespec* until) {
  return c11_result(pthread_mutex_timedlock(of(m), until));
}
USHER_EXPORT int mtx_unlock(mtx_t* m) {
  return c11_result(pthread_mutex_unlock(of(m)));
}

USHER_EXPORT int cnd_init(cnd_t* c) {
  return c11_result(pthread_cond_init(of(c), nullptr));
}
USHER_EXPORT void cnd_destroy(cnd_t* c) {
  pthread_cond_destroy(of(c));
}
USHER_EXPORT int cnd_wait(cnd_t* c, mtx_t* m) {
  return c11_result(pthread_cond_wait(of(c), of(m)));
}
USHER_EXPORT int cnd_timedwait(cnd_t* c, mtx_t* m, const timespec* until) {
  return c11_result(pthread_cond_timedwait(of(c), of(m), until));
}
USHER_EXPORT int cnd_signal(cnd_t* c) {
  return c11_result(pthread_cond_signal(of(c)));
}
USHER_EXPORT int cnd_broadcast(cnd_t* c) {
  return c11_result(pthread_cond_broadcast(of(c)));
}
