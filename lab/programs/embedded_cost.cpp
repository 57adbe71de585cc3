// The cost of one uncontended lock and unlock: locks of Usher that are embedded in a program, compared with other
// libraries' locks, in interleaved rounds. A ratio is that of the fastest rounds, because noise on a shared machine
// only adds time.
#include <tbb/queuing_mutex.h>
#include <tbb/spin_mutex.h>

#include <chrono>
#include <limits>
#include <mutex>
#include <string_view>
#include <thread>

#include "catalog_includes.hpp"
#include "embedded_peers.h"
#include "options.hpp"
#include "report.hpp"
#include "support/measure/host.hpp"
#include "usher/mutex.hpp"

namespace {

using workloads::field;

/// Prevents the compiler from optimising across two iterations.
inline void barrier() {
  asm volatile("" : : : "memory");
}

template <class Mutex>
void pairs(long n) {
  alignas(128) static Mutex mutex;
  for (; n > 0; --n) {
    mutex.lock();
    barrier();
    mutex.unlock();
  }
}

template <class Mutex>
void scoped_pairs(long n) {
  alignas(128) static Mutex mutex;
  for (; n > 0; --n) {
    typename Mutex::scoped_lock hold(mutex);
    barrier();
  }
}

struct candidate {
  std::string name;
  void (*run)(long n);
  double best = std::numeric_limits<double>::infinity();  // ns for a pair
};

/// Adds a lock in its default way of waiting and, if the lock has it, in the spinning way, to be compared with other
/// libraries' spin locks.
template <template <class, class> class Lock>
void add(std::vector<candidate>& all, const std::string& name) {
  using usher::waiting_kind;
  all.push_back({name, &pairs<usher::mutex<Lock>>});
  if constexpr (usher::has(usher::mutex<Lock>::traits.kinds, waiting_kind::spin))
    all.push_back({name + "-spin", &pairs<usher::mutex<Lock, waiting_kind::spin>>});
}

/// For each lock of Usher, the most similar lock of another library. A lock is compared with that one, with nsync_mu
/// and with std::mutex.
constexpr std::pair<std::string_view, std::string_view> closest[] = {
    {"tas-spin", "ck_fas"},
    {"ttas-spin", "tbb::spin_mutex"},
    {"ticket-spin", "ck_ticket"},
    {"twa-spin", "ck_ticket"},
    {"mcs-spin", "tbb::queuing_mutex"},
    {"mcscr-spin", "tbb::queuing_mutex"},
    {"mcsg-spin", "ck_mcs"},
    {"tas", "ck_fas"},
    {"mcs", "tbb::queuing_mutex"},
};

double best_of(const std::vector<candidate>& all, std::string_view name) {
  for (const candidate& c : all)
    if (name == c.name) return c.best;
  return 0;
}

using group = std::vector<candidate>;

group peers_of_ours() {
  return {
      {"std::mutex", &pairs<std::mutex>},
      {"nsync_mu", &nsync_mu_pairs},
      {"tbb::spin_mutex", &scoped_pairs<tbb::spin_mutex>},
      {"tbb::queuing_mutex", &scoped_pairs<tbb::queuing_mutex>},
      {"ck_fas", &ck_fas_pairs},
      {"ck_ticket", &ck_ticket_pairs},
      {"ck_mcs", &ck_mcs_pairs},
  };
}

/// Measures all candidates. Returns the share of the CPU time that other processes used during the measurement.
double measure(group& ours, group& peers, long rounds, long iterations) {
  // The C library's mutex omits atomics in a process that never had a second thread.
  std::thread([] {}).join();
  const usher::support::cpu_times start = usher::support::cpu_times::now();
  using clock = std::chrono::steady_clock;
  for (long round = 0; round < rounds; ++round) {
    for (group* all : {&ours, &peers}) {
      for (candidate& c : *all) {
        c.run(iterations / 100 + 1);  // warm-up
        const clock::time_point before = clock::now();
        c.run(iterations);
        const double ns = std::chrono::duration<double, std::nano>(clock::now() - before).count();
        c.best = std::min(c.best, ns / static_cast<double>(iterations));
      }
    }
  }
  return usher::support::others_share(start, usher::support::cpu_times::now(), workloads::process_cpu_seconds());
}

/// Writes the table to standard output, and its rows to the document.
void report(const group& ours, const group& peers, field results) {
  const double nsync = best_of(peers, "nsync_mu"), standard = best_of(peers, "std::mutex");
  std::printf("%-20s %9s %11s %13s  %s\n", "lock", "ns a pair", "/ nsync_mu", "/ std::mutex", "/ closest peer");
  for (const group* all : {&ours, &peers}) {
    for (const candidate& c : *all) {
      std::printf("%-20s %9.2f %11.2f %13.2f", c.name.c_str(), c.best, c.best / nsync, c.best / standard);
      const field row = results.append();
      row["lock"] = c.name;
      row["ours"] = all == &ours;
      row["minimum_ns"] = c.best;
      row["to_nsync_mu"] = c.best / nsync;
      row["to_std_mutex"] = c.best / standard;
      for (const auto& [name, peer] : closest) {
        if (all != &ours || name != c.name) continue;
        const double ratio = c.best / best_of(peers, peer);
        std::printf("  %.2f × %s", ratio, std::string(peer).c_str());
        row["closest_peer"] = std::string(peer);
        row["to_closest_peer"] = ratio;
      }
      std::printf("\n");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  long rounds = 15, iterations = 500000;
  std::string json_file;
  workloads::options o("embedded_cost",
                       "nanoseconds of an uncontended lock and unlock in line, beside other libraries'");
  o.number("rounds", rounds, 1, 100000, "interleaved rounds (15)");
  o.number("iterations", iterations, 1, 1L << 40, "pairs in a round (500000)");
  o.text("json", json_file, "write everything that was measured here");
  o.parse(argc, argv);

  group ours;
#include "catalog_entries.inc"
  group peers = peers_of_ours();
  const double others = measure(ours, peers, rounds, iterations);
  workloads::document out(argc, argv, "measurement");
  report(ours, peers, out["results"]);
  std::printf(
      "\nminima of %ld interleaved rounds of %ld pairs. %s, %ld CPUs, %s, commit %s; others took %.1f %% of "
      "the CPU time.\n",
      rounds, iterations, usher::support::colon_value("/proc/cpuinfo", "model name").c_str(),
      sysconf(_SC_NPROCESSORS_ONLN), usher::support::compiler().c_str(), workloads_commit, 100 * others);
  out["rounds"] = rounds;
  out["iterations"] = iterations;
  out["others_cpu_share"] = others;
  if (!json_file.empty()) out.write(json_file);
  return 0;
}
