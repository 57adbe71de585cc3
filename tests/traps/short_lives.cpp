// Trap: locks that are larger than a mutex. Under contention such a lock takes its state from a pool. The state must
// return to the pool, however many mutexes a program makes, and even if it never destroys them: std::mutex's destructor
// makes no call.
#include "cases.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

namespace {

constexpr long lives = 10000000, at_a_time = 10000, generations = lives / at_a_time;

struct guarded {
  std::mutex mutex;
  int count = 0;
};

struct scene {
  guarded* some;
  int generation = 0;  // the generation of `some`: 1, 2, …
  int arrived = 0, done = 0;
};

// Locks all mutexes of each generation, one thread in ascending and one in descending order. Where the two threads
// meet, a mutex is contended.
void worker(scene& s, bool upwards) {
  for (int g = 1; g <= generations; ++g) {
    while (flag_get(&s.generation) < g) sched_yield();
    flag_add(&s.arrived, 1);
    for (long i = 0; i < at_a_time; ++i) {
      guarded& one = s.some[upwards ? i : at_a_time - 1 - i];
      const std::lock_guard guard(one.mutex);
      one.count++;
    }
    flag_add(&s.done, 1);
  }
}

// The process's address space and resident memory, in KiB.
struct usage {
  long space, memory;
};
usage now_used() {
  FILE* file = fopen("/proc/self/statm", "r");
  long pages = 0, resident = 0;
  CHECK(file != nullptr && fscanf(file, "%ld %ld", &pages, &resident) == 2);
  fclose(file);
  const long kib = sysconf(_SC_PAGESIZE) / 1024;
  return {pages * kib, resident * kib};
}

CASE(ten_million_mutexes_in_bounded_memory) {
  scene s;
  std::thread first(worker, std::ref(s), true), second(worker, std::ref(s), false);
  long sum = 0;
  usage early{};
  for (int g = 1; g <= generations; ++g) {
    const auto some = std::make_unique<guarded[]>(at_a_time);
    s.some = some.get();
    some[0].mutex.lock();
    some[at_a_time - 1].mutex.lock();
    flag_set(&s.generation, g);
    while (flag_get(&s.arrived) < 2 * g) sched_yield();
    usleep(20);  // so long that both threads usually wait by now
    some[0].mutex.unlock();
    some[at_a_time - 1].mutex.unlock();
    while (flag_get(&s.done) < 2 * g) sched_yield();
    for (long i = 0; i < at_a_time; ++i) sum += some[i].count;
    if (g == generations / 10) early = now_used();
  }
  first.join();
  second.join();
  CHECK_NUMBER(sum, 2 * lives);
  const usage late = now_used();
  note("%ld KiB of %ld after a tenth, %ld of %ld at the end", early.memory, early.space, late.memory, late.space);
  CHECK(late.memory < early.memory + 4096);
  CHECK(late.space < early.space + 256 * 1024);  // malloc may reserve an arena of 64 MiB of address space
  CHECK(late.memory < 64 * 1024);
}

}  // namespace
