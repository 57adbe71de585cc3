// MutexBench, as in the TWA papers (EXT §4.2): threads loop over a critical section that advances a shared
// std::mt19937 4 steps and a non-critical section that advances a generator of the thread's own by a number
// of steps uniform in [0, 200). What is counted is iterations of all threads.
//
// Each point runs in a process of its own under a time limit: FIFO locks whose waiters spin may need minutes
// to get through a queue when there are more threads than CPUs, and such a run is reported, not waited for.
// Rounds are interleaved (A B C A B C), so that a noisy quarter of an hour hits every lock alike.
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <latch>
#include <memory>
#include <random>
#include <thread>

#include "machine.hpp"
#include "options.hpp"
#include "usher/catalog.hpp"

namespace {

using clock_type = std::chrono::steady_clock;
using nlohmann::json;
using workloads::fail;

constexpr long most_threads = 1024;
constexpr std::size_t line_pair = 128;  // the adjacent line is fetched with a line

struct settings {
  double seconds = 2, limit = 0;
  long cs = 4, ncs = 200;
};

/// What a child tells its parent, in memory that both see.
struct report {
  bool complete;   // the threads ended
  bool exclusive;  // and the lock had let one thread in at a time
  double seconds;
  long voluntary, involuntary;
  std::uint64_t counts[most_threads];
};

// ---- one point, in the child
// ---------------------------------------------------------------------------------------

/// A lock of the catalogue on its own cache lines.
class table_lock {
 public:
  explicit table_lock(const usher::lock_table& table) : table_(table) {
    const std::size_t align = std::max(table.align, line_pair);
    const std::size_t size = (std::max(table.size, std::size_t{1}) + align - 1) / align * align;
    state_ = std::aligned_alloc(align, size);
    if (state_ == nullptr) fail("out of memory");
    std::memset(state_, 0, size);
  }
  table_lock(const table_lock&) = delete;
  table_lock& operator=(const table_lock&) = delete;
  ~table_lock() { std::free(state_); }
  void lock() { table_.lock(state_); }
  void unlock() { table_.unlock(state_); }

 private:
  const usher::lock_table& table_;
  void* state_;
};

/// Whatever pthread_mutex_lock is bound to: the C library, or a preloaded libusher.so.
class pthread_lock {
 public:
  void lock() { pthread_mutex_lock(&mutex_); }
  void unlock() { pthread_mutex_unlock(&mutex_); }

 private:
  alignas(line_pair) pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

struct alignas(line_pair) padded_count {
  std::atomic<std::uint64_t> value{0};
};

struct alignas(line_pair) padded_generator {
  std::mt19937 value;
};

/// Keeps the steps of a generator from being optimised away.
void use(std::uint32_t value) {
  asm volatile("" : : "r"(value));
}

void steps(std::mt19937& generator, long number) {
  std::uint32_t sum = 0;
  for (long i = 0; i < number; ++i) sum += static_cast<std::uint32_t>(generator());
  use(sum);
}

template <class Lock>
void run_point(Lock& lock, long threads, const settings& how, report& out) {
  padded_generator shared;
  std::vector<padded_count> counts(static_cast<std::size_t>(threads));
  padded_count stop;
  std::latch ready(threads + 1);
  std::vector<std::thread> team;
  for (long i = 0; i < threads; ++i) {
    team.emplace_back([&, i] {
      padded_generator own{std::mt19937(static_cast<std::uint32_t>(i) + 1)};
      std::uniform_int_distribution<long> length(0, std::max(how.ncs, 1L) - 1);
      std::atomic<std::uint64_t>& count = counts[static_cast<std::size_t>(i)].value;
      ready.arrive_and_wait();
      while (stop.value.load(std::memory_order_relaxed) == 0) {
        lock.lock();
        steps(shared.value, how.cs);
        lock.unlock();
        count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        if (how.ncs > 0) steps(own.value, length(own.value));
      }
    });
  }

  // Counts are taken at both ends of the interval, while the threads run: neither the start nor the draining
  // of the queue at the end belongs to the throughput.
  std::vector<std::uint64_t> first(counts.size());
  rusage before{}, after{};
  ready.arrive_and_wait();
  std::this_thread::sleep_for(std::chrono::duration<double>(std::min(0.1, how.seconds / 10)));
  for (std::size_t i = 0; i < counts.size(); ++i) first[i] = counts[i].value.load(std::memory_order_relaxed);
  getrusage(RUSAGE_SELF, &before);
  const clock_type::time_point start = clock_type::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(how.seconds));
  for (std::size_t i = 0; i < counts.size(); ++i)
    out.counts[i] = counts[i].value.load(std::memory_order_relaxed) - first[i];
  out.seconds = std::chrono::duration<double>(clock_type::now() - start).count();
  getrusage(RUSAGE_SELF, &after);
  out.voluntary = after.ru_nvcsw - before.ru_nvcsw;
  out.involuntary = after.ru_nivcsw - before.ru_nivcsw;
  stop.value.store(1, std::memory_order_relaxed);
  for (std::thread& t : team) t.join();

