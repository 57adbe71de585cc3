#include "lab/calibrate/validation.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "lab/calibrate/native_costs.hpp"
#include "lab/sim/simulated_lock.hpp"
#include "library/catalog/names.hpp"
#include "usher/catalog.hpp"

namespace usher::calibrate {
namespace {

constexpr const char* program = "mutexbench";
/// Two locks are compared only if each has at least this many native runs: the range of fewer runs is too uncertain.
constexpr std::size_t enough_runs = 3;

void note_order(agreement& a, const std::vector<compared_point>& points) {
  const auto above = [](const std::vector<double>& one, const std::vector<double>& other) {
    return *std::min_element(one.begin(), one.end()) > *std::max_element(other.begin(), other.end());
  };
  for (const compared_point& one : points)
    for (const compared_point& other : points) {
      if (std::min(one.native.size(), other.native.size()) < enough_runs) continue;
      if (one.threads != other.threads || !above(one.native, other.native)) continue;
      a.pairs++;
      a.pairs_in_order += one.simulated_median() > other.simulated_median();
    }
}

}  // namespace

double compared_point::native_median() const {
  return over(native).median;
}

double compared_point::simulated_median() const {
  return over(simulated).median;
}

std::vector<compared_point> points_of(const validation& v, unsigned cpus) {
  std::vector<unsigned> counts = v.threads;
  if (counts.empty()) counts = {1, 2, cpus, 2 * cpus, 4 * cpus};
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  std::vector<compared_point> points;
  for (const unsigned threads : counts)
    for (const std::string& name : v.locks) {
      const lock_table* const lock = find_lock(name);
      if (lock == nullptr || sim::find_simulated_lock(lock->name) == nullptr) {
        if (!v.locks_asked) continue;
        throw std::runtime_error("validate: unknown lock '" + name +
                                 "', or one that is not simulated (usher list shows all)");
      }
      // If threads outnumber CPUs, spinning FIFO locks are left out: such a lock makes no progress while the next owner
      // waits for a CPU.
      if (!v.locks_asked && lock->kind == waiting_kind::spin && lock->traits->fifo && threads > cpus) continue;
      points.push_back({lock, threads});
    }
  return points;
}

void check_points(const sim::machine& m, const std::vector<compared_point>& points) {
  for (const compared_point& c : points) {
    sim::point p;
    p.workload = program;
    p.lock = c.lock->name;
    p.threads = c.threads;
    sim::check_point(m, p);
  }
}

void simulate(const sim::machine& m, compared_point& c, const validation& v, unsigned seed) {
  sim::point p;
  p.workload = program;
  p.lock = c.lock->name;
  p.threads = c.threads;
  p.seed = seed;
  p.pinned = v.pinned;
  p.spin_ns = v.spin_ns;
  p.watch = false;
  constexpr std::uint64_t ms = 1000000;
  p.run_ns = std::max((c.threads <= m.cpus() ? 20 : 200) * ms, sim::usual_run_ns(m, p));
  const sim::result r = sim::run_point(m, p);
  c.simulated.push_back(r.throughput);
  c.unsettled += r.settled ? 0 : 1;
}

agreement agreement_of(const std::vector<compared_point>& points) {
  agreement a;
  for (const compared_point& c : points) {
    const double error = std::abs(c.error());
    a.within_10 += error <= 0.1;
    a.within_25 += error <= 0.25;
  }
  note_order(a, points);
  return a;
}

}  // namespace usher::calibrate
