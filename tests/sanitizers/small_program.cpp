// A small program with every kind of object that libusher.so replaces. It is built with a sanitizer and runs under a
// lock. It must print "ok" without a report of the sanitizer, unless an argument asks for a mistake. Arguments:
//   conditions  also waits on condition variables
//   overrun     writes behind the end of an allocation
//   race        two threads write one variable without a lock
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

namespace {

constexpr int team = 4, rounds = 1000, turns = 50;

std::mutex standard;
pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER, recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
sem_t gate, letters;
long by_standard, by_recursive, by_try, by_timed, by_gate, turn, letter, careless;

timespec soon() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  t.tv_sec += 20;
  return t;
}

void work(int me, bool conditions) {
  for (int i = 0; i < rounds; ++i) {
    {
      const std::lock_guard<std::mutex> guard(standard);
      ++by_standard;
    }
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&recursive);
    ++by_recursive;
    pthread_mutex_unlock(&recursive);
    pthread_mutex_unlock(&recursive);
    if (pthread_mutex_trylock(&normal) != 0) pthread_mutex_lock(&normal);
    ++by_try;
    pthread_mutex_unlock(&normal);
    const timespec limit = soon();
    if (pthread_mutex_timedlock(&normal, &limit) == 0) {
      ++by_timed;
      pthread_mutex_unlock(&normal);
    }
    while (sem_wait(&gate) != 0) {
    }
    ++by_gate;
    sem_post(&gate);
  }
  for (int t = 0; conditions && t < turns; ++t) {
    pthread_mutex_lock(&normal);
    const timespec limit = soon();
    while (turn != t * team + me) {
      if (me % 2 == 0) {
        pthread_cond_wait(&turned, &normal);
      } else {
        pthread_cond_timedwait(&turned, &normal, &limit);
      }
    }
    ++turn;
    pthread_cond_broadcast(&turned);
    pthread_mutex_unlock(&normal);
  }
}

bool right(const char* what, long found, long expected) {
  if (found != expected) std::printf("wrong: %s is %ld, not %ld\n", what, found, expected);
  return found == expected;
}

}  // namespace

int main(int count, char** words) {
  bool conditions = false, overrun = false, race = false;
  for (int i = 1; i < count; ++i) {
    conditions = conditions || std::strcmp(words[i], "conditions") == 0;
    overrun = overrun || std::strcmp(words[i], "overrun") == 0;
    race = race || std::strcmp(words[i], "race") == 0;
  }
  sem_init(&gate, 0, 1);
  sem_init(&letters, 0, 0);
  std::vector<std::thread> threads;
  for (int me = 0; me < team; ++me) threads.emplace_back(work, me, conditions);
  // The reader must see the data that were written before the post that ended its wait.
  long read = 0;
  std::thread reader([&read] {
    while (sem_wait(&letters) != 0) {
    }
    read = letter;
  });
  letter = 7;
  sem_post(&letters);
  reader.join();
  for (std::thread& t : threads) t.join();
  const long all = static_cast<long>(team) * rounds;
  bool ok = right("a count under std::mutex", by_standard, all);
  ok = right("a count under a recursive mutex", by_recursive, all) && ok;
  ok = right("a count under trylock", by_try, all) && ok;
  ok = right("a count under timedlock", by_timed, all) && ok;
  ok = right("a count under a semaphore", by_gate, all) && ok;
  ok = right("the turn", turn, conditions ? static_cast<long>(team) * turns : 0) && ok;
  ok = right("the letter", read, 7) && ok;
  pthread_cond_destroy(&turned);
  pthread_mutex_destroy(&normal);
  sem_destroy(&gate);
  if (overrun) {
    volatile char* few = new char[8];
    volatile int behind = 8;
    few[behind] = 1;
  }
  if (race) {
    auto add = [] {
      for (int i = 0; i < 10000; ++i) ++careless;
    };
    std::thread other(add);
    add();
    other.join();
  }
  std::puts(ok ? "ok" : "wrong");
  return ok ? 0 : 1;
}
