// Measures the simulator's speed: runs points (a program, a lock, a number of threads) one after another, and prints
// the cost of each. tools/bench_sim.py makes a table of the output; the test cost.simulator counts instructions.
//
//     sim_speed MACHINES                                            all groups
//     sim_speed MACHINES GROUP                                      one of them
//     sim_speed MACHINES MACHINE WORKLOAD LOCK THREADS MICROSECONDS   one point
//
// One line per point: group, lock, threads, seed, seconds of CPU time, events, loads by spinning threads.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "lab/sim/harness.hpp"
#include "lab/sim/simulated_lock.hpp"

namespace usher::sim {
namespace {

struct group_of_points {
  const char *name, *machine, *workload;
  std::vector<const char*> locks;
  std::vector<unsigned> threads;
  unsigned seeds;
  std::uint64_t us;
};

const std::vector<group_of_points> groups{
    {"figure-3",
     "x5-2",
     "mutexbench",
     {"ticket-spin", "twa-spin", "mcs-spin", "ttas-spin"},
     {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 36, 48, 60, 72},
     5,
     2000},
    {"sixteen-sockets", "e7-4890", "mcsg-loop", {"mcs-spin", "mcsg-spin", "ttas-spin", "ticket-spin"}, {224}, 1, 8000},
    {"randarray",
     "t5",
     "randarray",
     {"mcs-spin", "mcs", "mcscr-spin", "mcscr", "null"},
     {1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256},
     1,
     20000},
};

void run(const char* group, const machine& m, const char* workload, const char* lock, unsigned threads,
         std::uint64_t seed, std::uint64_t us) {
  point p;
  p.workload = workload;
  p.lock = lock;
  p.threads = threads;
  p.seed = seed;
  p.run_ns = us * 1000;
  const result r = run_point(m, p);
  std::printf("%s %s %u %llu %.6f %llu %llu\n", group, lock, threads, static_cast<unsigned long long>(seed),
              r.cpu_seconds, static_cast<unsigned long long>(r.events), static_cast<unsigned long long>(r.polls));
  std::fflush(stdout);
}

machine known_machine(const std::string& folder, const char* name) {
  return read_machine(folder + "/" + name + ".toml");
}

bool run_groups(const std::string& folder, const char* one) {
  bool found = false;
  for (const group_of_points& g : groups) {
    if (one != nullptr && std::string(one) != g.name) continue;
    found = true;
    const machine m = known_machine(folder, g.machine);
    for (const char* lock : g.locks) {
      if (find_simulated_lock(lock) == nullptr) continue;  // built with other locks
      for (const unsigned threads : g.threads)
        for (unsigned seed = 1; seed <= g.seeds; seed++) run(g.name, m, g.workload, lock, threads, seed, g.us);
    }
  }
  return found;
}

}  // namespace
}  // namespace usher::sim

int main(int argc, char** argv) try {
  using namespace usher::sim;
  if (argc == 7) {
    run("point", known_machine(argv[1], argv[2]), argv[3], argv[4], unsigned(std::strtoul(argv[5], nullptr, 10)), 1,
        std::strtoull(argv[6], nullptr, 10));
    return 0;
  }
  if ((argc == 2 || argc == 3) && run_groups(argv[1], argc == 3 ? argv[2] : nullptr)) return 0;
  std::fprintf(stderr, "usage: sim_speed MACHINES [GROUP | MACHINE WORKLOAD LOCK THREADS MICROSECONDS]\n");
  return 2;
} catch (const std::exception& e) {
  std::fprintf(stderr, "sim_speed: %s\n", e.what());
  return 1;
}
