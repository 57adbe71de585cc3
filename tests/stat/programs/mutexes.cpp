// Mutexes in planted situations: a heavily contended one, one with long holds, tables of mutexes, the kinds of mutex,
// and calls that acquire nothing.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

#include "planted.hpp"

namespace planted {

// -- one hot lock among 1,000 on the heap, all initialised by one line --

namespace {
struct account {
  pthread_mutex_t mutex;
  long balance;
};
constexpr int accounts = 1000, hot_account = 617;
tally hot_figures("hot"), cold_figures("cold");

[[gnu::noinline]] account* open_accounts() {
  auto* all = new account[accounts]();
  for (int i = 0; i < accounts; ++i) pthread_mutex_init(&all[i].mutex, nullptr);  // mark: accounts
  return all;
}

[[gnu::noinline]] void pay_into_hot(account& one) {
  const auto called = now();
  pthread_mutex_lock(&one.mutex);  // mark: hot account waits
  const auto returned = now();
  ++one.balance;
  busy(300 * us);
  const auto released = now();
  pthread_mutex_unlock(&one.mutex);  // mark: hot account released
  hot_figures.round(called, returned, released);
}

[[gnu::noinline]] void pay_into(account& one) {
  pthread_mutex_lock(&one.mutex);
  ++one.balance;
  pthread_mutex_unlock(&one.mutex);
}
}  // namespace

void one_hot() {
  account* all = open_accounts();
  constexpr int threads = 4, hot_rounds = 150, cold_rounds = 2;
  in_threads(threads, [all](int self) {
    for (int i = 0; i < cold_rounds * accounts; ++i)  // no other thread uses these
      if (const int mine = i % accounts; mine % threads == self && mine != hot_account) pay_into(all[mine]);
    for (int i = 0; i < hot_rounds; ++i) {
      pay_into_hot(all[hot_account]);
      busy(30 * us);
    }
  });
  hot_figures.say("address", reinterpret_cast<std::uintptr_t>(&all[hot_account].mutex));
  cold_figures.say("objects", accounts - 1);
  cold_figures.say("each", cold_rounds);
}

// -- a convoy: more threads than CPUs, short holds, and in each 16th hold a call of sched_yield() --

namespace {
pthread_mutex_t queue_mutex = PTHREAD_MUTEX_INITIALIZER;
tally convoy_figures("queue_mutex");
long queued = 0;
}  // namespace

void convoy() {
  in_threads(4 * static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), [](int) {
    for (int i = 0; i < 2000; ++i) {
      const auto called = now();
      pthread_mutex_lock(&queue_mutex);  // mark: convoy waits
      const auto returned = now();
      if (++queued % 16 == 0) sched_yield();
      const auto released = now();
      pthread_mutex_unlock(&queue_mutex);  // mark: convoy released
      convoy_figures.round(called, returned, released);
    }
  });
}

// -- a mutex that is locked by guards of the C++ library and held while its holder sleeps --

namespace {
std::mutex ledger;
tally ledger_figures("ledger");

[[gnu::noinline]] void write_to_disk() {
  usleep(5000);  // the length of the hold, which the report must show as slept
}

[[gnu::noinline]] void update_ledger() {
  const auto called = now();
  std::unique_lock guard(ledger);  // mark: ledger waits
  const auto returned = now();
  write_to_disk();
  const auto released = now();
  guard.unlock();  // mark: ledger released
  ledger_figures.round(called, returned, released);
}
}  // namespace

void held_over_sleep() {
  in_threads(3, [](int) {
    for (int i = 0; i < 12; ++i) {
      update_ledger();
      usleep(2000);  // the mutex is free for other threads between two holds
    }
  });
}

// -- a mutex at the address of an earlier one, which was freed without pthread_mutex_destroy --

namespace {
struct box {
  std::mutex mutex;
  char more[4000];
};
tally reused_figures("reused");

[[gnu::noinline]] void lock_the_old_one(box* b) {
  const std::lock_guard guard(b->mutex);  // mark: the old one
  b->more[0]++;
}

[[gnu::noinline]] void lock_the_new_one(box* b) {
  const auto called = now();
  std::unique_lock guard(b->mutex);  // mark: the new one
  const auto returned = now();
  sleep_for(2 * ms);  // the length of the hold: the other threads wait
  const auto released = now();
  guard.unlock();
  reused_figures.round(called, returned, released);
}
}  // namespace

