// A library to preload: it takes a mutex around each search for the unwind tables of a frame (_Unwind_Find_FDE), as the
// C++ runtime did until libgcc used _dl_find_object() of glibc 2.35. It restores that one lock, not that runtime:
// there, a thread that held the lock went through the list of all loaded modules, and glibc's own mutex of that list,
// which no preloaded library can replace, was taken, too. At the end of the process the library prints the number of
// searches if UNWIND_LOCK_REPORT is set.
#include <dlfcn.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>

namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
long searches = 0;  // protected by the mutex

[[gnu::destructor]] void report() {
  if (std::getenv("UNWIND_LOCK_REPORT") == nullptr) return;
  pthread_mutex_lock(&mutex);
  std::fprintf(stderr, "unwind_lock: %ld searches\n", searches);
  pthread_mutex_unlock(&mutex);
}

}  // namespace

extern "C" const void* _Unwind_Find_FDE(void* pc, void* bases) {
  using search = const void* (*)(void*, void*);
  static const search next = [] {
    void* const found = dlsym(RTLD_NEXT, "_Unwind_Find_FDE");
    if (found == nullptr) {
      std::fputs("unwind_lock: libgcc_s.so.1 is not loaded, or it does not export _Unwind_Find_FDE\n", stderr);
      std::abort();
    }
    return reinterpret_cast<search>(found);
  }();
  pthread_mutex_lock(&mutex);
  ++searches;
  const void* const entry = next(pc, bases);
  pthread_mutex_unlock(&mutex);
  return entry;
}
