// The look-up of a C library's function behind the library that interposes it: for libusher.so and libusher-stat.so.
#pragma once

#include <dlfcn.h>

namespace usher::preload {

/// The function's address, or null. May change errno. Before glibc 2.34 a program may start without libpthread.so.0, and
/// load a library that brings it later. RTLD_NEXT does not see a library that was loaded by dlopen().
inline void* find_next(const char* name) {
  if (void* const next = dlsym(RTLD_NEXT, name)) return next;
  // RTLD_NOLOAD: no file is searched for or loaded, so that no path in the environment matters.
  void* const late = dlopen("libpthread.so.0", RTLD_LAZY | RTLD_NOLOAD);
  return late != nullptr ? dlsym(late, name) : nullptr;
}

}  // namespace usher::preload
