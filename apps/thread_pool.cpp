// A server's pool of workers: idle ones wait on a condition variable or a semaphore, a dispatcher submits jobs at a given
// rate. Whom a submission wakes decides whether all workers take turns, or only as many as the rate needs run.
#include <sys/prctl.h>

#include <deque>
#include <latch>
#include <random>

#include "tally.hpp"

namespace {

using namespace workloads;  // NOLINT(google-build-using-namespace): a program of one file

struct job {
  clock_type::time_point submitted;
  float waited, took;  // µs, until it was begun and until it was done
};

struct worker_pool {
  alignas(line_pair) pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  alignas(line_pair) pthread_cond_t work = PTHREAD_COND_INITIALIZER;
  alignas(line_pair) sem_t submitted{};
  alignas(line_pair) std::deque<job*> queue;
  admissions order{std::size_t{1} << 22};
  bool with_semaphore = false, stop = false;

  void lock() { check(pthread_mutex_lock(&mutex), "pthread_mutex_lock"); }
  void unlock() { check(pthread_mutex_unlock(&mutex), "pthread_mutex_unlock"); }

  void submit(job& j) {
    j.submitted = clock_type::now();
    lock();
    queue.push_back(&j);
    if (!with_semaphore) check(pthread_cond_signal(&work), "pthread_cond_signal");
    unlock();
    if (with_semaphore) post(submitted);
  }

  /// Null when there will be no more.
  job* next(long worker) {
    if (with_semaphore) wait_for(submitted);
    lock();
    while (queue.empty() && !stop) {
      if (with_semaphore) fail("the semaphore admitted more workers than there are jobs");
      check(pthread_cond_wait(&work, &mutex), "pthread_cond_wait");
    }
    job* mine = nullptr;
    if (!queue.empty()) {
      mine = queue.front();
      queue.pop_front();
      order.add(worker);
    }
    unlock();
    return mine;
  }

  void finish(long workers) {
    lock();
    stop = true;
    check(pthread_cond_broadcast(&work), "pthread_cond_broadcast");
    unlock();
    if (with_semaphore)
      for (long i = 0; i < workers; ++i) post(submitted);
  }
};

/// Microseconds since the job was submitted.
float age(const job& j) {
  return std::chrono::duration<float, std::micro>(clock_type::now() - j.submitted).count();
}

nlohmann::json percentiles(std::vector<float> values) {
  std::sort(values.begin(), values.end());
  return {{"p50", part(values, 0.5)},
          {"p90", part(values, 0.9)},
          {"p99", part(values, 0.99)},
          {"p99.9", part(values, 0.999)},
          {"max", part(values, 1)}};
}

}  // namespace

int main(int argc, char** argv) {
  long workers = 32, work = 5000, burst = 1;
  double seconds = 2, rate = 5000;
  bool with_semaphore = false;
  std::string file;
  options o("thread_pool", "idle workers wait for jobs that come at a given rate");
  o.number("workers", workers, 1, 4096, "workers (32)");
  o.real("rate", rate, 1, 1000000, "jobs a second (5000)");
  o.number("burst", burst, 1, 100000, "jobs that come at once (1)");
  o.number("work", work, 0, 1000000000, "steps of a mt19937 in a job (5000)");
  o.real("seconds", seconds, 0.01, 600, "for how long jobs come (2)");
  o.flag("semaphore", with_semaphore, "wait on a semaphore; the mutex only guards the queue");
  o.text("json", file, "write what was measured here, not to standard output");
  o.parse(argc, argv);

  static worker_pool pool;
  pool.with_semaphore = with_semaphore;
  if (sem_init(&pool.submitted, 0, 0) != 0) fail("sem_init failed");
  std::vector<job> jobs(static_cast<std::size_t>(seconds * rate) + 1);
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(workers));
  std::latch ready(workers + 1);
  std::vector<std::thread> team;
  for (long i = 0; i < workers; ++i) {
    team.emplace_back([&, i] {
      std::mt19937 generator(static_cast<std::uint32_t>(i) + 1);
      std::uint64_t done = 0;
      ready.arrive_and_wait();
      while (job* mine = pool.next(i)) {
        mine->waited = age(*mine);
        std::uint32_t sum = 0;
        for (long step = 0; step < work; ++step) sum += static_cast<std::uint32_t>(generator());
        asm volatile("" : : "r"(sum));
        mine->took = age(*mine);
        ++done;
      }
      counts[static_cast<std::size_t>(i)] = done;
    });
  }
  ready.arrive_and_wait();
  prctl(PR_SET_TIMERSLACK, 1);  // else each sleep is up to 50 µs longer
  sleep_seconds(0.02);          // until all are idle
  const switches all_before = switches::of(RUSAGE_SELF), own_before = switches::of(RUSAGE_THREAD);
  rusage usage_before{}, usage_after{};
  getrusage(RUSAGE_SELF, &usage_before);
  const clock_type::time_point start = clock_type::now();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (i % static_cast<std::size_t>(burst) == 0)
      std::this_thread::sleep_until(start + std::chrono::duration_cast<clock_type::duration>(
                                                std::chrono::duration<double>(static_cast<double>(i) / rate)));
    pool.submit(jobs[i]);
  }
  const double elapsed = seconds_since(start);
  // The switches of those who wait until the end do not belong to any job; at the end there is one of each.
  const switches switched = (switches::of(RUSAGE_SELF) - all_before) - (switches::of(RUSAGE_THREAD) - own_before);
  getrusage(RUSAGE_SELF, &usage_after);
  pool.finish(workers);
  for (std::thread& t : team) t.join();

  const auto number = static_cast<double>(jobs.size());
  std::vector<float> waited, took;
  for (const job& j : jobs) {
    waited.push_back(j.waited);
    took.push_back(j.took);
  }
  if (*std::min_element(took.begin(), took.end()) <= 0 && work > 0) fail("a job was never done");
  nlohmann::json out = document(argc, argv);
  out["workers"] = workers;
  out["rate"] = rate;
  out["burst"] = burst;
  out["work"] = work;
  out["semaphore"] = with_semaphore;
  out["jobs"] = jobs.size();
  out["seconds"] = elapsed;
  out["jobs_per_second"] = number / elapsed;
  out["cpu_share"] = (cpu_seconds(usage_after) - cpu_seconds(usage_before)) / elapsed;
  out["distinct_workers_in_100"] = pool.order.distinct(100);
  out["distinct_workers_in_1000"] = pool.order.distinct(1000);
  out["workers_used"] = counts.size() - static_cast<std::size_t>(std::count(counts.begin(), counts.end(), 0U));
  out["share"] = shares(counts);
  out["counts"] = counts;
  out["voluntary_switches"] = switched.voluntary;
  out["involuntary_switches"] = switched.involuntary;
  out["switches_per_job"] = static_cast<double>(switched.voluntary + switched.involuntary) / number;
  out["waited_us"] = percentiles(waited);
  out["took_us"] = percentiles(took);
  write(out, file);
  return 0;
}
