// Semaphores: one whose value is small and that many threads wait for, and one that is used as a mutex.
#include "planted.hpp"

namespace planted {

namespace {
sem_t connections;
sem_t* door;
tally connection_figures("connections"), door_figures("door");
}  // namespace

void credits() {
  constexpr int threads = 6, rounds = 10;
  sem_init(&connections, 0, 2);
  in_threads(threads, [](int) {
    for (int i = 0; i < rounds; ++i) {
      const auto called = now();
      while (sem_wait(&connections) != 0) {  // mark: connection waits
      }
      const auto returned = now();
      sleep_for(5 * ms);  // the length of the use, which the figures contain
      connection_figures.round(called, returned, now());
      sem_post(&connections);  // mark: connection released
    }
  });
  connection_figures.say("posts", threads * rounds);
}

void semaphore_mutex() {
  constexpr int threads = 3, rounds = 40;
  door = new sem_t;
  sem_init(door, 0, 1);  // mark: door
  in_threads(threads, [](int) {
    for (int i = 0; i < rounds; ++i) {
      const auto called = now();
      while (sem_wait(door) != 0) {  // mark: door waits
      }
      const auto returned = now();
      busy(1 * ms);
      door_figures.round(called, returned, now());
      sem_post(door);
    }
  });
  door_figures.say("posts", threads * rounds);
}

}  // namespace planted
