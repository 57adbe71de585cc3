#include "known_work.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <latch>
#include <thread>

#include "../options.hpp"

namespace causes {

settings plan;
std::atomic<bool> stop{false};
thread_local long self = 0;
thread_local workloads::random_source dice(1);

namespace {
constexpr long most_threads = 256;
struct alignas(128) tally {
  std::atomic<std::uint64_t> done{0};
};
tally tallies[most_threads];
long started = 0;

timespec timespec_of(double us) {
  const auto ns = static_cast<long>(std::max(us, 1.0) * 1e3);
  return {ns / 1000000000, ns % 1000000000};
}

std::int64_t cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * 1000000000 + t.tv_nsec;
}

void steps(std::uint64_t n) {
  std::uint64_t x = n;
  for (; n != 0; --n) {
    x *= 0x9e3779b97f4a7c15U;
    asm volatile("" : "+r"(x));
  }
}
}  // namespace

bool removed(const char* cause) {
  return plan.without == cause;
}

void count() {
  std::atomic<std::uint64_t>& mine = tallies[self].done;
  mine.store(mine.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

std::uint64_t operations() {
  std::uint64_t n = 0;
  for (const tally& t : tallies) n += t.done.load(std::memory_order_relaxed);
  return n;
}

double about(double us) {
  return us * (0.5 + static_cast<double>(dice.below(1024)) / 1024);
}

double measured_step_ns() {
  constexpr std::uint64_t batch = 100000;
  double least = 1e9;
  for (int i = 0; i < 50; ++i) {
    const std::int64_t from = cpu_ns();
    steps(batch);
    least = std::min(least, static_cast<double>(cpu_ns() - from) / batch);
  }
  return least;
}

void burn(double us) {
  steps(static_cast<std::uint64_t>(us * 1e3 / plan.step_ns) + 1);
}

void nap(double us) {
  const timespec length = timespec_of(us);
  nanosleep(&length, nullptr);
}

void await_device(double us) {
  thread_local const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  const itimerspec once{{0, 0}, timespec_of(us)};
  std::uint64_t times = 0;
  if (timerfd_settime(timer, 0, &once, nullptr) != 0 || read(timer, &times, sizeof times) != sizeof times)
    workloads::fail("timerfd");
}

void sync_file(double us) {
  thread_local const int file = [] {
    std::string name = plan.folder + "/causes-XXXXXX";
    const int made = mkostemp(name.data(), O_CLOEXEC);
    if (made < 0) workloads::fail("cannot write to " + plan.folder);
    unlink(name.c_str());
    return made;
  }();
  static const char block[512] = {1};
  burn(us);
  if (pwrite(file, block, sizeof block, 0) != sizeof block || fdatasync(file) != 0) workloads::fail("fdatasync");
}

void between(way what, double us) {
  const double length = about(us);
  switch (what) {
    case way::none:
      break;
    case way::cpu:
      burn(length);
      break;
    case way::sleep:
      nap(length);
      break;
    case way::io:
      await_device(length);
      break;
    case way::file:
      sync_file(length);
      break;
    case way::yield:
      burn(length);
      sched_yield();
      break;
  }
}

way way_of(const std::string& text) {
  static constexpr const char* names[] = {"none", "cpu", "sleep", "io", "file", "yield"};
  for (int i = 0; i < 6; ++i)
    if (text == names[i]) return static_cast<way>(i);
  workloads::fail("'" + text + "' is no kind of work: none, cpu, sleep, io, file, yield", 2);
}

void start(long threads, std::function<void()> body) {
  if (started + threads > most_threads) workloads::fail("too many threads", 2);
  std::latch ready(threads + 1);
  for (long i = 0; i < threads; ++i) {
    std::thread([i, first = started, body, &ready] {
      self = first + i;
      dice = workloads::random_source(static_cast<unsigned long>(self) + 1);
      prctl(PR_SET_TIMERSLACK, 1);
      ready.arrive_and_wait();
      body();
    }).detach();
  }
  ready.arrive_and_wait();
  started += threads;
}

}  // namespace causes
