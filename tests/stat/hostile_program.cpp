// Threads contend for a mutex in a function with crafted debug information (hostile_file.cpp).
#include <pthread.h>
#include <unistd.h>

extern "C" void* hostile_call(void* (*f)());

namespace {
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void* lock() {
  pthread_mutex_lock(&mutex);
  usleep(1000);  // the length of the hold: the other threads wait
  pthread_mutex_unlock(&mutex);
  return nullptr;
}

void* lock_often(void*) {
  for (int i = 0; i < 100; i++) hostile_call(lock);
  return nullptr;
}
}  // namespace

int main() {
  pthread_t threads[3];
  for (pthread_t& t : threads) pthread_create(&t, nullptr, lock_often, nullptr);
  for (pthread_t& t : threads) pthread_join(t, nullptr);
  return 0;
}
