#include "lab/bench/native/native_point.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "lab/bench/native/native_world.hpp"
#include "lab/bench/native/topology.hpp"
#include "lab/bench/programs/all.hpp"
#include "library/catalog/suggestion.hpp"
#include "support/measure/host.hpp"
#include "usher/catalog.hpp"

namespace usher::bench {
namespace {

using clock = std::chrono::steady_clock;
using program = workloads::compiled_program<world>;

const program& known_program(const std::string& name) {
  return workloads::known_program<world>(name);
}

const lock_table& known_lock(const std::string& name) {
  if (const lock_table* t = find_lock(name)) return *t;
  throw std::runtime_error("unknown lock '" + name + "'" + did_you_mean(nearest_lock(name)));
}

/// Returns the name of the lock that is measured. The lock "pthread" calls pthread_mutex_lock(), which a preloaded
/// libusher.so may replace: then the name is that of USHER_LOCK.
std::string as_bound(const lock_table& lock) {
  const char* const named = std::getenv("USHER_LOCK");
  void* const bound = dlsym(RTLD_DEFAULT, "pthread_mutex_lock");
  Dl_info where{};
  if (!lock.traits->native_only || named == nullptr || find_lock(named) == nullptr || bound == nullptr ||
      dladdr(bound, &where) == 0 || !std::filesystem::path(where.dli_fname).filename().string().starts_with("libusher"))
    return lock.name;
  return std::string(lock.name) + ":" + named;
}

void pin(const cpu& to) {
  constexpr unsigned most = 4096;
  cpu_set_t* const set = CPU_ALLOC(most);
  const std::size_t size = CPU_ALLOC_SIZE(most);
  CPU_ZERO_S(size, set);
  CPU_SET_S(to.id, size, set);
  const int error = pthread_setaffinity_np(pthread_self(), size, set);
  CPU_FREE(set);
  if (error != 0) throw std::system_error(error, std::generic_category(), "cannot pin a thread");
}

/// The program's threads. Keeps the first exception that one of them throws.
class team {
 public:
  team(world& w, const program& what, const point& p, const std::vector<cpu>& cpus)
      : world_(w), body_(what.make(w)), ready_(p.threads + 1), members_(p.threads) {
    try {
      for (unsigned i = 0; i < p.threads; i++)
        threads_.emplace_back([this, i, seed = p.seed, at = cpus.empty() ? nullptr : &cpus[i]] { work(i, seed, at); });
    } catch (...) {  // no more threads can be created: the existing ones end
      note(std::current_exception());
      ready_.count_down(static_cast<std::ptrdiff_t>(p.threads + 1 - threads_.size()));
      join();
    }
  }
  team(const team&) = delete;
  team& operator=(const team&) = delete;

  ~team() {
    if (!threads_.empty()) world_.end();
    wait();
  }

