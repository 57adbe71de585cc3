// A test of read-write locks, with rwlock_as_mutex.cpp preloaded or without: the rules for recursion, exclusion, static
// and dynamic initialisation, time-outs. It prints whether readers exclude each other.
#include <pthread.h>

#include <cerrno>
#include <ctime>
#include <functional>
#include <string>
#include <thread>

#include "options.hpp"
#include "team.hpp"

namespace {

using workloads::fail;

void must(int got, int wanted, const char* what) {
  if (got != wanted) fail(std::string(what) + ": " + std::to_string(got) + " in place of " + std::to_string(wanted));
}

/// Calls the function in another thread, and returns its result.
int elsewhere(const std::function<int()>& call) {
  int result = 0;
  std::thread([&] { result = call(); }).join();
  return result;
}

timespec soon(clockid_t clock) {
  timespec end{};
  clock_gettime(clock, &end);
  end.tv_nsec += 1'000'000;
  if (end.tv_nsec >= 1'000'000'000) end = {end.tv_sec + 1, end.tv_nsec - 1'000'000'000};
  return end;
}

/// Tests the rules of one free lock. Returns whether readers exclude each other.
bool test(pthread_rwlock_t& l) {
  must(pthread_rwlock_rdlock(&l), 0, "read");
  must(pthread_rwlock_rdlock(&l), 0, "read again");
  must(pthread_rwlock_tryrdlock(&l), 0, "try to read again");
  const timespec end = soon(CLOCK_REALTIME), later = soon(CLOCK_MONOTONIC);
  must(pthread_rwlock_timedrdlock(&l, &end), 0, "read again, with a limit");
  must(pthread_rwlock_clockrdlock(&l, CLOCK_MONOTONIC, &later), 0, "read again, with a limit by a clock");
  must(pthread_rwlock_trywrlock(&l), EBUSY, "try to write what is read");
  must(elsewhere([&] { return pthread_rwlock_trywrlock(&l); }), EBUSY, "try to write what another thread reads");
  for (int i = 0; i < 4; ++i) must(pthread_rwlock_unlock(&l), 0, "end of a read");
  must(elsewhere([&] { return pthread_rwlock_trywrlock(&l); }), EBUSY, "try to write what is read once more");
  const int second = elsewhere([&] {
    const int error = pthread_rwlock_tryrdlock(&l);
    if (error == 0) pthread_rwlock_unlock(&l);
    return error;
  });
  if (second != 0 && second != EBUSY) fail("a second reader gets " + std::to_string(second));
  must(pthread_rwlock_unlock(&l), 0, "end of the last read");

  must(pthread_rwlock_wrlock(&l), 0, "write");
  must(pthread_rwlock_wrlock(&l), EDEADLK, "write again");
  must(pthread_rwlock_rdlock(&l), EDEADLK, "read what is written");
  must(pthread_rwlock_tryrdlock(&l), EBUSY, "try to read what is written");
  must(elsewhere([&] { return pthread_rwlock_tryrdlock(&l); }), EBUSY, "try to read what another thread writes");
  must(elsewhere([&] {
         const timespec at = soon(CLOCK_REALTIME);
         return pthread_rwlock_timedwrlock(&l, &at);
       }),
       ETIMEDOUT, "write with a limit");
  must(elsewhere([&] {
         const timespec at = soon(CLOCK_MONOTONIC);
         return pthread_rwlock_clockrdlock(&l, CLOCK_MONOTONIC, &at);
       }),
       ETIMEDOUT, "read with a limit");
  must(pthread_rwlock_unlock(&l), 0, "end of the write");
  must(elsewhere([&] {
         const int error = pthread_rwlock_trywrlock(&l);
         return error != 0 ? error : pthread_rwlock_unlock(&l);
       }),
       0, "write afterwards");
  return second == EBUSY;
}

pthread_rwlock_t fixed = PTHREAD_RWLOCK_INITIALIZER;
pthread_rwlock_t writers_first = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

}  // namespace

int main(int argc, char** argv) {
  long threads = 4;
  workloads::budget limit{20000, 0};
  bool must_exclude = false;
  workloads::options o("rwlock_rules", "tests read-write locks");
  o.number("threads", threads, 1, 4096, "threads (4)");
  o.number("operations", limit.operations, 1, 1L << 40, "acquisitions of all threads (20000)");
  o.flag("exclude", must_exclude, "fail if readers share the lock");
  o.parse(argc, argv);

  const bool exclude = test(fixed);
  if (must_exclude && !exclude) fail("readers share the lock");
  if (exclude && !test(writers_first)) fail("the two static initialisers differ");
  pthread_rwlock_t made;
  for (int i = 0; i < 3; ++i) {
    must(pthread_rwlock_init(&made, nullptr), 0, "init");
    if (test(made) != exclude) fail("locks differ by their initialisation");
    must(pthread_rwlock_destroy(&made), 0, "destroy");
  }

  must(pthread_rwlock_init(&made, nullptr), 0, "init");
  long written = 0, seen = 0;  // protected by the lock; `seen` is of readers that exclude each other
  const workloads::team_result result =
      workloads::run_team(threads, limit, [&](long index, workloads::allowance& mine) {
        workloads::random_source random(static_cast<unsigned long>(index) + 1);
        while (mine.another()) {
          if (random.below(2) == 0) {
            pthread_rwlock_wrlock(&made);
            ++written;
          } else {
            pthread_rwlock_rdlock(&made);
            if (exclude) ++seen;
          }
          pthread_rwlock_unlock(&made);
        }
      });
  must(pthread_rwlock_destroy(&made), 0, "destroy");
  if (exclude && written + seen != result.operations) fail("two threads had the lock at a time");
  std::printf("readers %s\n", exclude ? "exclude each other" : "share the lock");
  return 0;
}