void reused_memory() {
  auto* const old = new (std::malloc(sizeof(box))) box();
  lock_the_old_one(old);
  old->~box();
  std::free(old);
  auto* const reused = new (std::malloc(sizeof(box))) box();
  reused_figures.say("same", reused == old);
  in_threads(3, [reused](int) {
    for (int i = 0; i < 12; ++i) lock_the_new_one(reused);
  });
}

// -- a starving thread: other threads, as many as CPUs, poll for the release of the mutex, so a woken waiter always
// finds the mutex held --

namespace {
pthread_mutex_t greedy_mutex = PTHREAD_MUTEX_INITIALIZER;
tally greedy_figures("greedy_mutex"), starved_figures("starved");
std::atomic<bool> has_starved{false};
std::atomic<std::int64_t> starves_since{0}, longest_hold{0};
std::atomic<int> holds{0};

/// Acquires the mutex by polling and holds it for 300 µs, again and again. Ends when the starving thread has waited
/// during more than 120 holds, and at least 15 times as long as the longest of them.
[[gnu::noinline]] void take_again_and_again() {
  while (!has_starved) {
    while (pthread_mutex_trylock(&greedy_mutex) != 0)
      if (has_starved) return;
    const auto returned = now();
    busy(300 * us);
    const auto released = now();
    pthread_mutex_unlock(&greedy_mutex);  // mark: greedy released
    // called and returned at the same time: a trylock does not wait
    greedy_figures.round(returned, returned, released);
    ++holds;
    longest_hold = std::max(longest_hold.load(), released - returned);
    if (starves_since != 0 && released - starves_since > std::max(150 * ms, 15 * longest_hold.load()) && holds > 120)
      has_starved = true;
  }
}

/// The starving thread. With the policy SCHED_IDLE all other threads run first. If this thread acquires the mutex
/// nevertheless, it tries to starve again, for up to three seconds.
[[gnu::noinline]] void starve() {
  const sched_param none{};
  sched_setscheduler(0, SCHED_IDLE, &none);
  for (const auto end = now() + 3000 * ms; !has_starved && now() < end;) {
    const auto called = now();
    starves_since = called;
    pthread_mutex_lock(&greedy_mutex);  // mark: starved waits
    const auto returned = now();
    starves_since = 0;
    pthread_mutex_unlock(&greedy_mutex);
    greedy_figures.round(called, returned, returned);
    starved_figures.took(called, returned);
    sleep_for(1 * ms);  // other threads take the mutex before the next attempt
  }
  has_starved = true;
  starved_figures.say("thread", static_cast<std::uint64_t>(thread_id()));
}
}  // namespace

void starving() {
  in_threads(1 + static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)),
             [](int self) { self > 0 ? take_again_and_again() : starve(); });
}

// -- tables of 1,024 mutexes --

namespace {
constexpr unsigned table_size = 1024, hot_index = 77;
struct bucket {
  pthread_mutex_t mutex;
  long entries;
};
bucket table[table_size];
struct heap_bucket {
  std::mutex mutex;
  long entries = 0;
};
tally table_figures("table"), heap_figures("heap");

/// Adds an entry to a bucket whose mutex is held. This takes 2 µs, or 100 µs if the bucket has to grow.
void add_entry(long& entries, bool grows) {
  ++entries;
  grows ? sleep_for(100 * us) : busy(2 * us);
}

[[gnu::noinline]] void insert(unsigned i, bool grows) {
  const auto called = now();
  pthread_mutex_lock(&table[i].mutex);  // mark: bucket waits
  const auto returned = now();
  add_entry(table[i].entries, grows);
  const auto released = now();
  pthread_mutex_unlock(&table[i].mutex);  // mark: bucket released
  table_figures.round(called, returned, released);
}

[[gnu::noinline]] void insert(heap_bucket& one, bool grows) {
  const auto called = now();
  one.mutex.lock();  // mark: heap bucket waits
  const auto returned = now();
  add_entry(one.entries, grows);
  const auto released = now();
  one.mutex.unlock();  // mark: heap bucket released
  heap_figures.round(called, returned, released);
}
}  // namespace

