// The symbol versions, on x86-64 and AArch64, of glibc's first release and of its condition variables.
#pragma once

#include <features.h>

#if defined(__GLIBC__) && defined(__x86_64__)
#define USHER_FIRST_GLIBC "GLIBC_2.2.5"
#define USHER_COND_GLIBC "GLIBC_2.3.2"
#elif defined(__GLIBC__) && defined(__aarch64__)
#define USHER_FIRST_GLIBC "GLIBC_2.17"
#define USHER_COND_GLIBC "GLIBC_2.17"
#endif

// The versions of C11's functions: since 2.28 in libpthread.so.0, since 2.34 in libc.so.6.
#define USHER_C11_GLIBC "GLIBC_2.28"
#define USHER_MERGED_GLIBC "GLIBC_2.34"
