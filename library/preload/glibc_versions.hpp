// The symbol versions of glibc's first release on this architecture, and of its condition variables. On other
// architectures they are not defined.
#pragma once

#include <features.h>

#if defined(__GLIBC__) && defined(__x86_64__)
#define USHER_FIRST_GLIBC "GLIBC_2.2.5"
#define USHER_COND_GLIBC "GLIBC_2.3.2"
#elif defined(__GLIBC__) && defined(__aarch64__)
#define USHER_FIRST_GLIBC "GLIBC_2.17"
#define USHER_COND_GLIBC "GLIBC_2.17"
#endif

// The versions of C11's functions: of 2.28, when libpthread.so.0 got them, and of 2.34, when it became part of
// libc.so.6.
#define USHER_C11_GLIBC "GLIBC_2.28"
#define USHER_MERGED_GLIBC "GLIBC_2.34"