/// Every thread locks each bucket four times, all in the same order, and each 32nd insertion makes its bucket grow. So
/// threads wait for buckets, but for none much more than for others.
void buckets() {
  in_threads(4, [](int) {
    for (unsigned i = 0; i < 4 * table_size; ++i) insert(i * 397 % table_size, i % 32 == 0);
  });
}

void heap_buckets() {
  auto* all = new heap_bucket[table_size];
  in_threads(4, [all](int) {
    for (unsigned i = 0; i < 4 * table_size; ++i) insert(all[i * 397 % table_size], i % 32 == 0);
  });
}

void hot_bucket() {
  in_threads(4, [](int) {
    for (unsigned i = 0; i < 2 * table_size; ++i)
      i % 2 == 0 ? insert(i * 397 % table_size, false) : insert(hot_index, i % 32 == 1);
  });
  table_figures.say("address", reinterpret_cast<std::uintptr_t>(&table[hot_index].mutex));
  table_figures.say("offset", reinterpret_cast<std::uintptr_t>(&table[hot_index].mutex) -
                                  reinterpret_cast<std::uintptr_t>(&table[0].mutex));
}

// -- kinds of mutex, timed locks and trylocks, all with exact numbers --

namespace {
pthread_mutex_t recursive_mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
pthread_mutex_t checking_mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
pthread_mutex_t adaptive_mutex = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
pthread_mutex_t timed_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t tried_mutex = PTHREAD_MUTEX_INITIALIZER;
tally recursive_figures("recursive_mutex"), checking_figures("checking_mutex"), adaptive_figures("adaptive_mutex"),
    timed_figures("timed_mutex"), tried_figures("tried_mutex");

void check(bool as_expected) {
  if (!as_expected) std::abort();
}

/// In each of `rounds` rounds one thread holds the mutex until another thread sleeps in its lock call. If the mutex is
/// recursive, its holder locks it `again` additional times.
[[gnu::noinline]] void meet(pthread_mutex_t& mutex, tally& figures, int rounds, int again) {
  std::atomic<int> held{0}, done{0};
  std::atomic<pid_t> waiter{0};
  in_threads(2, [&](int self) {
    for (int i = 1; i <= rounds; ++i) {
      if (self == 0) {
        const auto called = now();
        check(pthread_mutex_lock(&mutex) == 0);
        const auto returned = now();
        for (int n = 0; n < again; ++n) check(pthread_mutex_lock(&mutex) == 0);
        waiter = 0;
        held = i;
        await_asleep(waiter);
        busy(2 * ms);
        for (int n = 0; n < again; ++n) check(pthread_mutex_unlock(&mutex) == 0);
        const auto released = now();
        check(pthread_mutex_unlock(&mutex) == 0);
        figures.round(called, returned, released);
        while (done < i) sched_yield();
      } else {
        while (held < i) sched_yield();
        waiter = thread_id();
        const auto called = now();
        check(pthread_mutex_lock(&mutex) == 0);  // mark: met
        const auto returned = now();
        check(pthread_mutex_unlock(&mutex) == 0);
        figures.round(called, returned, returned);
        done = i;
      }
    }
  });
  figures.say("contended", static_cast<std::uint64_t>(rounds));
}
}  // namespace

void kinds() {
  meet(recursive_mutex, recursive_figures, 20, 2);
  meet(adaptive_mutex, adaptive_figures, 20, 0);
  meet(checking_mutex, checking_figures, 20, 0);
  pthread_mutex_lock(&checking_mutex);
  for (int i = 0; i < 7; ++i)
    check(pthread_mutex_lock(&checking_mutex) == EDEADLK);  // a refused call is no acquisition
  pthread_mutex_unlock(&checking_mutex);
  check(pthread_mutex_unlock(&checking_mutex) == EPERM);
  checking_figures.took(0, 0);
}

