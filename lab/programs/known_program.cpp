// Plain pthread programs with known parameters, for lab.cases.replayed_native. Each program is recorded by `usher
// record`, predicted by `usher predict`, and measured. The programs do not depend on Usher. Work is a number of
// dependent steps of a random generator, so its amount does not depend on a clock.
//
//     known_program --program sections --threads 2 --inside 300 --outside 3000
//
// prints a line of JSON: the number of lock operations (acquisitions of mutexes, read-write locks and semaphores) in
// the measured time, that time in seconds, and the CPU time of the process within it. The program checks that its locks
// exclude.
#include <pthread.h>
#include <semaphore.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "options.hpp"
#include "team.hpp"

namespace {

using workloads::fail;
using workloads::random_source;
using clock_type = std::chrono::steady_clock;

struct plan {
  std::string program = "sections";
  long threads = 2;
  double seconds = 1;
  long inside = 300, outside = 3000;  // steps; outside is the mean
  long locks = 1, hot = 0, longer = 0, nested = 0, own = 0, sleep_us = 0;
  long places = 16, produces = 3000, consumes = 3000;
  long credits = 1, uses = 5000;
  long writes = 50;
};

void check(int error, const char* what) {
  if (error != 0) fail(std::string(what) + ": " + std::strerror(error));
}

struct alignas(128) mutex {
  pthread_mutex_t handle = PTHREAD_MUTEX_INITIALIZER;
  unsigned long sections = 0;  // not atomic: only the owner counts
  void lock() { check(pthread_mutex_lock(&handle), "pthread_mutex_lock"); }
  void unlock() { check(pthread_mutex_unlock(&handle), "pthread_mutex_unlock"); }
};

/// The counts of one thread.
struct alignas(128) record {
  std::atomic<unsigned long> operations{0};
  unsigned long sections = 0;
};

/// Makes `count` steps of xorshift64, each of which needs the result of the previous one.
unsigned long stepped(unsigned long state, long count) {
  for (; count > 0; --count) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    asm volatile("" : "+r"(state));
  }
  return state;
}

class worker {
 public:
  worker(record& mine, long index)
      : mine_(mine), random_(static_cast<unsigned long>(index) + 1), state_(random_.next() | 1) {}

