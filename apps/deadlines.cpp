// What threads do that wait for a mutex with a deadline: how often they are switched, and what CPU time that takes. Either
// the mutex is held all the time and all of them time out, or it is held until they wait, and then others use it all the
// time, and some or all of them get it.
#include <latch>

#include "traffic.hpp"

namespace {

using namespace workloads;  // NOLINT(google-build-using-namespace): a program of one file

struct alignas(line_pair) record {
  switches switched;
  double late = 0;    // µs after the deadline at which it returned with ETIMEDOUT
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

void wait_once(pthread_mutex_t& mutex, double seconds, record& mine) {
  const timespec deadline = real_time_in(seconds);
  const switches before = switches::of(RUSAGE_THREAD);
  const clock_type::time_point start = clock_type::now();
  const int error = pthread_mutex_timedlock(&mutex, &deadline);
  mine.late = microseconds_after(deadline);
  mine.waited = seconds_since(start) * 1e6;
  mine.switched = switches::of(RUSAGE_THREAD) - before;
  mine.got = error == 0;
  if (mine.got)
    check(pthread_mutex_unlock(&mutex), "pthread_mutex_unlock");
  else if (error != ETIMEDOUT)
    check(error, "pthread_mutex_timedlock");
}

double cpu_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return cpu_seconds(usage);
}

}  // namespace

int main(int argc, char** argv) {
  long waiters = 500, users = 0;
  double seconds = 3, hold = 10, pause = 10;
  std::string by = "auto", pause_by = "auto", file;
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

  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  traffic users_of(mutex, users, {hold, is_asleep(by, hold)}, {pause, is_asleep(pause_by, pause)});
  std::vector<record> records(static_cast<std::size_t>(waiters));
  std::latch ready(waiters + 1), begun(1);
  std::atomic<long> through{0};
  std::vector<std::thread> team;
  for (record& mine : records) {
    team.emplace_back([&] {
      ready.arrive_and_wait();
      begun.wait();
      wait_once(mutex, seconds, mine);
      through.fetch_add(1);
      through.notify_one();
    });
  }
  check(pthread_mutex_lock(&mutex), "pthread_mutex_lock");
  ready.arrive_and_wait();
  // Creating them is over: what is counted is the waiting, and one switch each that begins it.
  const switches before = switches::of(RUSAGE_SELF);
  const double cpu_before = cpu_time();
  const std::uint64_t used_before = users_of.operations();
  const clock_type::time_point start = clock_type::now();
  begun.count_down();
  if (users > 0) {
    // The waiters wait already when the traffic begins.
    sleep_seconds(seconds / 20);
    users_of.flow();
    sleep_seconds(0.002);
    check(pthread_mutex_unlock(&mutex), "pthread_mutex_unlock");
  }
  for (long seen = 0; (seen = through.load()) < waiters;) through.wait(seen);
  const double elapsed = seconds_since(start);
  const switches all = switches::of(RUSAGE_SELF) - before;
  const double cpu = cpu_time() - cpu_before;
  const std::uint64_t used = users_of.operations() - used_before;
  users_of.stop();
  if (users == 0) check(pthread_mutex_unlock(&mutex), "pthread_mutex_unlock");
  for (std::thread& t : team) t.join();

  samples late, waited;
  long got = 0;
  switches theirs;
  for (const record& r : records) {
    got += r.got ? 1 : 0;
    (r.got ? waited : late).values.push_back(r.got ? r.waited : r.late);
    theirs.voluntary += r.switched.voluntary;
    theirs.involuntary += r.switched.involuntary;
  }
  if (users == 0 && got > 0) fail("a thread got a mutex that was held");
  nlohmann::json out = document(argc, argv);
  out["waiters"] = waiters;
  out["users"] = users;
  out["deadline_s"] = seconds;
  out["seconds"] = elapsed;
  out["got"] = got;
  out["voluntary_switches"] = theirs.voluntary;  // of the waiters, in the call
  out["involuntary_switches"] = theirs.involuntary;
  out["switches_per_waiter"] =
      static_cast<double>(theirs.voluntary + theirs.involuntary) / static_cast<double>(waiters);
  out["process_switches"] = all.voluntary + all.involuntary;
  out["cpu_seconds"] = cpu;
  out["operations_per_second"] = static_cast<double>(used) / elapsed;
  out["late_us"] = late.tell();
  out["waited_us"] = waited.tell();
  write(out, file);
  return 0;
}