  // The shared generator is its own witness: after n exclusive critical sections it stands at n times cs
  // steps.
  std::uint64_t total = 0;
  for (const padded_count& c : counts) total += c.value.load(std::memory_order_relaxed);
  std::mt19937 replay;
  replay.discard(total * static_cast<std::uint64_t>(how.cs));
  out.exclusive = replay == shared.value;
  out.complete = true;
}

// ---- points and their statistics, in the parent
// ----------------------------------------------------------------------

/// One thing to measure: a lock of the catalogue, or pthread_mutex_lock when `table` is null.
struct candidate {
  std::string name;
  const usher::lock_table* table;
};

struct round_result {
  bool finished = false, exclusive = false;
  double throughput = 0, smallest_share = 0, gini = 0, voluntary = 0, involuntary = 0, others = 0;
  json details;
};

/// 0: all threads got the same; towards 1: one thread got everything.
double gini(std::vector<std::uint64_t> counts) {
  std::sort(counts.begin(), counts.end());
  double weighted = 0, total = 0;
  const auto n = static_cast<double>(counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    weighted += (2 * static_cast<double>(i + 1) - n - 1) * static_cast<double>(counts[i]);
    total += static_cast<double>(counts[i]);
  }
  return total > 0 ? weighted / (n * total) : 0;
}

/// Waits for the child; kills it at the limit. True when it ended by itself.
bool wait_within(pid_t child, double limit, rusage& usage, int& status) {
  // Not pidfd_open(): the header of glibc 2.36 declares it without C linkage.
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  pollfd watched{handle, POLLIN, 0};
  const bool ended = handle >= 0 && poll(&watched, 1, static_cast<int>(limit * 1000)) == 1;
  if (!ended) kill(child, SIGKILL);
  if (handle >= 0) close(handle);
  wait4(child, &status, 0, &usage);
  return ended;
}

round_result run_round(const candidate& what, long threads, const settings& how, report& shared) {
  shared = report{};
  std::fflush(stdout);
  const workloads::cpu_times before = workloads::cpu_times::now();
  const pid_t parent = getpid(), child = fork();
  if (child < 0) fail("cannot fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a killed benchmark leaves no spinning child
    if (getppid() != parent) _exit(1);
    if (what.table != nullptr) {
      table_lock lock(*what.table);
      run_point(lock, threads, how, shared);
    } else {
      pthread_lock lock;
      run_point(lock, threads, how, shared);
    }
    _exit(0);
  }
  rusage usage{};
  int status = 0;
  round_result r;
  const bool ended = wait_within(child, how.limit, usage, status);
  if (ended && WIFSIGNALED(status))
    std::fprintf(stderr, "mutexbench: %s at %ld threads died of signal %d\n", what.name.c_str(), threads,
                 WTERMSIG(status));
  r.others = workloads::others_share(before, workloads::cpu_times::now(), workloads::cpu_seconds(usage));
  r.finished = ended && shared.complete;
  r.details = {{"finished", r.finished}, {"others_cpu_share", r.others}};
  if (!r.finished) return r;

  r.exclusive = shared.exclusive || (what.table != nullptr && !what.table->traits->excludes);
  const std::vector<std::uint64_t> counts(shared.counts, shared.counts + threads);
  double total = 0;
  for (const std::uint64_t c : counts) total += static_cast<double>(c);
  r.throughput = total / shared.seconds;
  const double least = static_cast<double>(*std::min_element(counts.begin(), counts.end()));
  r.smallest_share = total > 0 ? least * static_cast<double>(threads) / total : 0;
  r.gini = gini(counts);
  r.voluntary = total > 0 ? static_cast<double>(shared.voluntary) / total : 0;
  r.involuntary = total > 0 ? static_cast<double>(shared.involuntary) / total : 0;
  r.details["seconds"] = shared.seconds;
  r.details["exclusive"] = r.exclusive;
  r.details["counts"] = counts;
  r.details["voluntary_switches"] = shared.voluntary;
  r.details["involuntary_switches"] = shared.involuntary;
  return r;
}

struct spread {
  double median = 0, least = 0, most = 0;
};

spread over(const std::vector<round_result>& rounds, double round_result::*field) {
  std::vector<double> values;
  for (const round_result& r : rounds)
    if (r.finished) values.push_back(r.*field);
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, values.front(), values.back()};
}

