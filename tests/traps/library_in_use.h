// Functions for trap tests that find libusher.so (USHER_LIB) and distinguish its mutexes from the C library's.
#ifndef USHER_TESTS_LIBRARY_IN_USE_H
#define USHER_TESTS_LIBRARY_IN_USE_H

#include "cases.h"

#include <dlfcn.h>
#include <limits.h>

/// At offset 12 of a mutex the C library counts the mutex's users, and libusher.so counts waiters with deadlines. So
/// the result is right only while the mutex is held and no thread waits.
static inline bool is_the_c_librarys(const pthread_mutex_t* mutex) {
  return mutex->__data.__nusers != 0;
}

/// Returns whether this address lies in the file that USHER_LIB names.
static inline bool lies_in_library(const void* address) {
  const char* path = getenv("USHER_LIB");
  Dl_info info;
  char wanted[PATH_MAX], found[PATH_MAX];
  return path && dladdr(address, &info) != 0 && realpath(path, wanted) && realpath(info.dli_fname, found) &&
         strcmp(wanted, found) == 0;
}

static inline const char* object_of(const void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 ? info.dli_fname : "nothing";
}

/// Returns a function's address as void*, the type that dladdr and dlsym use: ISO C has no such conversion.
static inline void* address_of(void (*function)(void)) {
  void* address;
  memcpy(&address, &function, sizeof address);
  return address;
}

static inline int call_mutex_function(void* address, pthread_mutex_t* mutex) {
  int (*function)(pthread_mutex_t*);
  memcpy(&function, &address, sizeof function);
  return function(mutex);
}

#endif
