// A library to be preloaded: it takes a mutex around each search for the unwind tables of a frame (_Unwind_Find_FDE),
// as the C++ runtime did before libgcc used _dl_find_object() of glibc 2.35. The library restores that one lock, not
// the whole old runtime: there, a thread that held the lock went through the list of all loaded modules, and the lock
// was glibc's own, which no preloaded library can replace. Environment variables:
//
//     UNWIND_LOCK_REPORT  at the end of the process, print the number of searches
//     UNWIND_LOCK_WALK    before each search, go through the list of modules as the old runtime did if its cache had
//                         the module: dl_iterate_phdr(), with a function that ends the iteration at the first module
//     UNWIND_LOCK_MORE    under the lock, make this number of additional searches, for the frames of the last searches
//                         in turn. The time of a search is the slope of the time over this number
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
long searches = 0;  // protected by the mutex
const bool walks = std::getenv("UNWIND_LOCK_WALK") != nullptr;
const long more = [] {
  const char* const text = std::getenv("UNWIND_LOCK_MORE");
  return text != nullptr ? std::atol(text) : 0;
}();

// The addresses of the last searches; protected by the mutex. A throw of the program `throwing` makes five searches.
void* last[5] = {};
unsigned next_last = 0;

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
  const auto search_once = [bases](void* place) {
    if (walks) dl_iterate_phdr([](dl_phdr_info*, std::size_t, void*) { return 1; }, nullptr);
    return next(place, bases);
  };
  if (more != 0) {
    last[next_last++ % std::size(last)] = pc;
    for (long i = 0; i < more; ++i) search_once(last[static_cast<unsigned long>(i) % std::size(last)]);
  }
  const void* const entry = search_once(pc);
  pthread_mutex_unlock(&mutex);
  return entry;
}