void timeouts() {
  pthread_mutex_lock(&timed_mutex);
  const auto returned = now();
  in_threads(3, [](int) {
    for (int i = 0; i < 5; ++i) {
      timespec until{};
      clock_gettime(CLOCK_REALTIME, &until);
      until.tv_nsec += 10 * ms;
      until.tv_sec += until.tv_nsec / 1000000000;
      until.tv_nsec %= 1000000000;
      const auto called = now();
      check(pthread_mutex_timedlock(&timed_mutex, &until) == ETIMEDOUT);  // mark: gave up
      timed_figures.waited(called, now());
    }
  });
  const auto released = now();
  pthread_mutex_unlock(&timed_mutex);
  timed_figures.round(returned, returned, released);
  timed_figures.say("timeouts", 15);
}

namespace {
pthread_mutex_t retried_mutex = PTHREAD_MUTEX_INITIALIZER, other_mutex = PTHREAD_MUTEX_INITIALIZER;
tally retried_figures("retried_mutex");

/// A thread's trylock fails. 20 ms later the thread acquires the mutex by lock or by trylock; the function reports the
/// time between these two calls.
void retry(bool by_lock) {
  pthread_mutex_lock(&retried_mutex);
  std::uint64_t ns = 0;
  in_threads(1, [&](int) {
    const auto tried = now();
    check(pthread_mutex_trylock(&retried_mutex) == EBUSY);
    pthread_mutex_lock(&other_mutex);  // a lock call on another object in between, which must not end the measured time
    pthread_mutex_unlock(&other_mutex);
    pthread_mutex_unlock(&retried_mutex);  // a normal mutex may be unlocked by any thread
    sleep_for(20 * ms);
    check((by_lock ? pthread_mutex_lock(&retried_mutex) : pthread_mutex_trylock(&retried_mutex)) == 0);
    ns = now() - tried;
    pthread_mutex_unlock(&retried_mutex);
    sleep_for(20 * ms);
    check(pthread_mutex_trylock(&retried_mutex) == 0);  // no failure came before
    pthread_mutex_unlock(&retried_mutex);
  });
  retried_figures.took(0, ns);
}
}  // namespace

/// Two threads, one after the other, acquire the mutex some time after their own trylock has failed: one by trylock,
/// one by lock.
void retries() {
  retry(false);
  retry(true);
}

void tries() {
  pthread_mutex_lock(&tried_mutex);
  in_threads(3, [](int) {
    for (int i = 0; i < 1000; ++i) check(pthread_mutex_trylock(&tried_mutex) == EBUSY);
  });
  pthread_mutex_unlock(&tried_mutex);
  for (int i = 0; i < 500; ++i) {
    check(pthread_mutex_trylock(&tried_mutex) == 0);
    pthread_mutex_unlock(&tried_mutex);
  }
  tried_figures.say("failed", 3000);
  tried_figures.say("acquisitions", 501);
}

// -- locks without waiters --

namespace {
pthread_mutex_t idle_mutex = PTHREAD_MUTEX_INITIALIZER;
tally idle_figures("idle_mutex");
}  // namespace

void uncontended() {
  for (int thread = 0; thread < 2; ++thread)  // the threads run one after the other
    in_threads(1, [](int) {
      for (int i = 0; i < 50000; ++i) {
        pthread_mutex_lock(&idle_mutex);
        pthread_mutex_unlock(&idle_mutex);
      }
    });
  busy(20 * ms);
  idle_figures.say("acquisitions", 100000);
}

// -- mutexes that are locked so often that each thread counts its holds in slots of its own --

void lock_often(pthread_mutex_t& mutex) {
  pthread_mutex_lock(&mutex);  // one acquisition has a waiter
  std::atomic<pid_t> id{0};
  std::thread waiter([&mutex, &id] {
    id = thread_id();
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
  });
  await_asleep(id);
  pthread_mutex_unlock(&mutex);
  waiter.join();
  for (int i = 0; i < 100'000; ++i) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
  }
}

