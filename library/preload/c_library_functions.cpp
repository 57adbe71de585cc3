#include "library/preload/c_library_functions.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "library/preload/calls.hpp"
#include "library/preload/find_next.hpp"
#include "library/preload/glibc_versions.hpp"
#include "library/preload/timeouts.hpp"

// All references are weak: a program on another C library that inherits LD_PRELOAD must still start. The mutex
// functions are linked to rather than looked up, because dlsym() may allocate, and a mutex may be locked too early for
// that.
extern "C" {
#if defined(__GLIBC__)
[[gnu::weak]] int usher_libc_init(pthread_mutex_t*, const pthread_mutexattr_t*);
[[gnu::weak]] int usher_libc_destroy(pthread_mutex_t*);
[[gnu::weak]] int usher_libc_lock(pthread_mutex_t*);
[[gnu::weak]] int usher_libc_trylock(pthread_mutex_t*);
[[gnu::weak]] int usher_libc_unlock(pthread_mutex_t*);
__asm__(".symver usher_libc_init, __pthread_mutex_init@" USHER_FIRST_GLIBC);
__asm__(".symver usher_libc_destroy, __pthread_mutex_destroy@" USHER_FIRST_GLIBC);
__asm__(".symver usher_libc_lock, __pthread_mutex_lock@" USHER_FIRST_GLIBC);
__asm__(".symver usher_libc_trylock, __pthread_mutex_trylock@" USHER_FIRST_GLIBC);
__asm__(".symver usher_libc_unlock, __pthread_mutex_unlock@" USHER_FIRST_GLIBC);
#endif
// pthread_atfork() calls this function. With a null last argument its handlers are never removed, which suits
// libusher.so: it is never unloaded.
[[gnu::weak]] int __register_atfork(void (*)(), void (*)(), void (*)(), void*);  // NOLINT(bugprone-reserved-identifier)
[[gnu::weak]] const char* gnu_get_libc_version(void);
[[gnu::weak]] void* dlvsym(void*, const char*, const char*);
}

// Replaces the C library's pthread_atfork(), which an archive adds to each library that calls it. That one has a strong
// reference to __register_atfork, and libusher.so could not be loaded on a C library that lacks it.
extern "C" [[gnu::visibility("hidden")]] int pthread_atfork(void (*prepare)(), void (*parent)(), void (*child)()) {
  return __register_atfork != nullptr ? __register_atfork(prepare, parent, child, nullptr) : 0;
}

namespace usher::preload::c_library {
namespace {

/// A function of the C library that is looked up at its first call. If the look-up fails, the next call repeats it.
template <class F>
class looked_up;

template <class... Args>
class looked_up<int(Args...)> {
 public:
  constexpr looked_up(const char* name, const char* version) : name_(name), version_(version) {}

  bool found() { return function_.load(std::memory_order_relaxed) != nullptr || look_up() != missing; }

  int operator()(Args... args) {
    function f = function_.load(std::memory_order_relaxed);
    if (f == nullptr) [[unlikely]]
      f = look_up();
    return f(args...);
  }

 private:
  using function = int (*)(Args...);

  [[gnu::cold]] function look_up() {
    const int saved = errno;
    void* p = version_ != nullptr && dlvsym != nullptr ? dlvsym(RTLD_NEXT, name_, version_) : nullptr;
    if (p == nullptr) p = find_next(name_);
    errno = saved;
    if (p == nullptr) return missing;
    const auto f = reinterpret_cast<function>(p);
    function_.store(f, std::memory_order_relaxed);
    return f;
  }

  static int missing(Args...) { return ENOSYS; }

