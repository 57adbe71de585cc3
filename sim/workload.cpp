#include "sim/workload.hpp"

#include <time.h>

#include <algorithm>

#include "sim/metrics.hpp"

namespace usher::sim {
namespace {

constexpr std::size_t sector_bytes = 128;
/// Before what is measured: a fifth of it.
constexpr unsigned warm_up = 5;

unsigned cpu_of(const machine& m, placement where, unsigned thread) {
  const unsigned n = thread % m.cpus();
  const unsigned used = m.used_cores != 0 ? m.used_cores : m.cores;
  if (where == placement::scattered) {
    const unsigned strand = n / m.all_cores(), k = n % m.all_cores();
    return ((k % m.sockets) * m.cores + k / m.sockets) * m.strands + strand;
  }
  // The used cores of all sockets, strand by strand, then the others.
  const unsigned first = m.sockets * used * m.strands;
  const unsigned part = n < first ? used : m.cores - used, skip = n < first ? 0 : used, k = n < first ? n : n - first;
  const unsigned strand = k / (m.sockets * part), core = k % (m.sockets * part);
  return (core / part * m.cores + skip + core % part) * m.strands + strand;
}

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

const workload& known_workload(const std::string& name) {
  if (const workload* w = find_workload(name)) return *w;
  throw std::runtime_error("unknown workload '" + name + "'");
}

const simulated_lock& known_lock(const std::string& name) {
  if (const simulated_lock* l = find_simulated_lock(name)) return *l;
  throw std::runtime_error("unknown lock '" + name + "'");
}

}  // namespace

bench_lock::bench_lock(const simulated_lock& table, arena& a)
    : table_(&table), state_(a.allocate(table.size, std::max(table.align, sector_bytes))) {
  table.make(state_);
}

/// Admissions of one lock within the measured time.
struct bench::watcher : observer {
  bench& of;  // first: others are made from it
  explicit watcher(bench& b) : of(b), came(b.point_.threads), waits_since(b.point_.threads) {}

  void doorway(const void* lock, unsigned thread, cycles now) override {
    if (lock != of.watched_) return;
    came[thread] = now;
    waits_since[thread] = ++arrivals;
  }
  void admitted(const void* lock, unsigned thread, cycles now) override {
    if (lock != of.watched_) return;
    const std::uint64_t mine = waits_since[thread];
    waits_since[thread] = 0;
    if (now <= of.begin_ || now > of.end_) return;
    history.push_back(std::uint16_t(thread));
    const unsigned socket = of.simulation_.socket();
    if (last_socket != socket && history.size() > 1) between_sockets++;
    last_socket = socket;
    if (mine == 0) return;  // a lock without doorways
    waits.push_back(now - came[thread]);
    for (std::size_t t = 0; t < waits_since.size(); t++)
      if (waits_since[t] != 0 && came[t] + order_known < came[thread]) {
        bypasses++;  // somebody has waited for longer
        break;
      }
  }

  /// A doorway is an access that takes its time, and whoever begins it first need not be first: what came so close counts as
  /// together. 5 µs.
  const cycles order_known = of.simulation_.on().from_ns(5000);
  std::vector<cycles> came;
  std::vector<std::uint64_t> waits_since;
  std::uint64_t arrivals = 0, between_sockets = 0, bypasses = 0;
  unsigned last_socket = 0;
  std::vector<std::uint16_t> history;
  std::vector<std::uint64_t> waits;
};

bench::bench(machine m, const point& p, const simulated_lock& lock)
    : point_(p),
      lock_(lock),
      simulation_(std::move(m), p.seed),
      process_(simulation_, p.threads),
      begin_(simulation_.on().from_ns(p.run_ns / warm_up)),
      end_(begin_ + simulation_.on().from_ns(p.run_ns)),
      operations_(p.threads) {}

long bench::parameter(const char* name) const {
  return point_.parameters.at(name);
}

bench_lock bench::make_lock() {
  bench_lock l(lock_, simulation_.shared());
  if (watched_ == nullptr) watched_ = l.state();
  return l;
}

const workload* find_workload(std::string_view name) {
  for (const workload& w : workloads())
    if (name == w.name) return &w;
  return nullptr;
}

void check_point(const machine& m, const point& p) {
  const workload& w = known_workload(p.workload);
  const simulated_lock& lock = known_lock(p.lock);
  for (const auto& [name, value] : p.parameters) {
    const auto known = std::find_if(w.parameters.begin(), w.parameters.end(),
                                    [&name = name](const parameter& k) { return name == k.name; });
    if (known == w.parameters.end()) throw std::runtime_error(p.workload + " has no parameter '" + name + "'");
    if (value < known->least || value > known->most)
      throw std::runtime_error(p.workload + ": " + name + " must be between " + std::to_string(known->least) + " and " +
                               std::to_string(known->most));
  }
  if (!m.os && lock.parks())
    throw std::runtime_error(m.name + " has no section [scheduler], and waiters of " + p.lock + " sleep: take " +
                             lock.family + "-spin");
  if (!m.os && p.threads > m.cpus())
    throw std::runtime_error(m.name + " has " + std::to_string(m.cpus()) +
                             " CPUs and no section [scheduler]: no room for " + std::to_string(p.threads) + " threads");
}

result run_point(const machine& m, const point& asked) {
  check_point(m, asked);
  const workload& w = known_workload(asked.workload);
  const simulated_lock& lock = known_lock(asked.lock);
  point p = asked;
  for (const parameter& k : w.parameters) p.parameters.try_emplace(k.name, k.value);

  const double cpu_before = cpu_seconds();
  bench b(m, p, lock);
  bench::watcher watcher(b);
  if (p.watch && w.one_lock) b.process_.watched_by = &watcher;
  const std::function<void()> body = w.make(b);
  for (unsigned i = 0; i < p.threads; i++)
    b.simulation_.add_thread(cpu_of(m, w.where, i), [&b, &body] {
      while (!b.over()) body();
    });
  b.simulation_.run();

  result r;
  r.operations = b.operations_;
  std::uint64_t sum = 0;
  for (const std::uint64_t n : r.operations) sum += n;
  r.throughput = static_cast<double>(sum) / (static_cast<double>(p.run_ns) / 1000);
  r.gini = gini(r.operations);
  r.relative_deviation = relative_deviation(r.operations);
  if (b.process_.watched_by != nullptr) {
    r.admissions = watcher.history.size();
    r.working_set = working_set(watcher.history);
    r.reacquire = median_reacquire(watcher.history);
    r.between_sockets = watcher.between_sockets;
    r.bypasses = watcher.bypasses;
    r.wait_median_ns = m.to_ns(percentile(watcher.waits, 0.5));
    r.wait_99_ns = m.to_ns(percentile(watcher.waits, 0.99));
    r.wait_longest_ns = m.to_ns(percentile(watcher.waits, 1));
  }
  const auto& c = b.simulation_.counted();
  r.voluntary = c.voluntary;
  r.involuntary = c.involuntary;
  r.migrations = c.migrations;
  r.events = c.events;
  r.looks = c.looks;
  r.simulated_ms = static_cast<double>(p.run_ns) * (1 + 1.0 / warm_up) * 1e-6;
  r.cpu_seconds = cpu_seconds() - cpu_before;
  return r;
}

}  // namespace usher::sim
