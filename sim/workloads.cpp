// The benchmark programs. Each says where it comes from; what the source leaves open is said where it is decided.
#include <atomic>
#include <memory>

#include "sim/workload.hpp"

namespace usher::sim {
namespace {

constexpr std::size_t sector_bytes = 128;

using word = simulated_atomic<std::uint64_t>;
constexpr auto relaxed = std::memory_order_relaxed;

word& word_of_its_own(bench& b) {
  return *::new (b.sim().shared().allocate(sizeof(word), sector_bytes)) word();
}

std::function<void()> mutexbench(bench& b) {
  const auto lock = std::make_shared<bench_lock>(b.make_lock());
  const auto cs = std::uint64_t(b.parameter("cs"));
  const auto ncs = std::uint32_t(b.parameter("ncs"));
  return [&b, lock, cs, ncs] {
    lock->lock();
    b.sim().compute(b.uniform(4));  // loop ends, call and return: they do not take the same time always
    b.steps(cs);
    lock->unlock();
    b.count();
    b.sim().compute(12);
    b.steps(b.uniform(ncs));
  };
}

/// One thread writes, all others read in a loop. Operations are the writer's.
std::function<void()> invalidation(bench& b) {
  word& shared = word_of_its_own(b);
  return [&b, &shared] {
    if (b.sim().thread() == 0) {
      shared.fetch_add(1, relaxed);
      b.count();
      if (b.over()) shared.fetch_add(1, relaxed);  // and lets the readers see that
      return;
    }
    const std::uint64_t seen = shared.peek();
    simulated::await(
        shared, [seen](std::uint64_t v) { return v != seen; }, relaxed);
  };
}

/// Threads take locks of a pool at random.
std::function<void()> interlock(bench& b) {
  auto pool = std::make_shared<std::vector<bench_lock>>();
  for (long i = 0; i < b.parameter("locks"); i++) pool->push_back(b.make_lock());
  const auto cs = std::uint64_t(b.parameter("cs")), ncs = std::uint64_t(b.parameter("ncs"));
  return [&b, pool, cs, ncs] {
    bench_lock& lock = (*pool)[b.uniform(std::uint32_t(pool->size()))];
    lock.lock();
    b.steps(cs);
    lock.unlock();
    b.count();
    b.steps(ncs);
  };
}

/// stress_latency: delay loops inside and outside. A loop's iteration is a cycle's.
std::function<void()> stress_latency(bench& b) {
  const auto lock = std::make_shared<bench_lock>(b.make_lock());
  const auto cs = cycles(b.parameter("cs")), ncs = cycles(b.parameter("ncs"));
  return [&b, lock, cs, ncs] {
    lock->lock();
    b.sim().compute(cs + b.uniform(4));
    lock->unlock();
    b.count();
    b.sim().compute(ncs + b.uniform(4));
  };
}

/// Nothing shared: each thread steps a generator of its own.
std::function<void()> ideal(bench& b) {
  return [&b] {
    b.sim().compute(9 * 100);
    b.count();
  };
}

/// MCSg's program: acquire, read four lines, release. The last `guests` threads come as guests where the lock takes any.
std::function<void()> mcsg_loop(bench& b) {
  const auto lock = std::make_shared<bench_lock>(b.make_lock());
  auto data = std::make_shared<std::vector<word*>>();
  for (int i = 0; i < 4; i++) data->push_back(&word_of_its_own(b));
  const auto guests = unsigned(b.parameter("guests"));
  if (guests > b.asked().threads) throw std::runtime_error("mcsg-loop: more guests than threads");
  if (guests != 0 && b.table().lock_as_guest == nullptr)
    throw std::runtime_error("mcsg-loop: " + b.asked().lock + " takes no guests");
  return [&b, lock, data, first_guest = b.asked().threads - guests] {
    if (b.sim().thread() >= first_guest)
      lock->lock_as_guest();
    else
      lock->lock();
    for (word* w : *data) w->load(relaxed);
    lock->unlock();
    b.count();
    b.sim().compute(4 + b.uniform(8));
  };
}

}  // namespace

std::span<const workload> workloads() {
  static const std::vector<workload> all{
      {"mutexbench",
       "a critical and a non-critical section of PRNG steps",
       "TWA (extended), section 4.2, figures 3 and 4",
       {{"cs", 4, 0, 1000000, "PRNG steps inside"}, {"ncs", 200, 0, 1000000, "at most so many PRNG steps outside"}},
       placement::scattered,
       true,
       mutexbench},
      {"invalidation",
       "one thread writes a word, all others read it",
       "TWA (extended), section 4.1, figure 1",
       {},
       placement::scattered,
       false,
       invalidation},
      {"interlock",
       "a pool of locks: do they disturb each other in a shared array",
       "TWA (extended), section 4.1, figure 2",
       {{"locks", 1, 1, 8192, "in the pool"},
        {"cs", 50, 0, 1000000, "PRNG steps inside"},
        {"ncs", 100, 0, 1000000, "PRNG steps outside"}},
       placement::scattered,
       false,
       interlock},
      {"stress-latency",
       "LevelDB's stress_latency: delay loops inside and outside",
       "TWA (extended), section 4.5, figure 7",
       {{"cs", 200, 0, 1000000, "cycles inside"}, {"ncs", 5000, 0, 10000000, "cycles outside"}},
       placement::scattered,
       true,
       stress_latency},
      {"ideal",
       "independent threads: what cores, caches and pipelines let them do",
       "TWA (extended), figure 13",
       {},
       placement::scattered,
       false,
       ideal},
      {"mcsg-loop",
       "acquire, read four lines, release; some threads come as guests",
       "MCSg, section 5, figures 3 to 9",
       {{"guests", 0, 0, 1024, "threads without a queue node"}},
       placement::compact,
       true,
       mcsg_loop},
  };
  return all;
}

}  // namespace usher::sim
