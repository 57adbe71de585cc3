// C11's mutexes and condition variables. In the C library they have the layout of pthread's objects, and their
// functions call the C library's locks directly. The exports here call the functions of calls.hpp instead.
//
// Each function is exported with its two versions in the C library: the one of libc.so.6 since glibc 2.34, and the one
// of libpthread.so.0 before. Neither is a default version. So the loader binds no reference without a version to them:
// other code may have functions of these names with other types and results (tinycthread). dlsym() does not find them
// either. A program that looks these functions up by name gets the C library's, and must not mix both for one object.
#include <pthread.h>
#include <threads.h>

#include "library/preload/c11.hpp"
#include "library/preload/calls.hpp"
#include "library/preload/export.hpp"
#include "library/preload/glibc_versions.hpp"

#if defined(USHER_COND_GLIBC)

// Weak, because before glibc 2.34 only libpthread.so.0 had these functions, on which this library does not depend.
#pragma weak pthread_mutexattr_destroy
#pragma weak pthread_mutexattr_init
#pragma weak pthread_mutexattr_settype

static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t) && sizeof(cnd_t) == sizeof(pthread_cond_t));

namespace usher::preload {
namespace {

pthread_mutex_t* of(mtx_t* m) {
  return reinterpret_cast<pthread_mutex_t*>(m);
}
pthread_cond_t* of(cnd_t* c) {
  return reinterpret_cast<pthread_cond_t*>(c);
}

int init_recursive(pthread_mutex_t* m) {
  if (pthread_mutexattr_init == nullptr) {  // dlopen() has loaded libpthread.so.0 after the start
    *m = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    return 0;
  }
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  const int error = current_calls.mutex_init(m, &recursive);
  pthread_mutexattr_destroy(&recursive);
  return error;
}

int init(pthread_mutex_t* m, int type) {
  return (type & mtx_recursive) != 0 ? init_recursive(m) : current_calls.mutex_init(m, nullptr);
}

}  // namespace
}  // namespace usher::preload

using namespace usher::preload;  // NOLINT(google-build-using-namespace): the exported functions follow

// `remove`: the assembler removes the names that begin with usher_ from the symbol table.
#define USHER_C11_VERSION(type, name, prefix, version, parameters, ...)                \
  __asm__(".symver " #prefix #name ", " #name "@" version ", remove");                 \
  USHER_EXPORT type prefix##name parameters { /* NOLINT(bugprone-macro-parentheses) */ \
    __VA_ARGS__;                                                                       \
  }
#define USHER_C11(type, name, parameters, ...)                                        \
  USHER_C11_VERSION(type, name, usher_old_, USHER_C11_GLIBC, parameters, __VA_ARGS__) \
  USHER_C11_VERSION(type, name, usher_new_, USHER_MERGED_GLIBC, parameters, __VA_ARGS__)

USHER_C11(int, mtx_init, (mtx_t * m, int type), return c11_result(init(of(m), type)))
USHER_C11(void, mtx_destroy, (mtx_t * m), current_calls.mutex_destroy(of(m)))
USHER_C11(int, mtx_lock, (mtx_t * m), return c11_result(current_calls.lock(of(m))))
USHER_C11(int, mtx_trylock, (mtx_t * m), return c11_result(current_calls.trylock(of(m))))
USHER_C11(int, mtx_timedlock, (mtx_t * m, const timespec* until),
          return c11_result(current_calls.timedlock(of(m), until)))
USHER_C11(int, mtx_unlock, (mtx_t * m), return c11_result(current_calls.unlock(of(m))))
USHER_C11(int, cnd_init, (cnd_t * c), return c11_result(current_calls.cond_init(of(c), nullptr)))
USHER_C11(void, cnd_destroy, (cnd_t * c), current_calls.cond_destroy(of(c)))
USHER_C11(int, cnd_wait, (cnd_t * c, mtx_t* m), return c11_result(current_calls.cond_wait(of(c), of(m))))
USHER_C11(int, cnd_timedwait, (cnd_t * c, mtx_t* m, const timespec* until),
          return c11_result(current_calls.cond_timedwait(of(c), of(m), until)))
USHER_C11(int, cnd_signal, (cnd_t * c), return c11_result(current_calls.cond_signal(of(c))))
USHER_C11(int, cnd_broadcast, (cnd_t * c), return c11_result(current_calls.cond_broadcast(of(c))))

#endif
