#include "lab/commands/call_cost.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "lab/recordings/stream_file.hpp"
#include "support/measure/statistics.hpp"

namespace usher::lab {
namespace {

using namespace std::chrono_literals;
using steady_clock = std::chrono::steady_clock;

double ns_since(steady_clock::time_point t) {
  return std::chrono::duration<double, std::nano>(steady_clock::now() - t).count();
}

/// A child process, with a pipe to its standard input and a pipe from its standard output.
class helper {
 public:
  helper(const char* const* words, const std::vector<std::pair<std::string, std::string>>& variables) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0) return;
    support::owned_descriptor in_read(in[0]), in_write(in[1]);
    if (pipe2(out, O_CLOEXEC) != 0) return;
    support::owned_descriptor out_read(out[0]), out_write(out[1]);
    std::vector<std::string> texts;
    for (char** e = environ; *e != nullptr; ++e) {
      const std::string_view text = *e;
      const auto is_set = [text](const auto& v) { return text.starts_with(v.first + "="); };
      if (std::none_of(variables.begin(), variables.end(), is_set)) texts.emplace_back(text);
    }
    for (const auto& [name, value] : variables) texts.push_back(name + "=" + value);
    std::vector<char*> environment;
    for (std::string& text : texts) environment.push_back(text.data());
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in_read.get(), 0);
    posix_spawn_file_actions_adddup2(&actions, out_write.get(), 1);
    if (posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, const_cast<char**>(words), environment.data()) != 0)
      pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
    to_ = std::move(in_write);
    from_ = std::move(out_read);
  }
  helper(const helper&) = delete;
  helper& operator=(const helper&) = delete;
  ~helper() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  bool started() const { return pid_ > 0; }
  /// Closes the process's input and returns its output.
  std::string finish() {
    to_ = support::owned_descriptor();
    pollfd p{from_.get(), POLLIN, 0};
    char text[64] = {};
    if (poll(&p, 1, 1000) != 1 || read(from_.get(), text, sizeof text - 1) <= 0) return "";
    return text;
  }

 private:
  pid_t pid_ = -1;
  support::owned_descriptor to_, from_;
};

}  // namespace

int run_calls() {
  std::atomic<bool> over = false;
  std::thread second([&over] {  // the C library's locks are cheaper in a process with one thread
    while (!over) std::this_thread::sleep_for(1ms);
  });
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  constexpr int pairs = 500;
  double least = 1e9;
  for (pollfd p{0, POLLIN, 0}; poll(&p, 1, 0) == 0;) {
    const auto begin = steady_clock::now();
    for (int i = 0; i < pairs; i++) {
      pthread_mutex_lock(&mutex);
      pthread_mutex_unlock(&mutex);
    }
    least = std::min(least, ns_since(begin) / (2 * pairs));
  }
  over = true;
  second.join();
  fmt::print("{:.3f}\n", least);
  return 0;
}

namespace {

/// The mean without the lowest and the highest tenth of the values. A median would have the resolution of the clock, 10
/// ns on some machines; the highest tenth contains interruptions, which are no costs.
double middle_mean(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const std::size_t cut = v.size() / 10;
  double sum = 0;
  for (std::size_t i = cut; i < v.size() - cut; i++) sum += v[i];
  return v.empty() ? 0 : sum / static_cast<double>(v.size() - 2 * cut);
}

call_cost try_to_measure(std::vector<std::pair<std::string, std::string>> variables) {
  constexpr std::size_t calls = 40'000;
  recording::stream_file file(calls);
  variables.emplace_back(contract::stream_variable, file.path());
  const char* const words[] = {"usher", "record", "--measure-calls", nullptr};
  helper child(words, variables);
  if (!child.started()) return {};
  for (int i = 0; i < 500 && file.opened() == 0; i++) std::this_thread::sleep_for(1ms);
  if (file.opened() == 0) return {};
  std::this_thread::sleep_for(15ms);
  file.open_window();
  for (int i = 0; i < 20 && file.is_open(); i++) std::this_thread::sleep_for(1ms);
  const std::optional<recording::raw_window> w = file.close_window();
  std::this_thread::sleep_for(5ms);
  const double unrecorded = std::atof(child.finish().c_str());
  if (!w || unrecorded <= 0) return {};
  const double ns_a_tick = file.clock().seconds_a_tick() * 1e9;
  std::vector<double> gaps, blocks;
  constexpr std::size_t block = 100;
  for (const recording::raw_thread& t : w->threads)
    for (std::size_t i = 1; i < t.calls.size(); i++) {
      const auto is_call = [&](std::size_t k) { return t.calls[k].what != contract::verb::cpu_clock; };
      if (is_call(i) && is_call(i - 1))
        gaps.push_back(static_cast<double>(t.calls[i].begin - t.calls[i - 1].end) * ns_a_tick);
      if (i % block == 0)
        blocks.push_back(static_cast<double>(t.calls[i].begin - t.calls[i - block].begin) * ns_a_tick / block);
    }
  if (gaps.size() < block) return {};
  return {std::max(0.0, support::median(blocks) - unrecorded), middle_mean(gaps)};
}

}  // namespace

