#include "lab/sim/harness.hpp"

#include <time.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <numeric>
#include <set>
#include <string_view>
#include <system_error>

#include "lab/bench/programs/all.hpp"
#include "lab/sim/run_program.hpp"
#include "lab/sim/world.hpp"
#include "library/catalog/names.hpp"
#include "library/catalog/suggestion.hpp"
#include "support/measure/metrics.hpp"

namespace usher::sim {
namespace {

using workloads::description;
using workloads::placement;

using program = workloads::compiled_program<world>;

const program& known_program(const std::string& name) {
  return workloads::known_program<world>(name);
}

const simulated_lock& known_lock(const std::string& name) {
  if (const simulated_lock* l = find_simulated_lock(name)) return *l;
  nearest_name nearest(name);
  for (const simulated_lock* l : simulated_locks()) nearest.consider(l->name);
  throw std::runtime_error("unknown lock '" + name + "', or one that is not simulated" + did_you_mean(nearest.best()) +
                           " (usher list shows most)");
}

/// The time from one pthread_create() to the next. 50,000 calls took 0.9 s on a Xeon E5-2670 (Lawrence Livermore, "Why
/// Pthreads?", hpc-tutorials.llnl.gov/posix/why_pthreads) and 0.7 to 2 s on other computers of that table. On a virtual
/// machine of 2026, 72 calls in a row took a median of 19 to 37 µs each.
constexpr std::uint64_t creation_ns = 18000;
/// The warm-up lasts at least this long for each thread: the time of two acquisitions of a microsecond each. Chosen,
/// not measured.
constexpr std::uint64_t turns_ns = 2000;
constexpr unsigned most_placed = 10000;
constexpr std::pair<const char*, placement> placements[]{
    {"compact", placement::compact}, {"scattered", placement::scattered}, {"even", placement::even}};
constexpr const char* random_placement = "random";

unsigned cpu_of(const machine& m, placement where, unsigned thread, unsigned threads) {
  const unsigned n = thread % m.cpus();
  const unsigned used = m.used_cores != 0 ? m.used_cores : m.cores;
  if (where == placement::even) {
    // Consecutive threads fill a socket; each socket gets the same number of threads.
    const unsigned a_socket = (threads + m.sockets - 1) / m.sockets, k = thread % a_socket;
    return ((thread / a_socket % m.sockets) * m.cores + k % m.cores) * m.hardware_threads +
           k / m.cores % m.hardware_threads;
  }
  if (where == placement::scattered) {
    const unsigned hardware_thread = n / m.all_cores(), k = n % m.all_cores();
    return ((k % m.sockets) * m.cores + k / m.sockets) * m.hardware_threads + hardware_thread;
  }
  // Compact: threads first fill the first `used` cores of each socket, the first hardware thread of each core, then the
  // second, and so on. Then they fill the other cores in the same way.
  const unsigned first = m.sockets * used * m.hardware_threads;
  const unsigned part = n < first ? used : m.cores - used, skip = n < first ? 0 : used, k = n < first ? n : n - first;
  const unsigned hardware_thread = k / (m.sockets * part), core = k % (m.sockets * part);
  return (core / part * m.cores + skip + core % part) * m.hardware_threads + hardware_thread;
}

/// Returns all CPUs of the machine in an order that the seed determines. The generator is separate from that of the
/// run, so that a run with the resulting CPUs given as a list is the same run.
std::vector<unsigned> shuffled_cpus(const machine& m, std::uint64_t seed) {
  std::vector<unsigned> cpus(m.cpus());
  std::iota(cpus.begin(), cpus.end(), 0u);
  random chance(~seed);
  for (std::size_t left = cpus.size(); left > 1; left--)
    std::swap(cpus[left - 1], cpus[chance.below(std::uint32_t(left))]);
  return cpus;
}

/// Returns the CPU on which the thread begins. `otherwise` is the program's placement.
unsigned cpu_of(const machine& m, const placing& asked, placement otherwise, unsigned thread, unsigned threads) {
  if (!asked.cpus.empty()) return asked.cpus[thread % asked.cpus.size()];
  return cpu_of(m, asked.where.value_or(otherwise), thread, threads);
}

/// Returns the number of different CPUs on which the point's threads begin.
unsigned cpus_of(const machine& m, const point& p) {
  const std::vector<unsigned> cpus = read_placement(p.placement).cpus;
  if (cpus.empty()) return std::min(p.threads, m.cpus());
  return unsigned(
      std::set<unsigned>(cpus.begin(), cpus.begin() + std::min<std::ptrdiff_t>(p.threads, std::ssize(cpus))).size());
}

/// Returns the times at which the point's threads begin. One thread creates them all, one after another.
std::vector<std::uint64_t> arrivals_ns(const point& p) {
  std::vector<std::uint64_t> all(p.threads);
  if (p.together) return all;
  random chance(p.seed);
  std::uint64_t begin_ns = 0;
  for (std::uint64_t& ns : all) {
    ns = begin_ns;
    begin_ns += creation_ns / 2 + chance.below(creation_ns);
  }
  return all;
}

/// Throws if the run is too long: the time of an event has 40 bits. The limit leaves room for events after the end of
/// the run.
void check_time(const machine& m, const point& p) {
  constexpr double most = 0xf000000000;
  const std::uint64_t warm_up_ns = p.warm_up_ns.value_or(usual_warm_up_ns(p));
  if ((static_cast<double>(p.run_ns) + static_cast<double>(warm_up_ns)) * m.mhz / 1000 <= most) return;
  throw std::runtime_error(std::to_string(p.run_ns / 1000000) + " ms after " + std::to_string(warm_up_ns / 1000000) +
                           " ms of warm-up are more than 2^40 cycles of " + m.file_or_name() + ": reduce them");
}

void check_placement(const machine& m, const point& p) {
  const std::vector<unsigned> cpus = read_placement(p.placement).cpus;
  const auto wrong = [&](const std::string& what) {
    throw std::runtime_error("placement " + p.placement + ": " + what);
  };
  for (const unsigned cpu : cpus)
    if (cpu >= m.cpus())
      wrong(m.file_or_name() + " has no CPU " + std::to_string(cpu) + ": they are 0 to " +
            std::to_string(m.cpus() - 1));
  if (m.os || cpus.empty()) return;
  const std::string alone = ", and without a section [scheduler] in " + m.file_or_name() + " threads do not share CPUs";
  if (cpus.size() < p.threads)
    wrong(std::to_string(cpus.size()) + " CPUs for " + std::to_string(p.threads) + " threads" + alone);
  std::vector<bool> taken(m.cpus());
  for (unsigned i = 0; i < p.threads; i++) {
    if (taken[cpus[i]]) wrong("CPU " + std::to_string(cpus[i]) + " is listed twice" + alone);
    taken[cpus[i]] = true;
  }
}

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/// The program of a thread of another process: it needs a CPU for a quarter of the time.
void disturb(world& w) {
  simulation& s = w.sim();
  const cycles burst = s.on().from_ns(2000000);
  s.nap(s.chance().below(std::uint32_t(4 * burst)) + 1);
  while (s.now() < w.end()) {
    s.compute(burst);
    s.nap(s.chance().exponential(3 * burst) + 1);
  }
}

/// The counts from the beginning of the run to a certain time.
struct totals {
  simulation::counts s;
  caches::counts c;
  cycles cpu_time = 0;
};

totals totals_at(const world& w, cycles now) {
  const simulation& s = w.sim();
  return {s.counted(), s.cache_counts(), s.cpu_time(now)};
}

/// Sets how long parking waiters poll before they sleep: the point's limit, else that of the machine file, else the
/// native one.
void set_spin_limit(world& w, const machine& m, const point& p) {
  if (p.spin_ns)
    w.shared_runtime().limits.spin = std::uint32_t(*p.spin_ns);
  else if (m.spin != 0)
    w.shared_runtime().limits.spin = std::uint32_t(m.to_ns(m.spin));
}

void tell_kinds(world& w, const program& program, unsigned threads) {
  if (program.is_one_of_some == nullptr) return;
  std::vector<bool> kinds(threads);
  for (unsigned t = 0; t < threads; t++) kinds[t] = program.is_one_of_some(w, t);
  w.watched().kinds(std::move(kinds));
}

/// Adds the point's threads and those of other processes. Returns the sockets of the point's threads.
std::vector<unsigned> add_threads(world& w, const machine& m, const point& p, const program& program,
                                  const std::function<void(world::thread&)>& body) {
  simulation& s = w.sim();
  placing placed = read_placement(p.placement);
  if (placed.random) placed.cpus = shuffled_cpus(m, p.seed);
  const std::vector<std::uint64_t> arrivals = arrivals_ns(p);
  std::vector<unsigned> sockets;
  for (unsigned i = 0; i < p.threads; i++) {
    const unsigned cpu = cpu_of(m, placed, program.about.where, i, p.threads);
    sockets.push_back(cpu / m.hardware_threads / m.cores);
    s.add_thread(
        cpu,
        [&w, &body, i] {
          world::thread t(w, i);
          body(t);
        },
        false, m.from_ns(arrivals[i]));
  }
  for (unsigned i = 0; i < p.others; i++) s.add_thread((i * 7 + 3) % m.cpus(), [&w] { disturb(w); }, true);
  return sockets;
}

void note_throughput(result& r, world& w, const machine& m, const point& p, const program& program) {
  r.operations = w.operations();
  std::uint64_t sum = 0;
  for (const std::uint64_t n : r.operations) sum += n;
  r.throughput = static_cast<double>(sum) / (static_cast<double>(p.run_ns) / 1000);
  const double half_us = static_cast<double>(p.run_ns) / 2000;
  r.first_half = static_cast<double>(w.counted().first_half()) / half_us;
  r.second_half = static_cast<double>(w.counted().second_half()) / half_us;
  // In a program with one lock, a thread without an operation may still wait for its first turn on a CPU; then the run
  // has not settled. This is possible only in a run shorter than the usual one. In a longer run each thread has had its
  // CPU, so a thread without an operation is starved by the lock, and that is a result.
  const bool one_waits = program.about.one_lock && p.threads > cpus_of(m, p) && p.run_ns < usual_run_ns(m, p) &&
                         std::find(r.operations.begin(), r.operations.end(), 0u) != r.operations.end();
  r.settled = w.counted().settled() && arrivals_ns(p).back() <= r.warm_up_ns && !one_waits;
}

/// Stores in the result how much each count has grown in the measured time.
void note_totals(result& r, const world& w, const totals& first, const totals& last) {
  const auto time = static_cast<double>(w.end() - w.begin());
  r.voluntary = last.s.voluntary - first.s.voluntary;
  r.involuntary = last.s.involuntary - first.s.involuntary;
  r.migrations = last.s.migrations - first.s.migrations;
  r.cpus_used = static_cast<double>(last.cpu_time - first.cpu_time) / time;
  r.cpus_without_pipeline = static_cast<double>(last.s.without_pipeline - first.s.without_pipeline) / time;
  r.writes = last.s.writes - first.s.writes;
  r.loads = last.c.loads - first.c.loads;
  r.private_hits = last.c.private_hits - first.c.private_hits;
  r.misses = last.c.misses - first.c.misses;
  r.own_displaced = last.c.own_displaced - first.c.own_displaced;
  r.others_displaced = last.c.others_displaced - first.c.others_displaced;
  r.tlb_misses = last.c.tlb_misses - first.c.tlb_misses;
  r.events = w.sim().counted().events;
  r.polls = w.sim().counted().polls;
}

void note_locks(result& r, world& w, const program& program) {
  const meter& m = w.watched();
  r.admissions = m.history().size();
  r.working_set = support::working_set(m.history());
  r.reacquire = support::median_reacquire(m.history());
  r.between_sockets = m.between_sockets();
  r.bypasses = m.bypasses();
  r.found_free = m.found_free();
  r.leaders_too_late = m.leaders_too_late();
  r.utilisation = m.utilisation();
  r.holds = m.holds();
  r.unlocks = m.unlocks();
  r.hand_overs = m.hand_overs();

  const auto add = [&](const char* name, std::uint64_t bypasses, const std::function<bool(unsigned)>& of) {
    group g;
    g.name = name;
    g.bypasses = bypasses;
    std::uint64_t operations = 0;
    for (unsigned t = 0; t < w.threads(); t++)
      if (of(t)) {
        g.threads++;
        operations += r.operations[t];
      }
    if (g.threads == 0) return;
    g.throughput =
        static_cast<double>(operations) * 1000 / static_cast<double>(w.sim().on().to_ns(w.end() - w.begin()));
    g.waits = m.waits(of);
    g.waiting_at_end = m.waiting_at_end(of);
    r.groups.push_back(std::move(g));
  };
  add("", m.bypasses(), [](unsigned) { return true; });
  if (program.is_one_of_some == nullptr) return;
  add(program.about.some, m.bypasses_among(true), [&](unsigned t) { return program.is_one_of_some(w, t); });
  add(program.about.others, m.bypasses_among(false), [&](unsigned t) { return !program.is_one_of_some(w, t); });
}

}  // namespace

placing read_placement(const std::string& text) {
  placing read;
  if (text.empty()) return read;
  nearest_name nearest(text);
  for (const auto& [name, where] : placements) {
    nearest.consider(name);
    if (text == name) read.where = where;
  }
  nearest.consider(random_placement);
  read.random = text == random_placement;
  if (read.where || read.random) return read;
  const auto number = [&](std::string_view digits) {
    unsigned n = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (error == std::errc{} && end == digits.data() + digits.size()) return n;
    const bool is_word = text.find_first_of("0123456789") == std::string::npos;
    throw std::runtime_error("placement '" + text + "'" + (is_word ? did_you_mean(nearest.best()) : "") +
                             " (write compact, scattered, even, random, or CPUs as 0,18,1..3)");
  };
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = std::min(text.find(',', from), text.size());
    const std::string_view part = std::string_view(text).substr(from, to - from);
    const std::size_t dots = part.find("..");
    const unsigned first = number(part.substr(0, dots));
    const unsigned last = dots == std::string_view::npos ? first : number(part.substr(dots + 2));
    if (last < first) throw std::runtime_error("placement '" + text + "': " + std::string(part) + " goes backwards");
    if (last - first >= most_placed) throw std::runtime_error("placement '" + text + "': too many CPUs");
    for (unsigned i = 0; i <= last - first; i++) read.cpus.push_back(first + i);
    if (read.cpus.size() > most_placed)
      throw std::runtime_error("placement '" + text.substr(0, 40) + "…': too many CPUs");
    from = to + 1;
  }
  return read;
}

