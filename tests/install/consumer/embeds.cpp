// Uses locks from the headers alone: four threads count.
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include <usher/locks/twa.hpp>
#include <usher/mutex.hpp>

static usher::mutex<usher::twa> m;
static long counter;

int main() {
  {
    std::vector<std::jthread> team;
    for (int i = 0; i < 4; i++)
      team.emplace_back([] {
        for (int k = 0; k < 10000; k++) {
          const std::lock_guard guard(m);
          counter++;
        }
      });
  }
  std::printf("%ld\n", counter);
  return counter == 40000 ? 0 : 1;
}