call_cost measure_call_cost(const std::vector<std::pair<std::string, std::string>>& variables) {
  call_cost c;
  for (int i = 0; i < 3 && c.between_calls_ns <= 0; i++)
    c = try_to_measure(variables);  // tried again, since a measurement may fail on a busy machine
  return c;
}

// ---- two CPUs ----------------------------------------------------------------------------------------------

namespace {

bool pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

std::vector<int> own_cpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &set)) cpus.push_back(i);
  return cpus;
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  return syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

struct alignas(256) shared_word {
  std::atomic<std::uint32_t> value{0};
};

/// Returns the ns of one transfer of a cache line: two threads on different CPUs write one word in turn.
double transfer_time(int first, int second) {
  constexpr std::uint32_t rounds = 200, blocks = 30;
  shared_word word;
  const auto deadline = steady_clock::now() + 100ms;
  const auto await = [&](std::uint32_t v) {
    for (unsigned n = 1; word.value.load(std::memory_order_acquire) != v; n++)
      if (n % 1024 == 0 && steady_clock::now() > deadline) return false;
    return true;
  };
  std::thread other([&] {
    if (!pin_to(second)) return;
    for (std::uint32_t i = 0; i < rounds * blocks; i++) {
      if (!await(2 * i + 1)) return;
      word.value.store(2 * i + 2, std::memory_order_release);
    }
  });
  std::vector<double> times;
  std::thread one([&] {
    if (!pin_to(first)) return;
    for (std::uint32_t b = 0; b < blocks; b++) {
      const auto begin = steady_clock::now();
      for (std::uint32_t i = b * rounds; i < (b + 1) * rounds; i++) {
        word.value.store(2 * i + 1, std::memory_order_release);
        if (!await(2 * i + 2)) return;
      }
      times.push_back(ns_since(begin) / (2 * rounds));
    }
  });
  one.join();
  other.join();
  return times.size() > blocks / 2 ? support::median(times) : 0;
}

/// Returns the ns of a wake-up: a thread that sleeps in a futex call is woken by another one.
double wake_time(int first, int second) {
  constexpr std::uint32_t rounds = 60;
  shared_word word;
  std::atomic<std::int64_t> woken{0};
  const auto now = [] { return steady_clock::now().time_since_epoch().count(); };
  std::thread sleeper([&] {
    pin_to(second);
    for (std::uint32_t i = 0; i < rounds; i++) {
      while (word.value.load(std::memory_order_acquire) == i) futex(word.value, FUTEX_WAIT_PRIVATE, i);
      woken.store(now(), std::memory_order_release);
    }
  });
  std::vector<double> times;
  std::thread waker([&] {
    pin_to(first);
    for (std::uint32_t i = 0; i < rounds; i++) {
      std::this_thread::sleep_for(200us);  // until the first thread sleeps
      woken.store(0, std::memory_order_relaxed);
      const std::int64_t begin = now();
      word.value.store(i + 1, std::memory_order_release);
      futex(word.value, FUTEX_WAKE_PRIVATE, 1);
      while (woken.load(std::memory_order_acquire) == 0) std::this_thread::yield();
      times.push_back(static_cast<double>(woken.load() - begin));
    }
  });
  waker.join();
  sleeper.join();
  return support::median(times);
}

}  // namespace

hand_over_cost measure_hand_over() {
  const std::vector<int> cpus = own_cpus();
  if (cpus.size() < 2) return {};
  return {transfer_time(cpus[0], cpus[1]), wake_time(cpus[0], cpus[1])};
}

}  // namespace usher::lab
