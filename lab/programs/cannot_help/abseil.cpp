// Uses Abseil's mutex: its state is one word, and each waiter sleeps on a futex of its own thread.
#include <absl/synchronization/mutex.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

int main(int argc, char** argv) {
  const long each = argc > 1 ? std::atol(argv[1]) : 250000;
  absl::Mutex mutex;
  long count = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([&] {
      for (long j = 0; j < each; j++) {
        const absl::MutexLock guard(&mutex);
        count++;
      }
    });
  threads.clear();
  std::printf("%ld\n", count);
}
