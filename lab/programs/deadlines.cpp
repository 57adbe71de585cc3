// Measures context switches and CPU time of threads that wait for a mutex with a deadline. In the first case the mutex
// is held all the time, and every waiter times out. In the second case the mutex is held until the waiters sleep; then
// other threads, the users, repeatedly lock the mutex, and some or all waiters acquire it.
#include "traffic.hpp"

namespace {

using namespace workloads;  // NOLINT(google-build-using-namespace): a program of one file

struct settings {
  long waiters = 500, users = 0;
  double seconds = 3, hold = 10, pause = 10;
  std::string by = "auto", pause_by = "auto", file;

  settings(int argc, char** argv) {
    options o("deadlines", "what waiting for a mutex with a deadline costs");
    o.number("waiters", waiters, 1, 100000, "threads in pthread_mutex_timedlock() (500)");
    o.real("seconds", seconds, 0.001, 3600, "their deadline (3)");
    o.number("users", users, 0, 4096, "threads that use the mutex; 0: it is held all the time (0)");
    o.real("hold-us", hold, 0, 10000000, "µs for which they hold it (10)");
    o.text("hold", by, "spin, sleep: how they pass that time; auto: spin below 1 ms (auto)");
    o.real("pause-us", pause, 0, 10000000, "µs between two uses (10)");
    o.text("pause", pause_by, "the same of that time (auto)");
    o.text("json", file, "write what was measured here, not to standard output");
    o.parse(argc, argv);
  }
};

struct alignas(line_pair) record {
  switches switched;
  double late = 0;    // µs from the deadline to the return with ETIMEDOUT
  double waited = 0;  // µs
  bool got = false;
};

timespec real_time_in(double seconds) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const auto nanoseconds = static_cast<std::int64_t>(seconds * 1e9) + now.tv_nsec;
  return {now.tv_sec + nanoseconds / 1000000000, nanoseconds % 1000000000};
}

double microseconds_after(const timespec& deadline) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec - deadline.tv_sec) * 1e6 +
         static_cast<double>(now.tv_nsec - deadline.tv_nsec) * 1e-3;
}

void wait_once(checked_mutex& mutex, double seconds, record& mine) {
  const timespec deadline = real_time_in(seconds);
  const switches before = switches::of(RUSAGE_THREAD);
  const clock_type::time_point start = clock_type::now();
  const int error = pthread_mutex_timedlock(&mutex.handle, &deadline);
  mine.late = microseconds_after(deadline);
  mine.waited = seconds_since(start) * 1e6;
  mine.switched = switches::of(RUSAGE_THREAD) - before;
  mine.got = error == 0;
  if (mine.got)
    mutex.unlock();
  else if (error != ETIMEDOUT)
    check(error, "pthread_mutex_timedlock");
}

struct results {
  std::vector<record> records;
  switches process;
  double elapsed = 0, cpu_seconds = 0;
  std::uint64_t used = 0;  // the users' operations
};

/// Holds the mutex while the waiters call pthread_mutex_timedlock(), and returns when each of these calls has returned.
void measure(checked_mutex& mutex, traffic& users, const settings& set, std::latch& begun, std::atomic<long>& through,
             results& out) {
  // The waiters have been created before, so the counts contain only their waits, and for each waiter one context
  // switch at the start of its wait.
  const switches before = switches::of(RUSAGE_SELF);
  const double cpu_before = process_cpu_seconds();
  const std::uint64_t used_before = users.operations();
  const clock_type::time_point start = clock_type::now();
  begun.count_down();
  if (set.users > 0) {
    // By this time the waiters should wait, and the users may start.
    sleep_seconds(set.seconds / 20);
    users.flow();
    sleep_seconds(0.002);  // the users have joined the queue
    mutex.unlock();
  }
  for (long seen = 0; (seen = through.load()) < set.waiters;) through.wait(seen);
  out.elapsed = seconds_since(start);
  out.process = switches::of(RUSAGE_SELF) - before;
  out.cpu_seconds = process_cpu_seconds() - cpu_before;
  out.used = users.operations() - used_before;
}

void report(document& out, const settings& set, const results& measured) {
  samples late, waited;
  long got = 0;
  switches theirs;
  for (const record& r : measured.records) {
    got += r.got ? 1 : 0;
    (r.got ? waited : late).add(r.got ? r.waited : r.late);
    theirs.voluntary += r.switched.voluntary;
    theirs.involuntary += r.switched.involuntary;
  }
  if (set.users == 0 && got > 0) fail("a thread got a mutex that was held");
  out["waiters"] = set.waiters;
  out["users"] = set.users;
  out["deadline_s"] = set.seconds;
  out["seconds"] = measured.elapsed;
  out["got"] = got;
  out["voluntary_switches"] = theirs.voluntary;  // the waiters' switches in the call
  out["involuntary_switches"] = theirs.involuntary;
  out["switches_per_waiter"] =
      static_cast<double>(theirs.voluntary + theirs.involuntary) / static_cast<double>(set.waiters);
  out["process_switches"] = measured.process.voluntary + measured.process.involuntary;
  out["cpu_seconds"] = measured.cpu_seconds;
  out["operations_per_second"] = static_cast<double>(measured.used) / measured.elapsed;
  late.write_all(out["late_us"]);
  waited.write_all(out["waited_us"]);
}

}  // namespace

int main(int argc, char** argv) {
  const settings set(argc, argv);
  static checked_mutex mutex;
  traffic users(mutex, set.users, {set.hold, is_asleep(set.by, set.hold)},
                {set.pause, is_asleep(set.pause_by, set.pause)});
  results measured;
  measured.records.resize(static_cast<std::size_t>(set.waiters));
  std::latch begun(1);
  std::atomic<long> through{0};
  starting_team team(set.waiters);
  for (record& mine : measured.records) {
    team.add([&](std::latch& ready) {
      ready.arrive_and_wait();
      begun.wait();
      wait_once(mutex, set.seconds, mine);
      through.fetch_add(1);
      through.notify_one();
    });
  }
  mutex.lock();
  team.start();
  measure(mutex, users, set, begun, through, measured);
  users.stop();
  if (set.users == 0) mutex.unlock();
  team.join();

  document out(argc, argv);
  report(out, set, measured);
  out.write(set.file);
  return 0;
}
