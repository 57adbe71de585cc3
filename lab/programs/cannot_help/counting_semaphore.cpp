// Uses a C++20 semaphore with one credit as a lock. This semaphore consists of an atomic and a futex, not of a sem_t.
#include <cstdio>
#include <cstdlib>
#include <semaphore>
#include <thread>
#include <vector>

int main(int argc, char** argv) {
  const long each = argc > 1 ? std::atol(argv[1]) : 250000;
  std::counting_semaphore<1> credit(1);
  long count = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([&] {
      for (long j = 0; j < each; j++) {
        credit.acquire();
        count++;
        credit.release();
      }
    });
  threads.clear();
  std::printf("%ld\n", count);
}
