// Looks up a C library's function from a library that exports the same name: for libusher.so and libusher-stat.so.
#pragma once

#include <dlfcn.h>

namespace usher::preload {

/// Returns the function's address, or null. May change errno. Before glibc 2.34 a program may start without
/// libpthread.so.0 and load it later by dlopen(); RTLD_NEXT does not search libraries loaded so.
inline void* find_next(const char* name) {
  if (void* const next = dlsym(RTLD_NEXT, name)) return next;
  // RTLD_NOLOAD finds only a library that is loaded. It reads no file, so paths in the environment do not matter.
  void* const late = dlopen("libpthread.so.0", RTLD_LAZY | RTLD_NOLOAD);
  return late != nullptr ? dlsym(late, name) : nullptr;
}

}  // namespace usher::preload
