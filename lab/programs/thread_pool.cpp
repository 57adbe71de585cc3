// A server's pool of workers: idle workers wait on a condition variable or a semaphore, and a dispatcher submits jobs
// at a given rate. The order of wake-ups decides whether all workers take turns or only as many run as the rate needs.
#include <sys/prctl.h>

#include <deque>
#include <random>

#include "tally.hpp"

namespace {

using namespace workloads;  // NOLINT(google-build-using-namespace): a program of one file

struct settings {
  long workers = 32, work = 5000, burst = 1;
  double seconds = 2, rate = 5000;
  bool with_semaphore = false;
  std::string file;

  settings(int argc, char** argv) {
    options o("thread_pool", "idle workers wait for jobs that come at a given rate");
    o.number("workers", workers, 1, 4096, "workers (32)");
    o.real("rate", rate, 1, 1000000, "jobs a second (5000)");
    o.number("burst", burst, 1, 100000, "jobs that come at once (1)");
    o.number("work", work, 0, 1000000000, "steps of a mt19937 in a job (5000)");
    o.real("seconds", seconds, 0.01, 600, "for how long jobs come (2)");
    o.flag("semaphore", with_semaphore, "wait on a semaphore; the mutex only guards the queue");
    o.text("json", file, "write what was measured here, not to standard output");
    o.parse(argc, argv);
  }
};

struct job {
  clock_type::time_point submitted;
  float waited, took;  // µs until the job was begun, and until it was done
};

struct worker_pool {
  alignas(line_pair) checked_mutex mutex;
  alignas(line_pair) checked_condition work;
  alignas(line_pair) sem_t submitted{};
  alignas(line_pair) std::deque<job*> queue;
  admissions order{std::size_t{1} << 22};
  bool with_semaphore = false, stop = false;

  void submit(job& j) {
    j.submitted = clock_type::now();
    mutex.lock();
    queue.push_back(&j);
    if (!with_semaphore) work.signal();
    mutex.unlock();
    if (with_semaphore) post(submitted);
  }

  /// Returns null when no more jobs will come.
  job* next(long worker) {
    if (with_semaphore) wait_for(submitted);
    mutex.lock();
    while (queue.empty() && !stop) {
      if (with_semaphore) fail("the semaphore admitted more workers than there are jobs");
      work.wait(mutex);
    }
    job* mine = nullptr;
    if (!queue.empty()) {
      mine = queue.front();
      queue.pop_front();
      order.add(worker);
    }
    mutex.unlock();
    return mine;
  }