  const char* name_;
  const char* version_;
  std::atomic<function> function_{nullptr};
};

#if defined(USHER_COND_GLIBC)
constexpr const char* cond_version = USHER_COND_GLIBC;  // glibc also has older functions of the same names
#else
constexpr const char* cond_version = nullptr;
#endif

using mutex_f = int(pthread_mutex_t*);
constinit looked_up<int(pthread_mutex_t*, const pthread_mutexattr_t*)> found_init{"pthread_mutex_init", nullptr};
constinit looked_up<mutex_f> found_destroy{"pthread_mutex_destroy", nullptr};
constinit looked_up<mutex_f> found_lock{"pthread_mutex_lock", nullptr};
constinit looked_up<mutex_f> found_trylock{"pthread_mutex_trylock", nullptr};
constinit looked_up<mutex_f> found_unlock{"pthread_mutex_unlock", nullptr};
constinit looked_up<int(pthread_mutex_t*, const timespec*)> found_timedlock{"pthread_mutex_timedlock", nullptr};
constinit looked_up<int(pthread_mutex_t*, clockid_t, const timespec*)> found_clocklock{"pthread_mutex_clocklock",
                                                                                       nullptr};
constinit looked_up<int(const pthread_condattr_t*, int*)> found_cond_getpshared{"pthread_condattr_getpshared", nullptr};
constinit looked_up<int(const pthread_condattr_t*, clockid_t*)> found_cond_getclock{"pthread_condattr_getclock",
                                                                                    nullptr};
constinit looked_up<int(pthread_cond_t*, const pthread_condattr_t*)> found_cond_init{"pthread_cond_init", cond_version};
constinit looked_up<int(pthread_cond_t*)> found_cond_destroy{"pthread_cond_destroy", cond_version};
constinit looked_up<int(pthread_cond_t*, pthread_mutex_t*)> found_cond_wait{"pthread_cond_wait", cond_version};
constinit looked_up<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)> found_cond_timedwait{
    "pthread_cond_timedwait", cond_version};
constinit looked_up<int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)> found_cond_clockwait{
    "pthread_cond_clockwait", nullptr};
constinit looked_up<int(pthread_cond_t*)> found_cond_signal{"pthread_cond_signal", cond_version};
constinit looked_up<int(pthread_cond_t*)> found_cond_broadcast{"pthread_cond_broadcast", cond_version};
constinit looked_up<int(sem_t*, int, unsigned)> found_sem_init{"sem_init", nullptr};
constinit looked_up<int(sem_t*)> found_sem_destroy{"sem_destroy", nullptr};
constinit looked_up<int(sem_t*)> found_sem_wait{"sem_wait", nullptr};
constinit looked_up<int(sem_t*)> found_sem_trywait{"sem_trywait", nullptr};
constinit looked_up<int(sem_t*, const timespec*)> found_sem_timedwait{"sem_timedwait", nullptr};
constinit looked_up<int(sem_t*, clockid_t, const timespec*)> found_sem_clockwait{"sem_clockwait", nullptr};
constinit looked_up<int(sem_t*)> found_sem_post{"sem_post", nullptr};
constinit looked_up<int(sem_t*, int*)> found_sem_getvalue{"sem_getvalue", nullptr};

/// Calls a semaphore function. If the C library lacks it, returns −1 and sets errno to ENOSYS, as such functions do.
template <class F, class... Args>
int call(F& f, Args... args) {
  if (f.found()) return f(args...);
  errno = ENOSYS;
  return -1;
}

}  // namespace

#if defined(USHER_FIRST_GLIBC)
int mutex_init(pthread_mutex_t* m, const pthread_mutexattr_t* a) {
  return usher_libc_init != nullptr ? usher_libc_init(m, a) : found_init(m, a);
}
int mutex_destroy(pthread_mutex_t* m) {
  return usher_libc_destroy != nullptr ? usher_libc_destroy(m) : found_destroy(m);
}
int mutex_lock(pthread_mutex_t* m) {
  return usher_libc_lock != nullptr ? usher_libc_lock(m) : found_lock(m);
}
int mutex_trylock(pthread_mutex_t* m) {
  return usher_libc_trylock != nullptr ? usher_libc_trylock(m) : found_trylock(m);
}
int mutex_unlock(pthread_mutex_t* m) {
  return usher_libc_unlock != nullptr ? usher_libc_unlock(m) : found_unlock(m);
}
int (*without_check(int (*f)(pthread_mutex_t*)))(pthread_mutex_t*) {
  int (*const linked)(pthread_mutex_t*) = f == mutex_lock      ? usher_libc_lock
                                          : f == mutex_trylock ? usher_libc_trylock
                                          : f == mutex_unlock  ? usher_libc_unlock
                                                               : nullptr;
  return linked != nullptr ? linked : f;
}
#else
int mutex_init(pthread_mutex_t* m, const pthread_mutexattr_t* a) {
  return found_init(m, a);
}
int mutex_destroy(pthread_mutex_t* m) {
  return found_destroy(m);
}
int mutex_lock(pthread_mutex_t* m) {
  return found_lock(m);
}
int mutex_trylock(pthread_mutex_t* m) {
  return found_trylock(m);
}
int mutex_unlock(pthread_mutex_t* m) {
  return found_unlock(m);
}
int (*without_check(int (*f)(pthread_mutex_t*)))(pthread_mutex_t*) {
  return f;
}
#endif
int mutex_timedlock(pthread_mutex_t* m, const timespec* t) {
  return found_timedlock(m, not_before_epoch(t));
}
int mutex_clocklock(pthread_mutex_t* m, clockid_t c, const timespec* t) {
  return found_clocklock(m, c, not_before_epoch(t));
}

