// Threads increment a counter under a lock from Usher's headers.
#include <usher/locks/twa.hpp>
#include <usher/mutex.hpp>

#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

int main() {
  usher::mutex<usher::twa> m;
  long counter = 0;
  {
    std::vector<std::jthread> team;
    for (int i = 0; i < 4; i++)
      team.emplace_back([&] {
        for (int n = 0; n < 2000; n++) {
          const std::lock_guard guard(m);
          counter++;
        }
      });
  }
  std::printf("Usher %s: 4 threads counted to %ld\n", USHER_VERSION, counter);
  return counter == 8000 ? 0 : 1;
}