namespace {
pthread_mutex_t often_mutex = PTHREAD_MUTEX_INITIALIZER, inner_mutex = PTHREAD_MUTEX_INITIALIZER,
                passed_on_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t turn_condition = PTHREAD_COND_INITIALIZER;
tally often_figures("often_mutex"), inner_figures("inner_mutex"), again_figures("again"), many_figures("many"),
    passed_on_figures("passed_on_mutex");

/// Called by two threads with the numbers 0 and 1. Each waits for its turn by a condition variable, then signals the
/// other thread.
void take_turns(int self, int rounds) {
  static int turn = 0;
  for (int i = 0; i < rounds; ++i) {
    pthread_mutex_lock(&often_mutex);
    while (turn != self) pthread_cond_wait(&turn_condition, &often_mutex);
    turn = 1 - self;
    pthread_cond_signal(&turn_condition);
    pthread_mutex_unlock(&often_mutex);
  }
}

/// Locks 40 mutexes often, and destroys them. A thread has slots for fewer than 40 mutexes.
void lock_many(int threads, int rounds) {
  constexpr int mutexes = 40;
  auto* const many = new pthread_mutex_t[mutexes];
  for (int i = 0; i < mutexes; ++i) pthread_mutex_init(&many[i], nullptr);  // mark: many often
  in_threads(threads, [many, rounds](int) {
    for (int round = 0; round < rounds; ++round)
      for (int i = 0; i < mutexes; ++i)
        for (int times = 0; times < 20; ++times) {
          pthread_mutex_lock(&many[i]);
          pthread_mutex_unlock(&many[i]);
        }
  });
  for (int i = 0; i < mutexes; ++i) pthread_mutex_destroy(&many[i]);
  delete[] many;
  many_figures.say("acquisitions", std::uint64_t(mutexes) * 20 * unsigned(rounds) * unsigned(threads));
}

void lock_again(int threads, int rounds) {
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  auto* const again = new pthread_mutex_t;
  pthread_mutex_init(again, &recursive);  // mark: again often
  in_threads(threads, [again, rounds](int) {
    for (int i = 0; i < rounds; ++i) {
      for (int depth = 0; depth < 3; ++depth) pthread_mutex_lock(again);
      for (int depth = 0; depth < 3; ++depth) pthread_mutex_unlock(again);
    }
  });
  again_figures.say("acquisitions", unsigned(rounds) * unsigned(threads));
}

/// A mutex that was locked often is unlocked by a thread that does not hold it, which most kinds permit.
void pass_on() {
  lock_often(passed_on_mutex);
  constexpr int rounds = 1000;
  for (int i = 0; i < rounds; ++i) {
    pthread_mutex_lock(&passed_on_mutex);
    in_threads(1, [](int) { pthread_mutex_unlock(&passed_on_mutex); });
  }
  passed_on_figures.say("acquisitions", 100'002 + rounds);
}
}  // namespace

void locked_often() {
  constexpr int threads = 4, rounds = 100'000, turns = 2000;
  lock_often(often_mutex);
  lock_often(inner_mutex);
  in_threads(threads, [](int) {
    for (int i = 0; i < rounds; ++i) {
      pthread_mutex_lock(&often_mutex);
      pthread_mutex_lock(&inner_mutex);
      pthread_mutex_unlock(&inner_mutex);
      pthread_mutex_unlock(&often_mutex);
    }
  });
  std::atomic<int> finished{0};
  in_threads(2, [&finished](int self) {
    take_turns(self, turns);
    ++finished;
  });
  inner_figures.say("acquisitions", std::uint64_t(threads) * rounds + 100'002);
  often_figures.say("acquisitions", std::uint64_t(threads) * rounds + 100'002 + 2 * turns);
  lock_many(threads, 200);
  lock_again(threads, 50'000);
  pass_on();
}

// -- each 32nd hold is long. A sample of every n-th hold might contain only long holds or only short ones --

namespace {
pthread_mutex_t rhythm_mutex = PTHREAD_MUTEX_INITIALIZER;
tally rhythm_figures("rhythm_mutex");
}  // namespace

void in_a_rhythm() {
  lock_often(rhythm_mutex);
  constexpr int rounds = 20'000, period = 32;
  std::int64_t held = 0;
  for (int i = 0; i < rounds; ++i) {
    for (int k = 1; k < period; ++k) {
      pthread_mutex_lock(&rhythm_mutex);
      pthread_mutex_unlock(&rhythm_mutex);
    }
    pthread_mutex_lock(&rhythm_mutex);
    const auto begin = now();
    busy(5 * us);
    held += now() - begin;
    pthread_mutex_unlock(&rhythm_mutex);
  }
  rhythm_figures.say("long_holds", std::uint64_t(held));
}

}  // namespace planted