int condattr_getpshared(const pthread_condattr_t* a, int* shared) {
  return found_cond_getpshared(a, shared);
}
int condattr_getclock(const pthread_condattr_t* a, clockid_t* clock) {
  return found_cond_getclock(a, clock);
}
int cond_init(pthread_cond_t* c, const pthread_condattr_t* a) {
  return found_cond_init(c, a);
}
int cond_destroy(pthread_cond_t* c) {
  return found_cond_destroy(c);
}
int cond_wait(pthread_cond_t* c, pthread_mutex_t* m) {
  return found_cond_wait(c, m);
}
int cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, const timespec* t) {
  return found_cond_timedwait(c, m, not_before_epoch(t));
}
int cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t k, const timespec* t) {
  return found_cond_clockwait(c, m, k, not_before_epoch(t));
}
int cond_signal(pthread_cond_t* c) {
  return found_cond_signal(c);
}
int cond_broadcast(pthread_cond_t* c) {
  return found_cond_broadcast(c);
}

int sem_init(sem_t* s, int shared, unsigned value) {
  return call(found_sem_init, s, shared, value);
}
int sem_destroy(sem_t* s) {
  return call(found_sem_destroy, s);
}
int sem_wait(sem_t* s) {
  return call(found_sem_wait, s);
}
int sem_trywait(sem_t* s) {
  return call(found_sem_trywait, s);
}
int sem_timedwait(sem_t* s, const timespec* t) {
  return call(found_sem_timedwait, s, not_before_epoch(t));
}
int sem_clockwait(sem_t* s, clockid_t c, const timespec* t) {
  return call(found_sem_clockwait, s, c, not_before_epoch(t));
}
int sem_post(sem_t* s) {
  return call(found_sem_post, s);
}
int sem_getvalue(sem_t* s, int* value) {
  return call(found_sem_getvalue, s, value);
}
void look_up_all() {
  const auto find = [](auto&... f) { (f.found(), ...); };
  find(found_timedlock, found_clocklock);
  find(found_cond_getpshared, found_cond_getclock, found_cond_init, found_cond_destroy, found_cond_wait,
       found_cond_timedwait, found_cond_clockwait, found_cond_signal, found_cond_broadcast);
  find(found_sem_init, found_sem_destroy, found_sem_wait, found_sem_trywait, found_sem_timedwait, found_sem_clockwait,
       found_sem_post, found_sem_getvalue);
}

void register_child_handler(void (*f)()) {
  if (__register_atfork != nullptr) __register_atfork(nullptr, nullptr, f, nullptr);
}

bool is_glibc() {
  return gnu_get_libc_version != nullptr;
}

}  // namespace usher::preload::c_library

namespace usher::preload {

constinit const calls c_library_calls{.lock = c_library::mutex_lock,
                                      .trylock = c_library::mutex_trylock,
                                      .unlock = c_library::mutex_unlock,
                                      .timedlock = c_library::mutex_timedlock,
                                      .clocklock = c_library::mutex_clocklock,
                                      .mutex_init = c_library::mutex_init,
                                      .mutex_destroy = c_library::mutex_destroy,
                                      .cond_wait = c_library::cond_wait,
                                      .cond_timedwait = c_library::cond_timedwait,
                                      .cond_clockwait = c_library::cond_clockwait,
                                      .cond_signal = c_library::cond_signal,
                                      .cond_broadcast = c_library::cond_broadcast,
                                      .cond_init = c_library::cond_init,
                                      .cond_destroy = c_library::cond_destroy,
                                      .sem_wait = c_library::sem_wait,
                                      .sem_trywait = c_library::sem_trywait,
                                      .sem_timedwait = c_library::sem_timedwait,
                                      .sem_clockwait = c_library::sem_clockwait,
                                      .sem_post = c_library::sem_post,
                                      .sem_getvalue = c_library::sem_getvalue,
                                      .sem_init = c_library::sem_init,
                                      .sem_destroy = c_library::sem_destroy};

}  // namespace usher::preload