  void work(long count) { state_ = stepped(state_, count); }
  /// Works for a random number of steps, from half of the mean to one and a half of it.
  void about(long mean) { work(around(mean)); }
  long around(long mean) { return mean / 2 + static_cast<long>(random_.below(static_cast<unsigned long>(mean) + 1)); }
  bool happens(long in_a_thousand) { return static_cast<long>(random_.below(1000)) < in_a_thousand; }
  std::size_t below(std::size_t n) { return random_.below(n); }
  void count(unsigned long n = 1) {
    mine_.operations.store(mine_.operations.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void enter(mutex& m) {
    m.lock();
    m.sections++;
    mine_.sections++;
    count();
  }

 private:
  record& mine_;
  random_source random_;
  unsigned long state_;
};

/// The shared data of a program's threads. finish() wakes all threads when the time is over.
class program {
 public:
  explicit program(const plan& p) : plan_(p), mutexes_(static_cast<std::size_t>(p.locks)) {}
  virtual ~program() = default;
  program(const program&) = delete;
  program& operator=(const program&) = delete;
  /// Executes one iteration of a thread.
  virtual void operator()(worker& w, long index) = 0;
  virtual void finish() {}
  unsigned long counted() const {
    unsigned long all = 0;
    for (const mutex& m : mutexes_) all += m.sections;
    return all;
  }
  bool is_over() const { return over_.load(std::memory_order_relaxed); }
  void end() {
    over_.store(true, std::memory_order_relaxed);
    finish();
  }

 protected:
  const plan& plan_;
  std::vector<mutex> mutexes_;

 private:
  alignas(128) std::atomic<bool> over_{false};
};

/// Each section takes one of the locks. A share of the sections is twenty times as long; in another share the thread
/// also takes a second lock with a higher number.
class sections : public program {
 public:
  using program::program;
  void operator()(worker& w, long index) override {
    const std::size_t n = mutexes_.size();
    const std::size_t first = plan_.own != 0         ? static_cast<std::size_t>(index) % n
                              : w.happens(plan_.hot) ? 0
                                                     : w.below(n);
    mutex& m = mutexes_[first];
    w.enter(m);
    w.work(w.happens(plan_.longer) ? 20 * plan_.inside : plan_.inside);
    if (first + 1 < n && w.happens(plan_.nested)) {
      mutex& second = mutexes_[first + 1 + w.below(n - first - 1)];
      w.enter(second);
      w.work(plan_.inside);
      second.unlock();
    }
    m.unlock();
    if (plan_.sleep_us != 0) usleep(static_cast<useconds_t>(w.around(plan_.sleep_us)));
    w.about(plan_.outside);
  }
};

/// Threads with an even number put items into a queue of limited length, the others take them.
class bounded_queue : public program {
 public:
  using program::program;
  void operator()(worker& w, long index) override {
    const bool puts = index % 2 == 0;
    if (puts) w.about(plan_.produces);
    mutex& m = mutexes_[0];
    w.enter(m);
    while ((puts ? items_ == plan_.places : items_ == 0) && !is_over())
      check(pthread_cond_wait(puts ? &not_full_ : &not_empty_, &m.handle), "pthread_cond_wait");
    if (is_over()) return m.unlock();
    items_ += puts ? 1 : -1;
    w.work(plan_.inside);
    check(pthread_cond_signal(puts ? &not_empty_ : &not_full_), "pthread_cond_signal");
    m.unlock();
    if (!puts) w.about(plan_.consumes);
  }
  void finish() override {
    mutexes_[0].lock();
    check(pthread_cond_broadcast(&not_empty_), "pthread_cond_broadcast");
    check(pthread_cond_broadcast(&not_full_), "pthread_cond_broadcast");
    mutexes_[0].unlock();
  }

 private:
  pthread_cond_t not_empty_ = PTHREAD_COND_INITIALIZER, not_full_ = PTHREAD_COND_INITIALIZER;
  long items_ = 0;
};

/// Threads use one of a few connections, which a semaphore counts, and then count under a mutex.
class connections : public program {
 public:
  explicit connections(const plan& p) : program(p) {
    if (sem_init(&free_, 0, static_cast<unsigned>(p.credits)) != 0) fail("sem_init");
  }
  void operator()(worker& w, long) override {
    while (sem_wait(&free_) != 0)
      if (errno != EINTR) fail(std::string("sem_wait: ") + std::strerror(errno));
    w.count();
    if (used_.fetch_add(1, std::memory_order_relaxed) >= plan_.credits)
      fail("more threads have a connection than there are");
    w.about(plan_.uses);
    used_.fetch_sub(1, std::memory_order_relaxed);
    if (sem_post(&free_) != 0) fail("sem_post");
    w.enter(mutexes_[0]);
    w.work(plan_.inside);
    mutexes_[0].unlock();
    w.about(plan_.outside);
  }

 private:
  sem_t free_{};
  alignas(128) std::atomic<long> used_{0};
};

/// Threads read under a read-write lock, sometimes write under it, and then count under a mutex.
class readers : public program {
 public:
  using program::program;
  void operator()(worker& w, long) override {
    const bool writes = w.happens(plan_.writes);
    check(writes ? pthread_rwlock_wrlock(&table_) : pthread_rwlock_rdlock(&table_), "locking the read-write lock");
    w.count();
    const unsigned long before = version_.load(std::memory_order_relaxed) + (writes ? 1 : 0);
    if (writes) version_.store(before, std::memory_order_relaxed);
    w.work(plan_.inside);
    if (version_.load(std::memory_order_relaxed) != before) fail("a write happened within another's section");
    check(pthread_rwlock_unlock(&table_), "pthread_rwlock_unlock");
    w.enter(mutexes_[0]);
    w.work(plan_.inside);
    mutexes_[0].unlock();
    w.about(plan_.outside);
  }

 private:
  pthread_rwlock_t table_ = PTHREAD_RWLOCK_INITIALIZER;
  alignas(128) std::atomic<unsigned long> version_{0};
};

double cpu_seconds() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  const auto of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return of(u.ru_utime) + of(u.ru_stime);
}

template <class Program>
int run(const plan& p) {
  Program shared(p);
  std::vector<record> records(static_cast<std::size_t>(p.threads));
  std::latch ready(p.threads + 1);
  std::vector<std::thread> team;
  for (long i = 0; i < p.threads; ++i)
    team.emplace_back([&, i] {
      worker w(records[static_cast<std::size_t>(i)], i);
      ready.arrive_and_wait();
      while (!shared.is_over()) shared(w, i);
    });
  ready.arrive_and_wait();
  const auto pass = [](double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); };
  const auto operations = [&] {
    unsigned long all = 0;
    for (const record& r : records) all += r.operations.load(std::memory_order_relaxed);
    return all;
  };
  pass(std::min(0.1, p.seconds / 5));  // before the measured time
  const unsigned long first = operations();
  const double cpu = cpu_seconds();
  const clock_type::time_point start = clock_type::now();
  pass(p.seconds);
  const unsigned long last = operations();
  const double used = cpu_seconds() - cpu, elapsed = std::chrono::duration<double>(clock_type::now() - start).count();
  shared.end();
  for (std::thread& t : team) t.join();
  unsigned long sections = 0;
  for (const record& r : records) sections += r.sections;
  if (sections != shared.counted())
    fail("the mutexes did not exclude: " + std::to_string(sections) + " sections, " + std::to_string(shared.counted()) +
         " counted");
  std::printf("{\"operations\": %lu, \"seconds\": %.6f, \"cpu\": %.6f}\n", last - first, elapsed, used);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  plan p;
  workloads::options o("known_program", "a program with known parameters");
  o.text("program", p.program, "sections, queue, connections or readers (sections)");
  o.number("threads", p.threads, 1, 4096, "threads (2)");
  o.real("seconds", p.seconds, 0.01, 3600, "measured time (1)");
  o.number("inside", p.inside, 0, 1L << 40, "steps in a section (300)");
  o.number("outside", p.outside, 0, 1L << 40, "steps outside, on average (3000)");
  o.number("locks", p.locks, 1, 1L << 16, "mutexes, of which a section draws one (1)");
  o.number("hot", p.hot, 0, 1000, "sections in a thousand that take the first one (0)");
  o.number("long", p.longer, 0, 1000, "sections in a thousand that are twenty times as long (0)");
  o.number("nested", p.nested, 0, 1000, "sections in a thousand in which a second mutex is locked (0)");
  o.number("own", p.own, 0, 1, "1: a thread always takes the mutex of its number (0)");
  o.number("sleep-us", p.sleep_us, 0, 1000000, "microseconds of sleep between sections, on average (0)");
  o.number("places", p.places, 1, 1L << 40, "of the queue (16)");
  o.number("produces", p.produces, 0, 1L << 40, "steps before an item is put, on average (3000)");
  o.number("consumes", p.consumes, 0, 1L << 40, "steps after an item is taken, on average (3000)");
  o.number("credits", p.credits, 1, 1L << 20, "connections (1)");
  o.number("uses", p.uses, 0, 1L << 40, "steps with a connection, on average (5000)");
  o.number("writes", p.writes, 0, 1000, "of a thousand uses of the read-write lock (50)");
  o.parse(argc, argv);
  if (p.program == "sections") return run<sections>(p);
  if (p.program == "queue") return run<bounded_queue>(p);
  if (p.program == "connections") return run<connections>(p);
  if (p.program == "readers") return run<readers>(p);
  fail("unknown program '" + p.program + "': sections, queue, connections or readers", 2);
}
