// The arena's own program: plain pthread calls, measured under the C library's mutex and, with a preloaded library,
// under other locks. One run measures one point of the arena: each thread repeatedly locks one of several mutexes,
// works with it, unlocks it, and works outside. The program prints one line of JSON. The scripts in lab/arena have the
// list of points, set the library and the time limit, and compare the runs.
//
// Work is a number of steps, not a time: a section executes the same instructions under every lock, and a thread that
// is preempted in a section still has to finish the section. `--what calibrate` prints the time of a step.
//
// The cost of measuring is the same under every lock. A thread reads the time-stamp counter once in each operation,
// after the unlock, and once more before the lock if it works outside of sections. The measured wait is the time
// between two successive readings: from the call of lock to the return of unlock, including the thread's own section.
// No thread reads a clock while it holds the mutex.
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "mutex_kind.hpp"
#include "options.hpp"
#include "second_thread.hpp"
#include "team.hpp"

namespace {

using workloads::fail;
using clock_type = std::chrono::steady_clock;

constexpr std::size_t line_pair = 128;  // the processor fetches the adjacent line, too
constexpr std::size_t page = 4096;

void check(int error, const char* what) {
  if (error != 0) fail(std::string(what) + ": " + std::strerror(error));
}

/// Executes `count` steps of a xorshift64. Each step depends on the previous one. The function is not inlined, so that
/// all callers run the same code.
[[gnu::noinline]] std::uint64_t steps(std::uint64_t state, std::uint64_t count) {
  for (; count > 0; --count) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
  }
  return state;
}

/// Reads the cheapest clock. The length of a tick is computed from the duration of the run.
inline std::uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(clock_type::now().time_since_epoch().count());
#endif
}

struct usage {
  double cpu = 0;
  long voluntary = 0, involuntary = 0;

  static usage now() {
    rusage r{};
    getrusage(RUSAGE_SELF, &r);
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return {seconds(r.ru_utime) + seconds(r.ru_stime), r.ru_nvcsw, r.ru_nivcsw};
  }
};

struct plan {
  long threads = 2, section = 0, outside = 0, mutexes = 1, alignment = 0, yields = 0, sleep_every = 0, sleep_us = 50,
       pages = 0, idle = 0, writes = 100, writers = 0;
  double seconds = 0.5;
  bool try_first = false, every_alignment = false, read_write = false;
  std::string kind = "normal";
};

/// The data that a lock guards. Every section of a mutex or of a writer changes the data, so that wrong counts show a
/// failure of exclusion. A reader that finds `copy` different from `state` shows it, too.
struct guarded {
  std::uint64_t state = 1, sections = 0, owner_changes = 0, copy = 1;
  long last_owner = -1;
};

/// A mutex at a given place in its cache line, and the data that the mutex guards, on another line.
struct alignas(line_pair) cell {
  alignas(line_pair) std::byte place[line_pair];
  alignas(line_pair) guarded data;
  pthread_mutex_t* mutex = nullptr;
  pthread_rwlock_t* rwlock = nullptr;

  void make_read_write(std::size_t offset, const std::string& kind) {
    static_assert(sizeof(pthread_rwlock_t) + 56 <= line_pair);
    rwlock = new (place + offset) pthread_rwlock_t;
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    if (kind == "nonrecursive")
      pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    else if (kind != "normal")
      fail("--kind " + kind + ": normal or nonrecursive", 2);
    check(pthread_rwlock_init(rwlock, &attributes), "pthread_rwlock_init");
  }

  void make(std::size_t offset, const std::string& kind) {
    static_assert(sizeof(pthread_mutex_t) + 56 <= line_pair);
    mutex = new (place + offset) pthread_mutex_t(PTHREAD_MUTEX_INITIALIZER);
    workloads::initialise(*mutex, kind);
  }
};

enum phase : int { warming_up, measuring, over };

/// A histogram of waits, with eight bins for each power of two.
class waits {
 public:
  void add(std::uint64_t length) {
    const std::uint64_t bounded = std::max<std::uint64_t>(length, 8);
    const auto power = static_cast<std::size_t>(std::bit_width(bounded) - 1);  // 3 and more
    ++counts_[(power - 3) * 8 + ((bounded >> (power - 3)) & 7)];
  }
  void add(const waits& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  }

