/* System calls by inline assembly, for C and C++.
 *
 * A lock call must not enter the kernel through functions of the C library. A preloaded library may replace such a
 * function (libfaketime: clock_gettime, getpid, syscall) and guard its own state by a mutex. The lock call would call
 * the replacement, which would call the lock again, without end; or it would wait for the mutex that its own thread is
 * about to take.
 *
 * A library that changes the results of these functions for the program does not change them for a lock. The C
 * library's own locks behave in the same way, because they, too, make their system calls by instructions.
 * errno is not changed. None of these calls is a cancellation point. */
#ifndef USHER_PLATFORM_NATIVE_SYSTEM_CALL_H
#define USHER_PLATFORM_NATIVE_SYSTEM_CALL_H

#include <sys/syscall.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <errno.h>
#include <unistd.h>
#endif

#ifdef __cplusplus
#include <type_traits>

#include "usher/core/cxx20.hpp"
#define USHER_INLINE inline
namespace usher::inline v2::native_detail {
#else
#define USHER_INLINE static inline
#endif

/* The arguments are integers and addresses, converted to long. Returns the kernel's result: negative is an error. */
USHER_INLINE long system_call_of_longs(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory", "cc");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory", "cc");
  return x0;
#else
  const int saved = errno;
  const long result = syscall(number, a, b, c, d, e, f);
  const long answer = result == -1 ? -errno : result;
  errno = saved;
  return answer;
#endif
}
#undef USHER_INLINE

#ifdef __cplusplus
inline long as_long(const volatile void* address) {
  return reinterpret_cast<long>(address);
}
inline long as_long(decltype(nullptr)) {
  return 0;
}
template <class Integer>
  requires std::is_integral_v<Integer>
long as_long(Integer value) {
  return long(value);
}

/// Takes integers and pointers. Returns the kernel's result: negative is an error.
template <class... Args>
long system_call(long number, Args... args) {
  static_assert(sizeof...(args) <= 6);
  const long a[6] = {as_long(args)...};
  return system_call_of_longs(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
}  // namespace usher::inline v2::native_detail
#endif

#endif