  void finish(long workers) {
    mutex.lock();
    stop = true;
    work.broadcast();
    mutex.unlock();
    if (with_semaphore)
      for (long i = 0; i < workers; ++i) post(submitted);
  }
};

/// Microseconds since the job was submitted.
float age(const job& j) {
  return std::chrono::duration<float, std::micro>(clock_type::now() - j.submitted).count();
}

void write_percentiles(field to, std::vector<float> values) {
  std::sort(values.begin(), values.end());
  to["p50"] = part(values, 0.5);
  to["p90"] = part(values, 0.9);
  to["p99"] = part(values, 0.99);
  to["p99.9"] = part(values, 0.999);
  to["max"] = part(values, 1);
}

/// Runs one worker and returns the number of its jobs.
std::uint64_t work_through(worker_pool& pool, long worker, long steps, std::mt19937& generator) {
  std::uint64_t done = 0;
  while (job* mine = pool.next(worker)) {
    mine->waited = age(*mine);
    std::uint32_t sum = 0;
    for (long step = 0; step < steps; ++step) sum += static_cast<std::uint32_t>(generator());
    asm volatile("" : : "r"(sum));
    mine->took = age(*mine);
    ++done;
  }
  return done;
}

struct results {
  std::vector<job> jobs;
  std::vector<std::uint64_t> counts;  // jobs of each worker
  switches switched;
  double elapsed = 0, cpu_seconds = 0;
};

/// Submits all jobs, each at the time that the given rate requires.
void dispatch(worker_pool& pool, const settings& set, results& out) {
  prctl(PR_SET_TIMERSLACK, 1);  // otherwise each sleep is up to 50 µs longer
  sleep_seconds(0.02);          // in this time the workers fall asleep
  const switches all_before = switches::of(RUSAGE_SELF), own_before = switches::of(RUSAGE_THREAD);
  const double cpu_before = process_cpu_seconds();
  const clock_type::time_point start = clock_type::now();
  for (std::size_t i = 0; i < out.jobs.size(); ++i) {
    if (i % static_cast<std::size_t>(set.burst) == 0)  // until the time at which the next jobs arrive
      std::this_thread::sleep_until(start + std::chrono::duration_cast<clock_type::duration>(
                                                std::chrono::duration<double>(static_cast<double>(i) / set.rate)));
    pool.submit(out.jobs[i]);
  }
  out.elapsed = seconds_since(start);
  // Read before finish() wakes the idle workers: the context switches of those wake-ups belong to no job.
  out.switched = (switches::of(RUSAGE_SELF) - all_before) - (switches::of(RUSAGE_THREAD) - own_before);
  out.cpu_seconds = process_cpu_seconds() - cpu_before;
}

void report(document& out, const settings& set, const worker_pool& pool, const results& measured) {
  const auto number = static_cast<double>(measured.jobs.size());
  std::vector<float> waited, took;
  for (const job& j : measured.jobs) {
    waited.push_back(j.waited);
    took.push_back(j.took);
  }
  if (*std::min_element(took.begin(), took.end()) <= 0 && set.work > 0) fail("a job was never done");
  const std::vector<std::uint64_t>& counts = measured.counts;
  const switches& switched = measured.switched;
  out["workers"] = set.workers;
  out["rate"] = set.rate;
  out["burst"] = set.burst;
  out["work"] = set.work;
  out["semaphore"] = set.with_semaphore;
  out["jobs"] = measured.jobs.size();
  out["seconds"] = measured.elapsed;
  out["jobs_per_second"] = number / measured.elapsed;
  out["cpu_share"] = measured.cpu_seconds / measured.elapsed;
  out["distinct_workers_in_100"] = pool.order.distinct(100);
  out["distinct_workers_in_1000"] = pool.order.distinct(1000);
  out["workers_used"] = counts.size() - static_cast<std::size_t>(std::count(counts.begin(), counts.end(), 0U));
  write_shares(out["share"], counts);
  out["counts"] = counts;
  out["voluntary_switches"] = switched.voluntary;
  out["involuntary_switches"] = switched.involuntary;
  out["switches_per_job"] = static_cast<double>(switched.voluntary + switched.involuntary) / number;
  write_percentiles(out["waited_us"], waited);
  write_percentiles(out["took_us"], took);
}

}  // namespace

int main(int argc, char** argv) {
  const settings set(argc, argv);
  static worker_pool pool;
  pool.with_semaphore = set.with_semaphore;
  if (sem_init(&pool.submitted, 0, 0) != 0) fail("sem_init failed");
  results measured;
  measured.jobs.resize(static_cast<std::size_t>(set.seconds * set.rate) + 1);
  measured.counts.resize(static_cast<std::size_t>(set.workers));
  starting_team team(set.workers);
  for (long i = 0; i < set.workers; ++i) {
    team.add([&, i](std::latch& ready) {
      std::mt19937 generator(static_cast<std::uint32_t>(i) + 1);
      ready.arrive_and_wait();
      measured.counts[static_cast<std::size_t>(i)] = work_through(pool, i, set.work, generator);
    });
  }
  team.start();
  dispatch(pool, set, measured);
  pool.finish(set.workers);
  team.join();

  document out(argc, argv);
  report(out, set, pool, measured);
  out.write(set.file);
  return 0;
}