  /// Returns the end of the bin in which the 99.9th percentile lies; 0 if there were no waits.
  double percentile_999() const {
    const std::uint64_t total = std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
    std::uint64_t above = 0;
    for (std::size_t i = counts_.size(); i-- > 0;)
      if ((above += counts_[i]) * 1000 > total)
        return std::ldexp(static_cast<double>(8 + i % 8 + 1), static_cast<int>(i / 8));
    return 0;
  }

 private:
  std::array<std::uint64_t, 61 * 8> counts_{};
};

/// The counts of one thread. Only this thread writes them; the main thread reads them.
struct alignas(line_pair) record {
  std::atomic<std::uint64_t> operations{0}, writes{0};
  std::atomic<std::uint64_t> longest{0}, longest_to_write{0};
  waits of_readers, of_writers;  // for read-write locks; read when the thread has ended
};

/// Provides pages that have not been accessed before, so that a critical section which touches them causes page faults.
class fresh_pages {
 public:
  explicit fresh_pages(bool wanted) {
    if (!wanted) return;
    memory_ = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory_ == MAP_FAILED) fail("out of memory");
    madvise(memory_, size, MADV_NOHUGEPAGE);
  }
  void touch(long count) {
    for (; count > 0; --count, next_ += page) memory_[next_ % size] = 1;
  }
  /// Makes room for `count` more untouched pages. Called outside the critical section.
  void renew(long count) {
    if (next_ + static_cast<std::size_t>(count) * page <= size) return;
    madvise(memory_, size, MADV_DONTNEED);
    next_ = 0;
  }

 private:
  static constexpr std::size_t size = 256 * page;
  char* memory_ = nullptr;
  std::size_t next_ = 0;
};

void work(const plan& p, std::vector<cell>& cells, const std::atomic<int>& now, record& mine, long thread) {
  workloads::random_source random(static_cast<unsigned long>(thread) + 1);
  fresh_pages pages(p.pages > 0);
  std::uint64_t own = static_cast<std::uint64_t>(thread) + 1, longest = 0, done = 0;
  const auto section = static_cast<std::uint64_t>(p.section);
  const auto most_outside = static_cast<unsigned long>(2 * p.outside + 1);
  const timespec nap{0, p.sleep_us * 1000};
  std::uint64_t asked = ticks();
  while (now.load(std::memory_order_relaxed) != over) {
    cell& c = cells[cells.size() > 1 ? random.below(cells.size()) : 0];
    if (p.outside > 0) asked = ticks();
    if (!p.try_first || pthread_mutex_trylock(c.mutex) != 0)
      if (const int error = pthread_mutex_lock(c.mutex); error != 0) check(error, "pthread_mutex_lock");
    guarded& d = c.data;
    if (d.last_owner != thread) {
      d.last_owner = thread;
      ++d.owner_changes;
    }
    d.state = steps(d.state, section);
    ++d.sections;
    for (long i = 0; i < p.yields; ++i) sched_yield();
    if (p.pages > 0) pages.touch(p.pages);
    // Sleeps with the mutex held in every sleep_every-th section. --sleep-us sets the length of the sleep.
    if (p.sleep_every > 0 && done % static_cast<std::uint64_t>(p.sleep_every) == 0) nanosleep(&nap, nullptr);
    if (const int error = pthread_mutex_unlock(c.mutex); error != 0) check(error, "pthread_mutex_unlock");
    const std::uint64_t end = ticks();
    // The thread may have moved to a CPU whose time-stamp counter is behind. `end` can then be before `asked`; such a
    // difference is not a wait.
    if (end - asked > longest && end > asked && now.load(std::memory_order_relaxed) != warming_up) {
      longest = end - asked;
      mine.longest.store(longest, std::memory_order_relaxed);
    }
    asked = end;
    mine.operations.store(++done, std::memory_order_relaxed);
    if (p.pages > 0) pages.renew(p.pages);
    if (p.outside > 0) own = steps(own, random.below(most_outside));
  }
  if (own == 0) fail("xorshift came to 0");  // uses the result, so that the work outside is not optimised away
}

