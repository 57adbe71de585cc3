/* Functions and variables that the compiler's libraries use and that glibc 2.28 lacks. Each comment below names the
 * glibc that brought the function. All are hidden in the program into which this file is linked. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

/* glibc 2.32. Always 0 here, so the C++ library uses atomic operations for its reference counts. */
char __libc_single_threaded = 0;

/* glibc 2.30. If the C library lacks the function, the deadline is converted to CLOCK_REALTIME, the clock of the C++
 * library's condition variables. If that clock is then set back, the wait ends later. */
typedef int clockwait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);

int pthread_cond_clockwait(pthread_cond_t* restrict c, pthread_mutex_t* restrict m, clockid_t clock,
                           const struct timespec* restrict until) {
  clockwait* const theirs = (clockwait*)dlsym(RTLD_DEFAULT, "pthread_cond_clockwait");
  if (theirs != NULL) return theirs(c, m, clock, until);
  struct timespec now, real = *until;
  if (clock != CLOCK_REALTIME) {
    if (clock_gettime(clock, &now) != 0) return EINVAL;
    clock_gettime(CLOCK_REALTIME, &real);
    real.tv_sec += until->tv_sec - now.tv_sec;
    real.tv_nsec += until->tv_nsec - now.tv_nsec;
    if (real.tv_nsec >= 1000000000) real.tv_sec++, real.tv_nsec -= 1000000000;
    if (real.tv_nsec < 0) real.tv_sec--, real.tv_nsec += 1000000000;
  }
  return pthread_cond_timedwait(c, m, &real);
}

/* glibc 2.33. Before, <sys/stat.h> defined stat() and its like as calls of these functions with the version of struct
 * stat. Another version fails with EINVAL. */
#if defined(__x86_64__)
enum { stat_version = 1 };
#else
enum { stat_version = 0 };
#endif
int __xstat(int, const char*, struct stat*);
int __lxstat(int, const char*, struct stat*);
int __fxstat(int, int, struct stat*);
int __fxstatat(int, int, const char*, struct stat*, int);
int stat(const char* restrict path, struct stat* restrict to) {
  return __xstat(stat_version, path, to);
}
int lstat(const char* restrict path, struct stat* restrict to) {
  return __lxstat(stat_version, path, to);
}
int fstat(int file, struct stat* to) {
  return __fxstat(stat_version, file, to);
}
int fstatat(int folder, const char* restrict path, struct stat* restrict to, int flags) {
  return __fxstatat(stat_version, folder, path, to, flags);
}
int stat64(const char* restrict, struct stat64* restrict) __attribute__((alias("stat")));
int lstat64(const char* restrict, struct stat64* restrict) __attribute__((alias("lstat")));
int fstat64(int, struct stat64*) __attribute__((alias("fstat")));
int fstatat64(int, const char* restrict, struct stat64* restrict, int) __attribute__((alias("fstatat")));

/* glibc 2.36. */
uint32_t arc4random(void) {
  uint32_t value;
  while (getrandom(&value, sizeof value, 0) != sizeof value)
    if (errno != EINTR) abort();
  return value;
}
void arc4random_buf(void* to, size_t size) { /* expat calls this one */
  for (size_t done = 0; done < size;) {
    const ssize_t n = getrandom((char*)to + done, size - done, 0);
    if (n < 0 && errno != EINTR) abort();
    if (n > 0) done += (size_t)n;
  }
}

/* glibc 2.35. The unwinder calls _dl_find_object() to find the exception tables (.eh_frame_hdr) for a code address. */
static int find_object(struct dl_phdr_info* info, size_t size, void* to) {
  struct dl_find_object* const found = to;
  const uintptr_t address = (uintptr_t)found->dlfo_map_start;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr)* const p = &info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + p->p_vaddr;
    if (p->p_type != PT_LOAD || address < begin || address - begin >= p->p_memsz) continue;
    for (int k = 0; k < info->dlpi_phnum; k++) {
      if (info->dlpi_phdr[k].p_type != PT_GNU_EH_FRAME) continue;
      found->dlfo_flags = 0;
      found->dlfo_map_start = (void*)begin;
      found->dlfo_map_end = (void*)(begin + p->p_memsz);
      found->dlfo_eh_frame = (void*)(info->dlpi_addr + info->dlpi_phdr[k].p_vaddr);
      return 1;
    }
    return -1; /* the object has no exception tables */
  }
  return 0;
}

int _dl_find_object(void* address, struct dl_find_object* to) {
  memset(to, 0, sizeof *to);
  to->dlfo_map_start = address;
  return dl_iterate_phdr(find_object, to) == 1 ? 0 : -1;
}
