// An allocator with one mutex, as some allocators have, so that waits are recorded inside malloc. The program prints
// its own figures in the form of planted.hpp.
#include <pthread.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <ctime>
#include <thread>

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t number, std::size_t size);
void* __libc_realloc(void* block, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* block);
}

namespace {
pthread_mutex_t heap_mutex = PTHREAD_MUTEX_INITIALIZER;
// The program's own counts and times in nanoseconds, changed only by the holder of the mutex.
std::uint64_t rounds, waited, longest, held;
bool is_slow;

std::uint64_t now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec * 1000000000 + t.tv_nsec);
}

/// Polls the clock for 200 µs if `is_slow`, as a search in a long list would take.
void search() {
  if (!is_slow) return;
  for (const auto end = now() + 200000; now() < end;) {
  }
}

template <class Work>
[[gnu::noinline]] auto in_heap(const Work& work) {
  const auto called = now();
  pthread_mutex_lock(&heap_mutex);  // mark: heap waits
  const auto returned = now();
  ++rounds;
  waited += returned - called;
  if (returned - called > longest) longest = returned - called;
  search();
  auto* const result = work();
  held += now() - returned;
  pthread_mutex_unlock(&heap_mutex);  // mark: heap released
  return result;
}

[[gnu::noinline]] void fill_cart() {
  for (int i = 0; i < 100; ++i) {
    int* volatile item = new int(i);  // mark: allocates
    delete item;
  }
}
}  // namespace

extern "C" {
void* malloc(std::size_t size) {
  return in_heap([=] { return __libc_malloc(size); });
}
void* calloc(std::size_t number, std::size_t size) {
  return in_heap([=] { return __libc_calloc(number, size); });
}
void* realloc(void* block, std::size_t size) {
  return in_heap([=] { return __libc_realloc(block, size); });
}
void* memalign(std::size_t alignment, std::size_t size) {
  return in_heap([=] { return __libc_memalign(alignment, size); });
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return memalign(alignment, size);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
  *block = memalign(alignment, size);
  return 0;
}
void free(void* block) {
  in_heap([=] {
    __libc_free(block);
    return &rounds;
  });
}
}

int main() {
  const std::uint64_t before_main = rounds;
  {
    std::thread threads[3];
    is_slow = true;
    for (auto& thread : threads) thread = std::thread(fill_cart);
    for (auto& thread : threads) thread.join();
    is_slow = false;
  }
  char text[400];
  pthread_mutex_lock(&heap_mutex);
  const int size = std::snprintf(text, sizeof text,
                                 "{\"heap_mutex\": {\"acquisitions\": %lu, \"waited\": %.9f, \"longest\": %.9f, "
                                 "\"held\": %.9f, \"before_main\": %lu}}\n",
                                 rounds + 1, static_cast<double>(waited) * 1e-9, static_cast<double>(longest) * 1e-9,
                                 static_cast<double>(held) * 1e-9, before_main);
  pthread_mutex_unlock(&heap_mutex);
  _exit(write(1, text, static_cast<std::size_t>(size)) == size ? 0 : 1);
}