/// The same loop with read-write locks. With `writers`, the first `writers` threads always write, and the others never
/// do.
void read_and_write(const plan& p, std::vector<cell>& cells, const std::atomic<int>& now, record& mine, long thread) {
  workloads::random_source random(static_cast<unsigned long>(thread) + 1);
  std::uint64_t own = static_cast<std::uint64_t>(thread) + 1, longest[2] = {}, done = 0, written = 0;
  const auto section = static_cast<std::uint64_t>(p.section);
  const auto most_outside = static_cast<unsigned long>(2 * p.outside + 1);
  std::uint64_t asked = ticks();
  while (now.load(std::memory_order_relaxed) != over) {
    cell& c = cells[cells.size() > 1 ? random.below(cells.size()) : 0];
    const bool writes = p.writers > 0 ? thread < p.writers : random.below(1000) < static_cast<unsigned long>(p.writes);
    if (p.outside > 0) asked = ticks();
    if (const int error = writes ? pthread_rwlock_wrlock(c.rwlock) : pthread_rwlock_rdlock(c.rwlock); error != 0)
      check(error, writes ? "pthread_rwlock_wrlock" : "pthread_rwlock_rdlock");
    guarded& d = c.data;
    if (writes) {
      d.state = steps(d.state, section);
      d.copy = d.state;
      ++d.sections;
      ++written;
    } else {
      const std::uint64_t before = d.copy;
      own ^= steps(before, section);
      if (d.state != before) fail("a reader saw a writer's section");
    }
    if (const int error = pthread_rwlock_unlock(c.rwlock); error != 0) check(error, "pthread_rwlock_unlock");
    const std::uint64_t end = ticks();
    if (end > asked && now.load(std::memory_order_relaxed) != warming_up) {
      (writes ? mine.of_writers : mine.of_readers).add(end - asked);
      if (end - asked > longest[writes]) {
        longest[writes] = end - asked;
        (writes ? mine.longest_to_write : mine.longest).store(longest[writes], std::memory_order_relaxed);
      }
    }
    asked = end;
    mine.operations.store(++done, std::memory_order_relaxed);
    mine.writes.store(written, std::memory_order_relaxed);
    if (p.outside > 0) own = steps(own | 1, random.below(most_outside));
  }
  __asm__ volatile("" : : "r"(own));  // uses the result
}

struct run_results {
  std::vector<std::uint64_t> counts;  // counts of each thread in the measured time
  usage before, after;
  double elapsed = 0, ticks = 0;
};

run_results measure(const plan& p, const std::vector<record>& records, std::atomic<int>& now) {
  // Sleeps through the warm-up, and then through the measured time.
  const auto pass = [](double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); };
  pass(std::min(0.1, p.seconds / 5));
  run_results out;
  out.counts.reserve(records.size());
  for (const record& r : records) out.counts.push_back(r.operations.load(std::memory_order_relaxed));
  out.before = usage::now();
  const std::uint64_t first_tick = ticks();
  const clock_type::time_point start = clock_type::now();
  now.store(measuring, std::memory_order_relaxed);
  pass(p.seconds);
  for (std::size_t i = 0; i < records.size(); ++i)
    out.counts[i] = records[i].operations.load(std::memory_order_relaxed) - out.counts[i];
  out.elapsed = std::chrono::duration<double>(clock_type::now() - start).count();
  out.ticks = static_cast<double>(ticks() - first_tick);
  out.after = usage::now();
  now.store(over, std::memory_order_relaxed);
  return out;
}

/// Checks that each lock admitted only one thread at a time, or one writer, and prints the results of the run.
void report(const plan& p, const std::vector<cell>& cells, const std::vector<record>& records, const run_results& run) {
  std::uint64_t sections = 0, changes = 0, done = 0, written = 0, measured = 0, longest = 0, longest_to_write = 0;
  for (const cell& c : cells) {
    sections += c.data.sections;
    changes += c.data.owner_changes;
  }
  waits readers, writers;
  for (const record& r : records) {
    readers.add(r.of_readers);
    writers.add(r.of_writers);
    done += r.operations.load();
    written += r.writes.load();
    longest = std::max(longest, r.longest.load());
    longest_to_write = std::max(longest_to_write, r.longest_to_write.load());
  }
  if (p.read_write && sections != written)
    fail("the read-write lock did not exclude: " + std::to_string(written) + " writes, " + std::to_string(sections) +
         " counted");
  if (!p.read_write && sections != done)
    fail("the mutex did not exclude: " + std::to_string(done) + " operations, " + std::to_string(sections) +
         " counted");
  const std::vector<std::uint64_t>& counts = run.counts;
  for (const std::uint64_t c : counts) measured += c;
  const double equal = std::max(1.0, static_cast<double>(measured)) / static_cast<double>(counts.size());
  std::printf("{\"operations\": %" PRIu64
              ", \"seconds\": %.6f, \"cpu\": %.6f, \"voluntary\": %ld, \"involuntary\": %ld, "
              "\"longest_wait\": %.9f, \"smallest_share\": %.6f, \"largest_share\": %.6f, \"owner_changes\": %.6f, "
              "\"counts\": [",
              measured, run.elapsed, run.after.cpu - run.before.cpu, run.after.voluntary - run.before.voluntary,
              run.after.involuntary - run.before.involuntary, static_cast<double>(longest) / run.ticks * run.elapsed,
              static_cast<double>(*std::min_element(counts.begin(), counts.end())) / equal,
              static_cast<double>(*std::max_element(counts.begin(), counts.end())) / equal,
              static_cast<double>(changes) / static_cast<double>(std::max<std::uint64_t>(1, done)));
  for (std::size_t i = 0; i < counts.size(); ++i) std::printf("%s%" PRIu64, i > 0 ? ", " : "", counts[i]);
  std::printf("]");
  if (p.read_write)  // then longest_wait is a reader's
    std::printf(", \"writes\": %" PRIu64
                ", \"longest_wait_to_write\": %.9f, \"p999_to_read\": %.9f, \"p999_to_write\": %.9f",
                written, static_cast<double>(longest_to_write) / run.ticks * run.elapsed,
                readers.percentile_999() / run.ticks * run.elapsed, writers.percentile_999() / run.ticks * run.elapsed);
  std::printf("}\n");
  std::fflush(stdout);
}

