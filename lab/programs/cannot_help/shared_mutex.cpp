// Uses std::shared_mutex, which is a pthread_rwlock_t.
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

int main(int argc, char** argv) {
  const long each = argc > 1 ? std::atol(argv[1]) : 250000;
  std::shared_mutex mutex;
  long count = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([&] {
      for (long j = 0; j < each; j++) {
        const std::lock_guard guard(mutex);
        count++;
      }
    });
  threads.clear();
  std::printf("%ld\n", count);
}
