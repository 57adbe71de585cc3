#include "calibrate/native_costs.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace usher::calibrate {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr std::size_t sector = 128;  // a neighbouring line is fetched with a line

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("isb" ::: "memory");
#endif
}

/// Keeps a value from being optimised away.
template <class T>
void use(T value) {
  asm volatile("" : : "r"(value) : "memory");
}

/// Out of all caches. False: not known how.
bool flush(const void* line) {
#if defined(__x86_64__)
  _mm_clflush(line);
  return true;
#elif defined(__aarch64__)
  asm volatile("dc civac, %0" : : "r"(line) : "memory");
  return true;
#else
  (void)line;
  return false;
#endif
}

void settle() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

/// So many values of what a call of f says.
template <class F>
measured repeat(std::size_t times, F f) {
  std::vector<double> values;
  for (std::size_t i = 0; i < times; i++) values.push_back(f());
  return over(std::move(values));
}

/// What one of n turns of a loop takes.
template <class F>
double each(std::size_t n, F loop) {
  const double begin = now();
  loop(n);
  return (now() - begin) / static_cast<double>(n);
}

/// A thread on a CPU of its own that does what it is asked to.
class partner {
 public:
  explicit partner(unsigned cpu)
      : thread_([this, cpu] {
          pinned_ = pin_to(cpu);
          done_.store(1, std::memory_order_release);
          for (std::uint32_t turn = 1;; turn++) {
            await(asked_, turn);
            if (!work_) return;
            work_();
            done_.store(turn + 1, std::memory_order_release);
          }
        }) {
    await(done_, 1);
  }
  partner(const partner&) = delete;
  partner& operator=(const partner&) = delete;
  ~partner() {
    begin({});
    thread_.join();
  }

  bool pinned() const { return pinned_; }
  void begin(std::function<void()> work) {
    work_ = std::move(work);
    asked_.store(++turn_, std::memory_order_release);
  }
  void wait() { await(done_, turn_ + 1); }
  void carry_out(std::function<void()> work) {
    begin(std::move(work));
    wait();
  }

 private:
  static void await(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
    for (unsigned i = 0; word.load(std::memory_order_acquire) != value; i++)
      i % 1000 == 999 ? void(sched_yield()) : relax();
  }

  alignas(sector) std::atomic<std::uint32_t> asked_{0};
  alignas(sector) std::atomic<std::uint32_t> done_{0};
  alignas(sector) std::function<void()> work_;
  std::uint32_t turn_ = 0;
  bool pinned_ = false;
  std::thread thread_;
};

/// A thread that is pinned for as long as this lives.
class pinned {
 public:
  explicit pinned(unsigned cpu) : known_(sched_getaffinity(0, sizeof before_, &before_) == 0), done_(pin_to(cpu)) {}
  pinned(const pinned&) = delete;
  pinned& operator=(const pinned&) = delete;
  ~pinned() {
    if (known_) sched_setaffinity(0, sizeof before_, &before_);
  }
  explicit operator bool() const { return done_; }

 private:
  cpu_set_t before_;
  bool known_, done_;
};