int run_locks(const plan& p) {
  std::vector<cell> cells(static_cast<std::size_t>(p.mutexes));
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::size_t offset = p.every_alignment ? 8 * (i % 8) : static_cast<std::size_t>(p.alignment);
    p.read_write ? cells[i].make_read_write(offset, p.kind) : cells[i].make(offset, p.kind);
  }
  std::vector<record> records(static_cast<std::size_t>(p.threads));
  alignas(line_pair) std::atomic<int> now{warming_up};
  std::latch ready(p.threads + p.idle + 1);
  std::vector<std::thread> team;
  for (long i = 0; i < p.threads; ++i) {
    team.emplace_back([&, i] {
      ready.arrive_and_wait();
      (p.read_write ? read_and_write : work)(p, cells, now, records[static_cast<std::size_t>(i)], i);
    });
  }
  for (long i = 0; i < p.idle; ++i) {
    std::thread([&ready] {
      ready.arrive_and_wait();
      for (;;) pause();
    }).detach();
  }
  ready.arrive_and_wait();
  const run_results run = measure(p, records, now);
  for (std::thread& t : team) t.join();
  report(p, cells, records, run);
  std::_Exit(0);  // idle threads never end
}

/// Repeats an uncontended lock and unlock. Each instance of the template is a function with a loop of its own that is
/// not inlined, so that the loop contains only the two calls.
template <auto Lock, auto Unlock, class T>
[[gnu::noinline]] void pairs(T& lock, long count) {
  for (; count > 0; --count) {
    Lock(&lock);
    Unlock(&lock);
  }
}
[[gnu::noinline]] void try_pairs(pthread_mutex_t& mutex, long count) {
  for (; count > 0; --count) {
    if (pthread_mutex_trylock(&mutex) != 0) fail("trylock of a free mutex failed");
    pthread_mutex_unlock(&mutex);
  }
}

/// Measures uncontended calls in batches for the given time. The fastest batch gives their cost, because noise only
/// adds time.
int run_pairs(const plan& p, bool alone) {
  constexpr long batch = 20000;
  cell c;
  const auto offset = static_cast<std::size_t>(p.alignment);
  p.read_write ? c.make_read_write(offset, p.kind) : c.make(offset, p.kind);
  if (!alone) workloads::stop_being_alone();
  const auto once = [&] {
    if (p.read_write && p.writes > 0)
      pairs<pthread_rwlock_wrlock, pthread_rwlock_unlock>(*c.rwlock, batch);
    else if (p.read_write)
      pairs<pthread_rwlock_rdlock, pthread_rwlock_unlock>(*c.rwlock, batch);
    else if (p.try_first)
      try_pairs(*c.mutex, batch);
    else
      pairs<pthread_mutex_lock, pthread_mutex_unlock>(*c.mutex, batch);
  };
  once();
  std::vector<double> took;
  const usage before = usage::now();
  const clock_type::time_point start = clock_type::now();
  double elapsed = 0;
  while (elapsed < p.seconds) {
    const clock_type::time_point begin = clock_type::now();
    once();
    const clock_type::time_point end = clock_type::now();
    took.push_back(std::chrono::duration<double, std::nano>(end - begin).count() / batch);
    elapsed = std::chrono::duration<double>(end - start).count();
  }
  const usage after = usage::now();
  std::sort(took.begin(), took.end());
  std::printf(
      "{\"operations\": %zu, \"seconds\": %.6f, \"cpu\": %.6f, \"voluntary\": %ld, \"involuntary\": %ld, "
      "\"fastest_ns\": %.4f, \"median_ns\": %.4f}\n",
      took.size() * batch, elapsed, after.cpu - before.cpu, after.voluntary - before.voluntary,
      after.involuntary - before.involuntary, took.front(), took[took.size() / 2]);
  return 0;
}