  /// Starts the measurement: returns when all threads run, or throws the first exception of a thread.
  void start() {
    ready_.arrive_and_wait();
    const std::scoped_lock guard(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }
  /// Waits for the end of all threads and throws the first exception of one.
  void join() {
    wait();
    if (failure_) std::rethrow_exception(failure_);
  }
  std::vector<std::uint64_t> counts() const {
    std::vector<std::uint64_t> all;
    all.reserve(members_.size());
    for (const auto& m : members_) all.push_back(m->counted());
    return all;
  }
  const std::vector<std::unique_ptr<world::thread>>& members() const { return members_; }

 private:
  void wait() {
    for (std::thread& t : threads_) t.join();
    threads_.clear();
  }
  void work(unsigned index, std::uint64_t seed, const cpu* at) {
    try {
      if (at != nullptr) pin(*at);
      // The thread itself allocates the object, so that the memory is on the NUMA node of the thread's CPU.
      members_[index] = std::make_unique<world::thread>(world_, index, seed);
    } catch (...) {
      note(std::current_exception());
    }
    ready_.arrive_and_wait();
    if (members_[index] == nullptr) return;
    try {
      body_(*members_[index]);
    } catch (...) {
      note(std::current_exception());
    }
  }
  void note(std::exception_ptr e) {
    const std::scoped_lock guard(mutex_);
    if (!failure_) failure_ = std::move(e);
    world_.end();
  }

  world& world_;
  const std::function<void(world::thread&)> body_;
  std::latch ready_;
  std::vector<std::unique_ptr<world::thread>> members_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

/// CPU times and resource usage at one moment.
struct reading {
  support::cpu_times machine = support::cpu_times::now();
  rusage own = usage();

  static rusage usage() {
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    return u;
  }
};

void sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

void note_groups(result& r, world& w, const program& program, const team& t) {
  const auto add = [&](const char* name, const auto& of) {
    support::group g;
    g.name = name;
    histogram waits;
    std::uint64_t operations = 0;
    for (unsigned i = 0; i < w.threads(); i++) {
      if (!of(i)) continue;
      g.threads++;
      operations += r.operations[i];
      waits.add(t.members()[i]->waits());
      g.waiting_at_end += t.members()[i]->waited_at_end() ? 1 : 0;
    }
    g.throughput = static_cast<double>(operations) / (r.seconds * 1e6);
    g.waits = waits.summary();
    r.groups.push_back(std::move(g));
  };
  add("", [](unsigned) { return true; });
  if (program.is_one_of_some == nullptr) return;
  add(program.about.some, [&](unsigned i) { return program.is_one_of_some(w, i); });
  add(program.about.others, [&](unsigned i) { return !program.is_one_of_some(w, i); });
}

}  // namespace

std::span<const workloads::description> programs() {
  return workloads::descriptions<world>();
}

void check_point(const point& p) {
  const workloads::description& about = known_program(p.workload).about;
  const lock_table& lock = known_lock(p.lock);
  workloads::check_parameters(about, p.parameters);
  workloads::check_guests(p.parameters, p.threads, lock.name, lock.lock_as_guest != nullptr);
  workloads::check_exclusion(about, lock.name, *lock.traits);
}

result run_point(const point& p) {
  check_point(p);
  const program& program = known_program(p.workload);
  const lock_table& lock = known_lock(p.lock);
  const auto cpus = p.pinned ? places(usable_cpus(), program.about.where, p.threads) : std::vector<cpu>{};
  const double seconds = static_cast<double>(p.run_ns) * 1e-9;
  world w(p.threads, lock, workloads::with_defaults(program.about, p.parameters), program.about.metered);
  team t(w, program, p, cpus);

  // The throughput is computed from counts that are read at both ends of the interval, while the threads run. So it
  // excludes the start of the threads and their end, when a queue is emptied.
  t.start();
  sleep(std::min(0.1, seconds / 10));
  const reading before;
  const std::vector<std::uint64_t> first = t.counts();
  const clock::time_point start = clock::now();
  w.measure();
  sleep(seconds);
  std::vector<std::uint64_t> counted = t.counts();
  const clock::time_point end = clock::now();
  const reading after;
  w.end();
  t.join();

  result r;
  r.lock = as_bound(lock);
  r.seconds = std::chrono::duration<double>(end - start).count();
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < counted.size(); i++) sum += counted[i] -= first[i];
  r.operations = std::move(counted);
  r.throughput = static_cast<double>(sum) / (r.seconds * 1e6);
  for (const cpu& c : cpus) r.sockets.push_back(c.socket);

  std::uint64_t shared_steps = 0;
  histogram holds;
  for (const auto& m : t.members()) {
    shared_steps += m->shared_steps();
    holds.add(m->holds());
  }
  if (shared_steps != 0) r.exclusive = w.is_generator_at(shared_steps);
  r.metered = program.about.metered;
  r.holds = holds.summary();
  r.utilisation = static_cast<double>(holds.sum()) / (r.seconds * 1e9);
  note_groups(r, w, program, t);

  r.voluntary = static_cast<std::uint64_t>(after.own.ru_nvcsw - before.own.ru_nvcsw);
  r.involuntary = static_cast<std::uint64_t>(after.own.ru_nivcsw - before.own.ru_nivcsw);
  const double busy = support::cpu_seconds(after.own) - support::cpu_seconds(before.own);
  r.cpus_used = busy / r.seconds;
  r.others = support::others_share(before.machine, after.machine, busy);
  r.cpu_seconds = support::cpu_seconds(reading::usage());
  return r;
}

}  // namespace usher::bench
