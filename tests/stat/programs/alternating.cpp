// A library that is built in two versions. Each version is loaded at the address at which the other version was loaded
// before, and initialises a mutex in a function that only this version has.
#include <pthread.h>

#include <cstdlib>

namespace {
[[gnu::noinline]] void count(pthread_mutex_t* mutex, int* made) {
  pthread_mutex_lock(mutex);
  ++*made;
  pthread_mutex_unlock(mutex);
}
}  // namespace

extern "C" void call(void (*f)()) {
  f();
  asm volatile("" ::: "memory");  // no tail call
}

#if FORM == 1
namespace {
struct {
  pthread_mutex_t mutex;
  char after[1024];
} first_data;
}  // namespace
extern "C" void make_mutex(int* made) {
  pthread_mutex_t mutex;
  if (pthread_mutex_init(&mutex, nullptr) != 0) std::abort();  // mark: made in the first form
  count(&mutex, made);
  pthread_mutex_destroy(&mutex);
  pthread_mutex_lock(&first_data.mutex);
  pthread_mutex_unlock(&first_data.mutex);
}
#else
namespace {
struct {
  char before[1024];
  pthread_mutex_t mutex;
} second_data;
}  // namespace
extern "C" void make_mutex(int* made) {
  pthread_mutex_t mutex;
  if (pthread_mutex_init(&mutex, nullptr) != 0) std::abort();  // mark: made in the second form
  count(&mutex, made);
  pthread_mutex_destroy(&mutex);
  pthread_mutex_lock(&second_data.mutex);
  pthread_mutex_unlock(&second_data.mutex);
}
#endif