/// Memory on large pages, if there are any.
class large_array {
 public:
  explicit large_array(std::size_t bytes, bool large_pages = true) : bytes_(bytes) {
    void* const at =
        mmap(nullptr, bytes + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    mapped_ = static_cast<char*>(at);
    begin_ = mapped_ + (align - reinterpret_cast<std::uintptr_t>(at) % align) % align;
    madvise(begin_, bytes, large_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    for (std::size_t i = 0; i < bytes; i += 4096) begin_[i] = 1;
  }
  large_array(const large_array&) = delete;
  large_array& operator=(const large_array&) = delete;
  ~large_array() { munmap(mapped_, bytes_ + align); }
  std::uint64_t* words() const { return reinterpret_cast<std::uint64_t*>(begin_); }
  char* bytes() const { return begin_; }

 private:
  static constexpr std::size_t align = std::size_t{2} << 20;
  std::size_t bytes_;
  char *mapped_, *begin_;
};

/// Lines in a random circle, each in a sector of its own. They are at home where the thread runs that makes them.
class circle {
 public:
  struct alignas(sector) place {
    place* next = nullptr;
    std::atomic<std::uint64_t> word{0};
  };

  explicit circle(std::size_t n) : memory_(n * sizeof(place), false), places_(n) {
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937 chance(1);
    std::shuffle(order.begin(), order.end(), chance);
    auto* const first = reinterpret_cast<place*>(memory_.bytes());
    for (std::size_t i = 0; i < n; i++) places_[i] = ::new (first + i) place;
    for (std::size_t i = 0; i < n; i++) places_[order[i]]->next = places_[order[(i + 1) % n]];
  }

  std::size_t size() const { return places_.size(); }
  /// Once round, each load after the one before.
  void follow(std::size_t n) const {
    const place* p = places_.front();
    for (std::size_t i = 0; i < n; i++) {
      p = p->next;
      use(p);
    }
  }
  void read() const {
    follow(size());
    settle();
  }
  void write() {
    place* p = places_.front();
    for (std::size_t i = 0; i < size(); i++, p = p->next) p->word.store(i, relaxed);
    settle();
  }
  void modify(std::size_t n) {
    place* p = places_.front();
    for (std::size_t i = 0; i < n; i++, p = p->next) p->word.fetch_add(1, relaxed);
  }
  bool flush_all() const {
    bool can = true;
    for (const place* p : places_) can = flush(p) && can;
    settle();
    return can;
  }

 private:
  large_array memory_;
  std::vector<place*> places_;
};

constexpr std::size_t lines_at_once = 64;  // a first-level cache has room for all

double from_memory(const circle& c) {
  c.flush_all();
  return each(c.size(), [&](std::size_t n) { c.follow(n); });
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  return syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

}  // namespace

measured over(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return {n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2, values.front(), values.back(), n};
}

namespace {

/// A dependent addition, which takes a cycle; 0 where this is not known how to do.
double addition() {
#if defined(__x86_64__) || defined(__aarch64__)
  const auto loop = [](std::size_t n) {
    std::uint64_t x = 1, y = n;
    for (std::size_t i = 0; i < n; i++) {
#if defined(__x86_64__)
      asm volatile(".rept 32\n\tadd %1, %0\n\t.endr" : "+r"(x) : "r"(y));
#else
      asm volatile(".rept 32\n\tadd %0, %0, %1\n\t.endr" : "+r"(x) : "r"(y));
#endif
    }
    use(x);
  };
  return each(2000, loop) / 32;
#else
  return 0;
#endif
}

}  // namespace

core_costs costs_of_core(unsigned cpu) {
  // Clocks change, and neighbours come and go: short looks over half a second see more of that than a long one.
  constexpr unsigned passes = 40, times = 5, apart_us = 8000;
  constexpr std::size_t turns = 2000;
  const pinned here(cpu);
  circle few(16), more(lines_at_once);
  few.read();
  alignas(sector) std::atomic<std::uint64_t> word{1};
  std::mt19937 generator(1);
  // Branches that cannot be predicted, every second one wrong, against those that are always the same.
  std::vector<std::uint8_t> same(turns, 1), any(turns);
  const auto branches = [](const std::vector<std::uint8_t>& which) {
    return each(which.size(), [&](std::size_t n) {
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < n; i++)
        if (which[i] != 0) {
          use(i);  // so that it stays a branch
          sum += i;
        }
      use(sum);
    });
  };

  std::vector<double> cycles, hits, stores, modifies, looks, steps, mistakes, memory;
  const auto note = [](std::vector<double>& to, auto f) {
    f();
    for (unsigned i = 0; i < times; i++) to.push_back(f());
  };
  for (unsigned pass = 0; pass < passes; pass++) {
    if (pass != 0) usleep(apart_us);
    if (addition() > 0) note(cycles, addition);
    note(hits, [&] { return each(turns, [&](std::size_t n) { few.follow(n); }); });
    note(stores, [&] {
      return each(turns, [&](std::size_t n) {
        for (std::size_t i = 0; i < n; i++) word.store(i + 1, relaxed);
      });
    });
    note(modifies, [&] {
      return each(turns, [&](std::size_t n) {
        for (std::size_t i = 0; i < n; i++) use(word.fetch_add(1, relaxed));
      });
    });
    note(looks, [&] {
      return each(turns, [&](std::size_t n) {
        for (std::size_t i = 0; i < n && word.load(std::memory_order_acquire) != 0; i++) relax();
      });
    });
    note(steps, [&] {
      return each(turns, [&](std::size_t n) {
        std::uint32_t sum = 0;
        for (std::size_t i = 0; i < n; i++) sum += std::uint32_t(generator());
        use(sum);
      });
    });
    note(mistakes, [&] {
      for (auto& a : any) a = generator() >> 31;
      return 2 * (branches(any) - branches(same));
    });
    if (more.flush_all()) note(memory, [&] { return from_memory(more); });
  }
  return {over(std::move(cycles)), over(std::move(hits)),  over(std::move(stores)),   over(std::move(modifies)),
          over(std::move(looks)),  over(std::move(steps)), over(std::move(mistakes)), over(std::move(memory))};
}

std::optional<line_costs> costs_of_lines(unsigned cpu, unsigned other) {
  const pinned here(cpu);
  partner there(other);
  if (!here || !there.pinned()) return std::nullopt;
  std::unique_ptr<circle> made;
  there.carry_out([&] { made = std::make_unique<circle>(lines_at_once); });
  circle& c = *made;
  constexpr std::size_t lines = lines_at_once, times = 301;
  const auto in_turns = [&](const std::function<void()>& first, const std::function<void()>& they,
                            const std::function<void(std::size_t)>& we) {
    unsigned round = 0;
    return repeat(times, [&] {
      if (round++ % 30 == 29) usleep(5000);  // as in costs_of_core()
      first();
      there.carry_out(they);
      return each(lines, we);
    });
  };
  const auto follow = [&](std::size_t n) { c.follow(n); };
  line_costs l;
  c.read();
  l.dirty = in_turns([] {}, [&] { c.write(); }, follow);
  if (c.flush_all()) {
    l.clean = in_turns([&] { c.flush_all(); }, [&] { c.read(); }, follow);
    l.memory = repeat(times, [&] { return from_memory(c); });
  }
  l.invalidate = in_turns([&] { c.read(); }, [&] { c.read(); }, [&](std::size_t n) { c.modify(n); });
  alignas(sector) std::atomic<std::uint32_t> ball{0};
  constexpr std::uint32_t hits = 200;
  l.round_trip = repeat(times / 3, [&] {
    ball.store(0, relaxed);
    there.begin([&] {
      for (std::uint32_t i = 1; i < 2 * hits; i += 2) {
        while (ball.load(std::memory_order_acquire) != i) relax();
        ball.store(i + 1, std::memory_order_release);
      }
    });
    const double took = each(hits, [&](std::size_t n) {
      for (std::uint32_t i = 0; i < 2 * n; i += 2) {
        ball.store(i + 1, std::memory_order_release);
        while (ball.load(std::memory_order_acquire) != i + 2) relax();
      }
    });
    there.wait();
    return took;
  });
  return l;
}

std::optional<neighbour_costs> costs_of_neighbour(unsigned cpu, unsigned other) {
  const pinned here(cpu);
  partner there(other);
  if (!here || !there.pinned()) return std::nullopt;
  constexpr std::size_t times = 101, turns = 2000;
  std::mt19937 generator(1);
  const auto work = [&] {
    return each(turns, [&](std::size_t n) {
      std::uint32_t sum = 0;
      for (std::size_t i = 0; i < n; i++) sum += std::uint32_t(generator());
      use(sum);
    });
  };
  alignas(sector) std::atomic<bool> begun{false}, over_yet{false};
  const auto beside = [&](const std::function<void()>& what) {
    begun = over_yet = false;
    there.begin([&] {
      begun = true;
      while (!over_yet.load(relaxed)) what();
    });
    while (!begun) relax();
    const double took = work();
    over_yet = true;
    there.wait();
    return took;
  };
  neighbour_costs c;
  std::mt19937 theirs(2);
  c.works = repeat(times, [&] {
    const double alone = work();
    return beside([&] {
             std::uint32_t sum = 0;
             for (int i = 0; i < 100; i++) sum += std::uint32_t(theirs());
             use(sum);
           }) /
           alone;
  });
  c.spins = repeat(times, [&] {
    const double alone = work();
    return beside([] { relax(); }) / alone;
  });
  return c;
}

namespace {

struct hops {
  measured whole;  ///< from one thread to another of the same CPU, by a futex
  measured wake;   ///< the call of it that wakes
};

std::optional<hops> hop(unsigned cpu) {
  const pinned here(cpu);
  if (!here) return std::nullopt;
  constexpr std::uint32_t at_once = 20, times = 401, last = 2 * at_once * times, nobodys = ~0u;
  std::atomic<std::uint32_t> turn{nobodys};
  std::atomic<bool> could{true};
  std::vector<double> wholes, wakes;
  const auto play = [&](std::uint32_t mine) {
    // Or the one that is woken would take the CPU away in the middle of the call.
    const sched_param none{};
    if (sched_setscheduler(0, SCHED_BATCH, &none) != 0) could = false;
    double begin = now(), waking = 0;
    for (std::uint32_t i = mine; i < last; i += 2) {
      for (std::uint32_t seen; (seen = turn.load(std::memory_order_acquire)) != i;) futex(turn, FUTEX_WAIT, seen);
      if (mine == 0 && i != 0 && i % (2 * at_once) == 0) {
        const double end = now();
        wholes.push_back((end - begin) / (2 * at_once));
        wakes.push_back(waking / at_once);
        begin = end;
        waking = 0;
      }
      turn.store(i + 1, std::memory_order_release);
      const double before = mine == 0 ? now() : 0;
      futex(turn, FUTEX_WAKE, 1);
      if (mine == 0) waking += now() - before;
    }
  };
  std::thread first(play, 0), second(play, 1);  // where their maker is pinned
  turn.store(0, std::memory_order_release);
  futex(turn, FUTEX_WAKE, 1);
  first.join();
  second.join();
  if (!could) return std::nullopt;
  return hops{over(std::move(wholes)), over(std::move(wakes))};
}

struct wakings {
  std::vector<double> call, until_it_runs;
};

/// Wakes a thread of another CPU again and again, after it has slept for a little.
std::optional<wakings> wake_elsewhere(unsigned cpu, unsigned other, std::size_t times) {
  constexpr double asleep = 30000;  // ns; chosen, not measured
  const pinned here(cpu);
  if (!here) return std::nullopt;
  alignas(sector) std::atomic<std::uint32_t> word{0};
  alignas(sector) std::atomic<std::uint32_t> came{0};
  alignas(sector) std::atomic<double> ran{0};
  std::atomic<bool> could{true};
  std::thread sleeper([&] {
    if (!pin_to(other)) could = false;
    for (std::uint32_t i = 1; i <= times; i++) {
      came.store(i, std::memory_order_release);
      while (word.load(std::memory_order_acquire) != i) futex(word, FUTEX_WAIT, i - 1);
      ran.store(now(), std::memory_order_release);
    }
    came.store(std::uint32_t(times) + 1, std::memory_order_release);
  });
  wakings w;
  for (std::uint32_t i = 1; i <= times; i++) {
    while (came.load(std::memory_order_acquire) != i) relax();
    for (const double until = now() + asleep; now() < until;) relax();
    word.store(i, std::memory_order_release);
    const double begin = now();
    futex(word, FUTEX_WAKE, 1);
    w.call.push_back(now() - begin);
    while (came.load(std::memory_order_acquire) != i + 1) relax();
    w.until_it_runs.push_back(ran.load(std::memory_order_acquire) - begin);
  }
  sleeper.join();
  if (!could) return std::nullopt;
  return w;
}

/// Two threads want the same CPU: for how long does one have it?
std::optional<measured> slices(unsigned cpu) {
  constexpr double run = 0.6e9, interruption = 50e3, shortest = 0.2e6;
  std::vector<double> had[2];
  std::atomic<bool> could{true};
  std::thread threads[2];
  for (int t = 0; t < 2; t++)
    threads[t] = std::thread([&, t] {
      if (!pin_to(cpu)) could = false;
      const double end = now() + run;
      double first = now();
      for (double last = first, n; (n = now()) < end; last = n) {
        if (n - last < interruption) continue;
        if (last - first > shortest) had[t].push_back(last - first);
        first = n;
      }
    });
  for (std::thread& t : threads) t.join();
  std::vector<double> all = had[0];
  all.insert(all.end(), had[1].begin(), had[1].end());
  if (!could || all.size() < 5) return std::nullopt;
  return over(std::move(all));
}

}  // namespace

scheduler_costs costs_of_scheduler(unsigned cpu, std::optional<unsigned> other) {
  scheduler_costs c;
  std::atomic<std::uint32_t> word{0};
  c.call = repeat(401, [&] {
    return each(100, [&](std::size_t n) {
      for (std::size_t i = 0; i < n; i++) futex(word, FUTEX_WAKE, 1);
    });
  });
  if (const auto h = hop(cpu)) {
    c.queue = h->wake;
    c.change = h->whole;
    const double calls = h->wake.median + c.call.median;  // one that wakes, one that sleeps
    for (double* v : {&c.change.median, &c.change.low, &c.change.high}) *v = std::max(0.0, *v - calls);
  }
  if (other)
    if (auto w = wake_elsewhere(cpu, *other, 2000)) {
      auto& after = w->until_it_runs;
      std::sort(after.begin(), after.end());
      after.resize(after.size() * 9 / 10);
      const double least = after[after.size() / 50];
      c.wake = {over(std::move(w->call)), over(std::move(after)), least};
    }
  c.slice = slices(cpu);
  return c;
}

namespace {

/// A random circle through places of an array, each load after the one before.
class chain {
 public:
  /// `place`: how far from the beginning the n-th lies.
  template <class Place>
  chain(char* begin, std::size_t n, std::mt19937& chance, Place place) : n_(n) {
    std::vector<std::uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), chance);
    const auto at = [&](std::size_t i) { return reinterpret_cast<void**>(begin + place(std::size_t{order[i % n]})); };
    for (std::size_t i = 0; i < n; i++) *at(i) = at(i + 1);
    p_ = at(0);
  }
  /// A load, once all have been there.
  measured load(std::size_t times) {
    constexpr std::size_t most = 2000000, at_once = 8192;
    follow(std::min(n_, most));
    return repeat(times, [&] { return each(at_once, [&](std::size_t n) { follow(n); }); });
  }

