// Exports the condition variable functions a second time, with the C library's symbol version. ThreadSanitizer's
// run-time library looks them up by that version (dlvsym), and would not find an export without a version. These
// exports are in a file of their own, because the linker merges two exports of a function from one object file.
#include "library/preload/calls.hpp"
#include "library/preload/export.hpp"
#include "library/preload/glibc_versions.hpp"

#if defined(USHER_COND_GLIBC)

using namespace usher::preload;  // NOLINT(google-build-using-namespace): the exported functions follow

#define USHER_WITH_VERSION(name) __asm__(".symver usher_" name ", pthread_" name "@" USHER_COND_GLIBC ", remove")

USHER_WITH_VERSION("cond_init");
USHER_EXPORT int usher_cond_init(pthread_cond_t* c, const pthread_condattr_t* attributes) {
  return current_calls.cond_init(c, attributes);
}
USHER_WITH_VERSION("cond_destroy");
USHER_EXPORT int usher_cond_destroy(pthread_cond_t* c) {
  return current_calls.cond_destroy(c);
}
USHER_WITH_VERSION("cond_wait");
USHER_EXPORT int usher_cond_wait(pthread_cond_t* c, pthread_mutex_t* m) {
  return current_calls.cond_wait(c, m);
}
USHER_WITH_VERSION("cond_timedwait");
USHER_EXPORT int usher_cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, const timespec* until) {
  return current_calls.cond_timedwait(c, m, until);
}
USHER_WITH_VERSION("cond_signal");
USHER_EXPORT int usher_cond_signal(pthread_cond_t* c) {
  return current_calls.cond_signal(c);
}
USHER_WITH_VERSION("cond_broadcast");
USHER_EXPORT int usher_cond_broadcast(pthread_cond_t* c) {
  return current_calls.cond_broadcast(c);
}

#endif