void print_row(const candidate& what, const std::vector<round_result>& rounds) {
  std::size_t finished = 0;
  bool exclusive = true;
  for (const round_result& r : rounds) {
    finished += r.finished;
    exclusive = exclusive && (!r.finished || r.exclusive);
  }
  std::printf("%-18s", what.name.c_str());
  if (finished > 0) {
    const spread rate = over(rounds, &round_result::throughput);
    const spread share = over(rounds, &round_result::smallest_share);
    std::printf("%10.1f %9.1f –%8.1f %9.2f %8.2f %11.5f %11.5f %7.3f", rate.median / 1e3, rate.least / 1e3,
                rate.most / 1e3, share.median, share.least, over(rounds, &round_result::voluntary).median,
                over(rounds, &round_result::involuntary).median, over(rounds, &round_result::gini).median);
  }
  if (finished < rounds.size()) std::printf("  did not finish: %zu of %zu", rounds.size() - finished, rounds.size());
  if (!exclusive) std::printf("  WRONG: not mutually exclusive");
  std::printf("\n");
}

std::vector<candidate> chosen(const std::vector<std::string>& names, bool with_pthread) {
  std::vector<candidate> all;
  if (with_pthread) {
    const char* preloaded = std::getenv("USHER_LOCK");
    all.push_back({preloaded ? std::string("pthread_mutex:") + preloaded : std::string("pthread_mutex"), nullptr});
  }
  for (const std::string& name : names) {
    if (name == "all") {
      for (const usher::lock_table* t : usher::catalog())
        if (t->plain() && t->traits->excludes) all.push_back({t->name, t});
    } else if (const usher::lock_table* t = usher::find_lock(name)) {
      all.push_back({t->name, t});
    } else {
      fail("unknown lock '" + name + "'; the nearest name is '" + std::string(usher::nearest_lock(name)) + "'", 2);
    }
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  settings how;
  std::vector<std::string> locks;
  std::vector<long> thread_counts = {1, 2, 4, 8};
  long rounds = 3;
  bool with_pthread = false;
  std::string json_file;
  workloads::options o("mutexbench", "the TWA papers' MutexBench over the locks of the catalogue");
  o.list("locks", locks, "names, or 'all' for the plain names (all, unless --pthread is given)");
  o.numbers("threads", thread_counts, 1, most_threads, "thread counts (1,2,4,8)");
  o.real("seconds", how.seconds, 0.01, 3600, "measured time of a run (2)");
  o.number("rounds", rounds, 1, 1000, "interleaved rounds (3)");
  o.number("cs", how.cs, 0, 1000000, "steps of the shared generator in the critical section (4)");
  o.number("ncs", how.ncs, 0, 1000000, "the non-critical section is uniform in [0, this) steps (200)");
  o.real("limit", how.limit, 0.1, 36000, "seconds after which a run is killed (3 x seconds + 10)");
  o.flag("pthread", with_pthread, "also pthread_mutex_lock, as it is bound: try it under libusher.so");
  o.text("json", json_file, "write everything that was measured here");
  o.parse(argc, argv);
  if (how.limit <= 0) how.limit = 3 * how.seconds + 10;
  if (locks.empty() && !with_pthread) locks = {"all"};
  const std::vector<candidate> candidates = chosen(locks, with_pthread);

  void* page = mmap(nullptr, sizeof(report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) fail("cannot map memory");
  report& shared = *static_cast<report*>(page);

  std::string command = "mutexbench";
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  json document = {{"benchmark", "mutexbench"},
                   {"command", command},
                   {"date", workloads::utc_now()},
                   {"machine", workloads::machine()},
                   {"compiler", workloads::compiler()},
                   {"commit", workloads_commit},
                   {"seconds", how.seconds},
                   {"rounds", rounds},
                   {"cs", how.cs},
                   {"ncs", how.ncs},
                   {"points", json::array()}};
  const workloads::cpu_times start = workloads::cpu_times::now();
  bool all_well = true;
  for (const long threads : thread_counts) {
    std::vector<std::vector<round_result>> results(candidates.size());
    for (long round = 0; round < rounds; ++round)
      for (std::size_t i = 0; i < candidates.size(); ++i)
        results[i].push_back(run_round(candidates[i], threads, how, shared));
    std::printf("\n%ld thread%s, %g s, %ld round%s; thousand acquisitions a second\n", threads, threads == 1 ? "" : "s",
                how.seconds, rounds, rounds == 1 ? "" : "s");
    std::printf("%-18s%10s %9s –%8s %9s %8s %11s %11s %7s\n", "lock", "median", "min", "max", "smallest", "(worst)",
                "voluntary", "involunt.", "Gini");
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      print_row(candidates[i], results[i]);
      const spread rate = over(results[i], &round_result::throughput);
      json point = {{"lock", candidates[i].name},
                    {"threads", threads},
                    {"median", rate.median},
                    {"min", rate.least},
                    {"max", rate.most},
                    {"smallest_share", over(results[i], &round_result::smallest_share).median},
                    {"gini", over(results[i], &round_result::gini).median},
                    {"voluntary_per_acquisition", over(results[i], &round_result::voluntary).median},
                    {"involuntary_per_acquisition", over(results[i], &round_result::involuntary).median},
                    {"rounds", json::array()}};
      for (const round_result& r : results[i]) {
        point["rounds"].push_back(r.details);
        all_well = all_well && r.finished && r.exclusive;
      }
      document["points"].push_back(std::move(point));
    }
    std::fflush(stdout);
  }
  rusage ours{}, self{};
  getrusage(RUSAGE_CHILDREN, &ours);
  getrusage(RUSAGE_SELF, &self);
  const double others = workloads::others_share(start, workloads::cpu_times::now(),
                                                workloads::cpu_seconds(ours) + workloads::cpu_seconds(self));
  document["others_cpu_share"] = others;
  std::printf(
      "\nsmallest: the smallest thread's part relative to the fair part; switches are per acquisition.\n"
      "%s, %ld CPUs, %s, commit %s; others took %.1f %% of the CPU time.\n",
      workloads::colon_value("/proc/cpuinfo", "model name").c_str(), sysconf(_SC_NPROCESSORS_ONLN),
      workloads::compiler().c_str(), workloads_commit, 100 * others);
  if (!json_file.empty()) {
    std::ofstream out(json_file);
    out << document.dump(1) << '\n';
    if (!out.flush()) fail("cannot write " + json_file);
  }
  return all_well ? 0 : 1;
}