std::span<const description> programs() {
  return workloads::descriptions<world>();
}

void check_point(const machine& m, const point& p) {
  check_point(m, p, known_program(p.workload).about);
}

void check_point(const machine& m, const point& p, const description& about) {
  const simulated_lock& lock = known_lock(p.lock);
  workloads::check_parameters(about, p.parameters);
  workloads::check_guests(p.parameters, p.threads, p.lock.c_str(), lock.lock_as_guest != nullptr);
  if (about.arrays) caches::check(m);
  workloads::check_exclusion(about, lock.name, *lock.traits);
  check_placement(m, p);
  check_time(m, p);
  if (m.os) return;
  if (lock.parks())
    throw std::runtime_error(m.file_or_name() + " has no section [scheduler], and waiters of " + p.lock +
                             " sleep: take " + lock.family + "-spin");
  if (p.threads > m.cpus())
    throw std::runtime_error(m.file_or_name() + " has no section [scheduler]: no more threads than CPUs, " +
                             std::to_string(m.cpus()) + ", and not " + std::to_string(p.threads));
  if (p.others != 0)
    throw std::runtime_error(m.file_or_name() + " has no section [scheduler]: no room for other processes");
}

std::uint64_t usual_run_ns(const machine& m, const point& p) {
  constexpr std::uint64_t ms = 1000000;
  const unsigned cpus = cpus_of(m, p);
  if (p.threads <= cpus || !m.os) return 2 * ms;
  if (m.os->time_sharing) {
    // The same computation as below, with the assumption that a slice is a tenth of the time between two updates of the
    // priorities: two threads that share a CPU use up about ten quanta while they sink from the highest priority to the
    // lowest. The minimum of five updates ensures one update in the warm-up.
    const std::uint64_t updates = std::max<std::uint64_t>(5, (25 * p.threads + 10 * cpus - 1) / (10 * cpus));
    return updates * m.to_ns(m.os->update_ticks * m.os->clock_tick);
  }
  // The run lasts for 25 slices of each thread. In a shorter run, the threads that get the CPUs first might never
  // compete with the threads that wait for CPUs. The warm-up, a fifth of the run, has several slices of each thread.
  const std::uint64_t slices = (25 * p.threads + cpus - 1) / cpus;
  return std::max(2 * ms, slices * m.to_ns(m.os->slice));
}