 private:
  void follow(std::size_t n) {
    for (std::size_t i = 0; i < n; i++) {
      p_ = static_cast<void**>(*p_);
      use(p_);
    }
  }
  std::size_t n_;
  void** p_;
};

constexpr std::size_t line = 64;

/// The largest array that is read as if it were in a cache: it takes less than the geometric mean of the fastest and the slowest.
std::uint64_t found_capacity(const large_array& a, std::uint64_t from, std::uint64_t to) {
  std::mt19937 chance(1);
  std::vector<std::pair<std::uint64_t, double>> seen;
  for (std::uint64_t bytes = from; bytes <= to; bytes *= 2)
    seen.emplace_back(bytes,
                      chain(a.bytes(), bytes / line, chance, [](std::size_t i) { return i * line; }).load(51).median);
  std::uint64_t found = from;
  for (const auto& [bytes, ns] : seen)
    if (ns * ns < seen.front().second * seen.back().second) found = bytes;
  return found;
}

}  // namespace

array_costs costs_of_arrays(const native_machine& m) {
  const pinned here(m.cpus.front().number);
  constexpr std::size_t times = 201, loads = 4000;
  array_costs c;
  const std::uint64_t own = m.own.bytes != 0 ? m.own.bytes : m.last.bytes / 8;
  const auto available = std::uint64_t(sysconf(_SC_AVPHYS_PAGES)) * std::uint64_t(sysconf(_SC_PAGESIZE));
  c.memory_bytes = std::min({std::bit_floor(m.last.bytes) * 4, std::uint64_t{1} << 30, std::bit_floor(available / 4)});
  const large_array a(c.memory_bytes);
  c.last_level = std::min(m.last.bytes, found_capacity(a, own * 2, c.memory_bytes));
  c.last_bytes = std::max(own * 2, c.last_level / 2);
  const auto in = [&](std::uint64_t bytes) {
    const std::uint64_t words = bytes / sizeof(std::uint64_t);
    std::mt19937 chance(1);
    const auto load = [&](std::size_t n) {
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < n; i++) sum += a.words()[std::uint64_t{std::uint32_t(chance())} * words >> 32];
      use(sum);
    };
    load(std::min<std::size_t>(words, 2000000));  // all lines have been there
    return repeat(times, [&] { return each(loads, load); });
  };
  c.own = in(own / 2);
  c.last = in(c.last_bytes);
  c.memory = in(c.memory_bytes);

  // All cores of the first socket read parts of the array.
  std::vector<std::unique_ptr<partner>> readers;
  for (const native_cpu& p : m.cpus)
    if (p.socket == 0 && p.hardware_thread == 0) readers.push_back(std::make_unique<partner>(p.number));
  constexpr std::size_t at_once = std::size_t{512} << 10;
  const std::size_t part = c.memory_bytes / readers.size() / at_once * at_once;
  std::size_t at = 0;
  c.channel = repeat(101, [&] {
    const double begin = now();
    for (std::size_t i = 0; i < readers.size(); i++)
      readers[i]->begin([&a, from = i * part + at] {
        std::uint64_t sum = 0;
        const auto* const first = reinterpret_cast<const std::uint64_t*>(a.bytes() + from);
        for (const std::uint64_t* p = first; p < first + at_once / sizeof *p; p += line / sizeof *p) sum += *p;
        use(sum);
      });
    for (const auto& r : readers) r->wait();
    at = (at + at_once) % part;
    constexpr std::size_t lines = at_once / line;
    return (now() - begin) / static_cast<double>(lines * readers.size());
  });
  return c;
}

