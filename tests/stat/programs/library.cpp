#include "library.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cstdlib>

namespace {
pthread_mutex_t library_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t* library_heap_mutex;
pthread_once_t once = PTHREAD_ONCE_INIT;

void make_heap_mutex() {
  library_heap_mutex = new pthread_mutex_t;
  const int result = pthread_mutex_init(library_heap_mutex, nullptr);  // mark: library's heap mutex
  // an instruction after the call, so that it is no tail call
  if (result != 0) std::abort();
}
}  // namespace

extern "C" void library_work(const library_figures* figures, int rounds) {
  pthread_once(&once, make_heap_mutex);
  for (int i = 0; i < rounds; ++i) {
    auto called = figures->now();
    pthread_mutex_lock(&library_mutex);  // mark: library waits
    auto returned = figures->now();
    usleep(2000);  // the length of the hold
    auto released = figures->now();
    pthread_mutex_unlock(&library_mutex);  // mark: library released
    figures->took(true, called, returned, released);

    called = figures->now();
    pthread_mutex_lock(library_heap_mutex);  // mark: library's heap mutex waits
    returned = figures->now();
    usleep(1000);  // the length of the hold
    released = figures->now();
    pthread_mutex_unlock(library_heap_mutex);
    figures->took(false, called, returned, released);
  }
}

// Frees the heap mutex when the library is unloaded; otherwise its memory would leak.
__attribute__((destructor)) static void free_heap_mutex() {
  if (!library_heap_mutex) return;
  pthread_mutex_destroy(library_heap_mutex);
  delete library_heap_mutex;
}
