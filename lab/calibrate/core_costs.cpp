#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <random>

#include "lab/calibrate/measuring.hpp"
#include "lab/calibrate/native_costs.hpp"

namespace usher::calibrate {

measured over(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return {n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2, values.front(), values.back(), n};
}

namespace {

/// Returns the nanoseconds of an addition that depends on the previous one, which takes one cycle. 0 if there is no
/// code for this processor.
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

/// Measures the cost of a mispredicted branch in nanoseconds, with random branches, half of which are mispredicted.
class misprediction {
 public:
  explicit misprediction(std::size_t n) : same_(n, 1), any_(n) {}
  double operator()(std::mt19937& chance) {
    for (auto& a : any_) a = chance() >> 31;
    return 2 * (branches(any_) - branches(same_));
  }

 private:
  static double branches(const std::vector<std::uint8_t>& taken) {
    return each(taken.size(), [&](std::size_t n) {
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < n; i++)
        if (taken[i] != 0) {
          use(i);  // keeps the branch a branch
          sum += i;
        }
      use(sum);
    });
  }
  std::vector<std::uint8_t> same_, any_;
};

constexpr std::size_t iterations = 2000;  // of a loop, for one measured value

double stores(std::atomic<std::uint64_t>& word) {
  return each(iterations, [&](std::size_t n) {
    for (std::size_t i = 0; i < n; i++) word.store(i + 1, relaxed);
  });
}

double modifies(std::atomic<std::uint64_t>& word) {
  return each(iterations, [&](std::size_t n) {
    for (std::size_t i = 0; i < n; i++) use(word.fetch_add(1, relaxed));
  });
}

/// Returns the nanoseconds of one iteration of a loop that polls the word, waiting for a 0 that is never written.
double polls(std::atomic<std::uint64_t>& word) {
  return each(iterations, [&](std::size_t n) {
    for (std::size_t i = 0; i < n && word.load(std::memory_order_acquire) != 0; i++) relax();
  });
}

double steps(std::mt19937& generator) {
  return each(iterations, [&](std::size_t n) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < n; i++) sum += std::uint32_t(generator());
    use(sum);
  });
}

constexpr std::size_t lines_at_once = 64;  // a first-level cache has room for all

double from_memory(const pointer_chase& c) {
  c.flush_all();
  return each(c.size(), [&](std::size_t n) { c.chase(n); });
}

}  // namespace

core_costs costs_of_core(unsigned cpu) {
  // Short measurements are spread over half a second, so that they cover more changes of the clock frequency and of the
  // load by other programs than one long measurement would.
  constexpr unsigned passes = 40, times = 5, apart_us = 8000;
  const pinned here(cpu);
  pointer_chase few(16), more(lines_at_once);
  few.read();
  alignas(sector) std::atomic<std::uint64_t> word{1};
  std::mt19937 generator(1);
  misprediction mispredicted(iterations);

  std::vector<double> cycle, hit, store, modify, poll, step, wrong_branch, memory;
  const auto note = [](std::vector<double>& to, auto f) {
    f();  // warm-up
    for (unsigned i = 0; i < times; i++) to.push_back(f());
  };
  for (unsigned pass = 0; pass < passes; pass++) {
    if (pass != 0) usleep(apart_us);
    if (addition() > 0) note(cycle, addition);
    note(hit, [&] { return each(iterations, [&](std::size_t n) { few.chase(n); }); });
    note(store, [&] { return stores(word); });
    note(modify, [&] { return modifies(word); });
    note(poll, [&] { return polls(word); });
    note(step, [&] { return steps(generator); });
    note(wrong_branch, [&] { return mispredicted(generator); });
    if (more.flush_all()) note(memory, [&] { return from_memory(more); });
  }
  return {over(std::move(cycle)), over(std::move(hit)),  over(std::move(store)),        over(std::move(modify)),
          over(std::move(poll)),  over(std::move(step)), over(std::move(wrong_branch)), over(std::move(memory))};
}

namespace {

/// Returns the nanoseconds for a word to go to the other CPU and back, while both CPUs write it in turn.
double ping_pong(helper_thread& there) {
  alignas(sector) std::atomic<std::uint32_t> word{0};
  constexpr std::uint32_t round_trips = 200;
  there.start([&] {
    for (std::uint32_t i = 1; i < 2 * round_trips; i += 2) {
      while (word.load(std::memory_order_acquire) != i) relax();
      word.store(i + 1, std::memory_order_release);
    }
  });
  const double took = each(round_trips, [&](std::size_t n) {
    for (std::uint32_t i = 0; i < 2 * n; i += 2) {
      word.store(i + 1, std::memory_order_release);
      while (word.load(std::memory_order_acquire) != i + 2) relax();
    }
  });
  there.wait();
  return took;
}

}  // namespace

std::optional<line_costs> costs_of_lines(unsigned cpu, unsigned other) {
  const pinned here(cpu);
  helper_thread there(other);
  if (!here || !there.pinned()) return std::nullopt;
  std::unique_ptr<pointer_chase> made;
  there.run([&] { made = std::make_unique<pointer_chase>(lines_at_once); });
  pointer_chase& c = *made;
  constexpr std::size_t lines = lines_at_once, times = 301;
  const auto in_turns = [&](const std::function<void()>& first, const std::function<void()>& they,
                            const std::function<void(std::size_t)>& we) {
    unsigned round = 0;
    return repeat(times, [&] {
      if (round++ % 30 == 29) usleep(5000);  // spread over time, as in costs_of_core()
      first();
      there.run(they);
      return each(lines, we);
    });
  };
  const auto chase = [&](std::size_t n) { c.chase(n); };
  line_costs l;
  c.read();
  l.dirty = in_turns([] {}, [&] { c.write(); }, chase);
  if (c.flush_all()) {
    l.clean = in_turns([&] { c.flush_all(); }, [&] { c.read(); }, chase);
    l.memory = repeat(times, [&] { return from_memory(c); });
  }
  l.invalidate = in_turns([&] { c.read(); }, [&] { c.read(); }, [&](std::size_t n) { c.modify(n); });
  l.round_trip = repeat(times / 3, [&] { return ping_pong(there); });
  return l;
}

std::optional<neighbour_costs> costs_of_neighbour(unsigned cpu, unsigned other) {
  const pinned here(cpu);
  helper_thread there(other);
  if (!here || !there.pinned()) return std::nullopt;
  constexpr std::size_t times = 101;
  std::mt19937 generator(1);
  alignas(sector) std::atomic<bool> begun{false}, done{false};
  const auto beside = [&](const std::function<void()>& what) {
    begun = done = false;
    there.start([&] {
      begun = true;
      while (!done.load(relaxed)) what();
    });
    while (!begun) relax();
    const double took = steps(generator);
    done = true;
    there.wait();
    return took;
  };
  neighbour_costs c;
  std::mt19937 theirs(2);
  c.works = repeat(times, [&] {
    const double alone = steps(generator);
    return beside([&] {
             std::uint32_t sum = 0;
             for (int i = 0; i < 100; i++) sum += std::uint32_t(theirs());
             use(sum);
           }) /
           alone;
  });
  c.spins = repeat(times, [&] {
    const double alone = steps(generator);
    return beside([] { relax(); }) / alone;
  });
  return c;
}

}  // namespace usher::calibrate