std::uint64_t usual_warm_up_ns(const point& p) {
  const std::uint64_t usual = std::max(p.run_ns / 5, p.threads * ((p.together ? 0 : creation_ns) + turns_ns));
  if (p.threads == 0) return usual;
  const std::uint64_t last = arrivals_ns(p).back();
  return last <= usual ? usual : last + p.threads * turns_ns;
}

result run_point(const machine& m, const point& p, trace* by) {
  return run_program(m, p, known_program(p.workload), by);
}

result run_program(const machine& asked, const point& p, const program& program, trace* by) {
  check_point(asked, p, program.about);
  machine m = asked;
  if (p.pinned && m.os) m.os->migrate = false;

  const double cpu_before = cpu_seconds();
  result r;
  r.warm_up_ns = p.warm_up_ns.value_or(usual_warm_up_ns(p));
  world w(m, p.seed, p.threads, p.others, known_lock(p.lock), workloads::with_defaults(program.about, p.parameters),
          {r.warm_up_ns, p.run_ns}, p.watch && program.about.one_lock);
  set_spin_limit(w, m, p);
  simulation& s = w.sim();
  if (by != nullptr) by->follow(s.shared(), m, w.begin());
  s.set_trace(by);
  const auto body = program.make(w);
  tell_kinds(w, program, p.threads);
  r.sockets = add_threads(w, m, p, program, body);
  totals first, last;
  s.at(w.begin(), [&] {
    first = totals_at(w, w.begin());
    if (by != nullptr) by->begins_with(s.what_threads_do());
  });
  s.at(w.end(), [&] { last = totals_at(w, w.end()); });
  s.run();
  if (by != nullptr) by->over();

  note_throughput(r, w, m, p, program);
  if (p.watch && program.about.one_lock) note_locks(r, w, program);
  note_totals(r, w, first, last);
  r.cpu_seconds = cpu_seconds() - cpu_before;
  return r;
}

}  // namespace usher::sim