int calibrate() {
  constexpr std::uint64_t count = 1000000;
  double best = 0;
  std::uint64_t state = 1;
  for (int i = 0; i < 50; ++i) {
    const clock_type::time_point start = clock_type::now();
    state = steps(state, count);
    const double took = std::chrono::duration<double, std::nano>(clock_type::now() - start).count() / count;
    best = i == 0 ? took : std::min(best, took);
  }
  if (state == 0) fail("xorshift came to 0");
  std::printf("{\"step_ns\": %.6f}\n", best);
  return 0;
}

/// Runs threads that compute without a mutex, to load the machine as another program would. Each iteration writes a
/// volatile object: otherwise the compiler may assume that the loop ends, and omit it.
[[noreturn]] void be_busy(long threads) {
  const auto compute = [] {
    for (volatile std::uint64_t state = 1;;) state = steps(state, 1000000);
  };
  for (long i = 1; i < threads; ++i) std::thread(compute).detach();
  compute();
  fail("a loop without an end has ended");
}

}  // namespace

int main(int argc, char** argv) {
  plan p;
  std::string what = "mutex";
  bool alone = false;
  workloads::options o("arena",
                       "one point of the arena: threads that share mutexes, or what an uncontended pair costs");
  o.text("what", what, "mutex, pairs, calibrate, busy (mutex)");
  o.number("threads", p.threads, 1, 4096, "threads (2)");
  o.real("seconds", p.seconds, 0.001, 3600, "measured time (0.5)");
  o.number("section", p.section, 0, 1L << 40, "steps of work with the mutex (0)");
  o.number("outside", p.outside, 0, 1L << 40,
           "steps of work without it, on average: 0 to twice as many, at random (0)");
  o.number("mutexes", p.mutexes, 1, 1L << 16, "mutexes; each operation takes one of them at random (1)");
  o.flag("try-first", p.try_first, "trylock, and lock only if that fails; with pairs: trylock");
  o.number("yields", p.yields, 0, 1000, "sched_yield() so many times in each section (0)");
  o.number("sleep-every", p.sleep_every, 0, 1L << 40,
           "each thread sleeps in every so many-th of its sections; 0: never (0)");
  o.number("sleep-us", p.sleep_us, 1, 900000, "µs for which it sleeps (50)");
  o.number("pages", p.pages, 0, 128, "touch so many fresh pages in each section (0)");
  o.number("alignment", p.alignment, 0, 56, "address of the mutex mod 64, a multiple of 8 (0)");
  o.flag("every-alignment", p.every_alignment, "the mutexes lie at 0, 8, … 56, and again");
  o.number("idle", p.idle, 0, 4096, "threads beside them that sleep (0)");
  o.text("kind", p.kind, "normal, recursive, errorcheck or adaptive (normal)");
  o.flag("read-write", p.read_write, "read-write locks; --kind: normal or nonrecursive");
  o.number("writes", p.writes, 0, 1000, "writes in a thousand operations; with pairs: 0 reads, else writes (100)");
  o.number("writers", p.writers, 0, 4096, "so many threads always write, and the others never (0: --writes holds)");
  o.flag("alone", alone, "with pairs: in a process that never had a second thread");
  o.parse(argc, argv);
  if (p.alignment % 8 != 0) fail("--alignment " + std::to_string(p.alignment) + ": not a multiple of 8", 2);

  if (what == "mutex") return run_locks(p);
  if (what == "pairs") return run_pairs(p, alone);
  if (what == "calibrate") return calibrate();
  if (what == "busy") be_busy(p.threads);
  fail("unknown --what '" + what + "': mutex, pairs, calibrate or busy", 2);
}