std::optional<tlb_costs> costs_of_pages(unsigned cpu) {
  const pinned here(cpu);
  constexpr std::size_t page = 4096, most = 8192;
  const large_array a(most * page, false);
  std::mt19937 chance(1);
  // As many lines, on as many pages and on few: what differs is the TLB's.
  const auto extra = [&](std::size_t n) {
    measured apart = chain(a.bytes(), n, chance, [](std::size_t i) {
                       return i * page + i % (page / line) * line;  // or all would want the same sets of the caches
                     }).load(51);
    const double together = chain(a.bytes(), n, chance, [](std::size_t i) { return i * line; }).load(51).median;
    for (double* v : {&apart.median, &apart.low, &apart.high}) *v -= together;
    return apart;
  };
  constexpr double clear = 3, least_ns = 4;  // chosen, not measured: a smaller step is that of a TLB before another
  std::size_t before = 64;
  measured cost = extra(before);
  for (std::size_t n = 96; n <= most; n = n * (std::has_single_bit(n) ? 3 : 4) / (std::has_single_bit(n) ? 2 : 3)) {
    const measured c = extra(n);
    if (c.median > clear * std::max(cost.median, 0.5) && c.median > least_ns)
      return tlb_costs{unsigned(before), extra(2 * before)};
    before = n;
    cost = c;
  }
  return std::nullopt;
}

}  // namespace usher::calibrate
