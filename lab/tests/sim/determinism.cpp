// Prints the results of a few small points: operations of each thread, and other counts. The program is built twice
// more, by another compiler and without optimisation, and run in several environments. It must always print the same
// bytes (test_determinism.py), so it prints only integers. Arguments: the folder with machine files, and optionally the
// number of the only point to run.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lab/sim/harness.hpp"
#include "lab/sim/simulated_lock.hpp"

namespace usher::sim {
namespace {

struct named_point {
  const char* machine;
  point p;
  int jitter = -1;  ///< in 1/1024; below 0: the machine's own value
  std::map<std::string, std::string> changes = {};
};

/// The points cover the parts of the simulator: spinning, sleeping and yielding; with and without scheduling; caches,
/// TLBs, guests, random numbers.
std::vector<named_point> points() {
  const auto on = [](const char* machine, const char* workload, const char* lock, unsigned threads, std::uint64_t seed,
                     std::uint64_t us, std::map<std::string, long> parameters = {}, unsigned others = 0,
                     int jitter = -1) {
    named_point n{machine, {}, jitter};
    n.p.workload = workload;
    n.p.lock = lock;
    n.p.threads = threads;
    n.p.seed = seed;
    n.p.parameters = std::move(parameters);
    n.p.run_ns = us * 1000;
    n.p.others = others;
    return n;
  };
  const auto changed = [](named_point n, std::map<std::string, std::string> changes, std::string placement = "",
                          std::optional<std::uint64_t> spin_ns = {}) {
    n.changes = std::move(changes);
    n.p.placement = std::move(placement);
    n.p.spin_ns = spin_ns;
    return n;
  };
  return {
      on("x5-2", "mutexbench", "ticket-spin", 24, 1, 200),
      on("x5-2", "mutexbench", "twa-spin", 72, 2, 200),
      on("x5-2", "mutexbench", "mcs-spin", 36, 3, 200, {{"shared", 1}}),
      on("x5-2", "mutexbench", "ttas-spin", 17, 4, 200, {}, 0, 0),
      on("x5-2", "mutexbench", "mcs", 90, 5, 2000, {}, 8),
      on("x5-2", "mutexbench", "ttas-yield", 80, 6, 300, {{"ncs", 20}}, 4, 1024),
      on("x5-2", "mutexbench", "ticket-spin", 76, 7, 15000),  // time slices
      on("t5", "randarray", "mcs", 24, 8, 1000),
      on("t5", "randarray", "mcscr", 160, 9, 2000),
      on("t5", "ringwalker", "mcscr-spin", 32, 10, 200),
      on("t7-2", "mutexbench", "twa", 40, 11, 500),
      on("numa-q", "reflex", "ttas-spin", 8, 12, 3000),
      on("numa-q", "reflex", "mcscr", 8, 13, 3000, {}, 3),
      on("numa-q", "quads", "ttas-spin", 4, 14, 5000),
      on("e7-4890", "mcsg-loop", "mcs-spin", 112, 15, 500),
      on("epyc-7003", "mutexbench", "ticket-yield", 24, 16, 300, {}, 0, 300),
      on("xeon-8260-8", "mutexbench", "twa-spin", 64, 17, 300),  // covers hops and a busy directory
      changed(on("x5-2", "mutexbench", "mcs-spin", 36, 18, 200), {{"coherence.ownership_ahead", "\"yes\""}}, "0..35"),
      changed(on("x5-2", "mutexbench", "twa-spin", 6, 19, 300), {{"coherence.load_then_store", "\"one trip\""}},
              "compact"),
      changed(on("x5-2", "mutexbench", "mcs", 8, 20, 2000), {}, "", 12000),
      on("t5", "stress-latency", "mcs-spin", 160, 21, 1100000),  // the time-sharing class, with an update
      on("x5-2", "mutexbench", "steady", 6, 22, 1000),           // remote threads leave the queue
  };
}

void print(unsigned number, const named_point& n, const std::string& folder) {
  machine m = read_machine(folder + "/" + n.machine + ".toml", n.changes);
  if (n.jitter >= 0) m.jitter = unsigned(n.jitter);
  const result r = run_point(m, n.p);
  std::printf("%u %s %s %s %u:", number, n.machine, n.p.workload.c_str(), n.p.lock.c_str(), n.p.threads);
  for (const std::uint64_t operations : r.operations) std::printf(" %llu", static_cast<unsigned long long>(operations));
  for (const auto& [what, value] : std::vector<std::pair<const char*, std::uint64_t>>{{"events", r.events},
                                                                                      {"looks", r.polls},
                                                                                      {"admissions", r.admissions},
                                                                                      {"bypasses", r.bypasses},
                                                                                      {"free", r.found_free},
                                                                                      {"sockets", r.between_sockets},
                                                                                      {"median", r.holds.median},
                                                                                      {"longest", r.holds.longest},
                                                                                      {"voluntary", r.voluntary},
                                                                                      {"involuntary", r.involuntary},
                                                                                      {"migrations", r.migrations},
                                                                                      {"loads", r.loads},
                                                                                      {"misses", r.misses},
                                                                                      {"own", r.own_displaced},
                                                                                      {"others", r.others_displaced},
                                                                                      {"tlb", r.tlb_misses},
                                                                                      {"settled", r.settled ? 1 : 0}})
    std::printf(" %s=%llu", what, static_cast<unsigned long long>(value));
  std::printf("\n");
}

}  // namespace
}  // namespace usher::sim

int main(int argc, char** argv) try {
  using namespace usher::sim;
  if (argc < 2) return 2;
  const auto all = points();
  unsigned printed = 0;
  for (unsigned i = 0; i < all.size(); i++) {
    if (argc > 2 && std::strtoul(argv[2], nullptr, 10) != i) continue;
    if (find_simulated_lock(all[i].p.lock) == nullptr) continue;  // built without this lock
    print(i, all[i], argv[1]);
    printed++;
  }
  return printed == 0 ? 77 : 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "determinism: %s\n", e.what());
  return 1;
}
