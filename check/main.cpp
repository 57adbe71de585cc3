// usher_check: every lock against every client under relacy.
//
//     usher_check [--lock L|wrong] [--client C] [--threads N] [--acquisitions A] [--executions K] [--seed S]
//                 [--no-history] [--weaken]
//
// A client is a set of chances over one program: each thread acquires the lock twice, adds one to a plain
// counter, and whoever makes the last acquisition ends the lock's life after its unlock has returned.
#include <chrono>
#include <cstdio>
#include <string_view>

#include "check/checked_lock.hpp"
#include "check/scheduler.hpp"
#include "usher/timed.hpp"

namespace usher::check {
namespace {

struct client {
  const char* name;
  chances let;
  bool tries = false;   ///< some acquisitions by try_lock
  bool timed = false;   ///< some with a deadline, beside the lock: timed.hpp
  bool guests = false;  ///< some as guests, where the lock has them
};

// In `plain` nothing but the lock itself wakes a sleeper.
constexpr client clients[] = {
    {.name = "plain", .let = {}},
    {.name = "stray", .let = {.stray_wakes = 2}},
    {.name = "try", .let = {.stray_wakes = 1}, .tries = true},
    {.name = "timed", .let = {}, .tries = true, .timed = true},
    {.name = "no-nodes", .let = {.refused_nodes = 2}, .guests = true},
};

unsigned acquisitions = 2;  // of each thread

// What the suites below run: relacy constructs them without arguments.
const checked_lock* the_lock;
const client* the_client;

/// The lock's memory and the timed waiters' word beside it: all that the last owner takes away.
struct object {
  static constexpr std::size_t room = 2048;
  alignas(64) std::array<std::byte, room> lock;
  checked::atomic<std::uint32_t> gate;
};

/// The lock as timed_gate wants it.
struct lock_handle {
  void* state;
  bool try_lock() const { return the_lock->try_lock(state); }
};

template <rl::thread_id_t Threads>
struct suite : rl::test_suite<suite<Threads>, Threads> {
  using gate = timed_gate<checked>;

  suite() {
    the_lock->make(state());
    // The rest of the numbers' circle is as good as its beginning: half of the executions come over the wrap.
    if (the_lock->tickets && rl::rand(2) == 0)
      for (int i = 0; i < 2; i++)
        static_cast<checked::atomic<std::uint32_t>*>(state())[i].store(~std::uint32_t{3}, std::memory_order_relaxed);
    world.watch_lock(&it, sizeof it, &it.gate);
  }
  ~suite() {
    world.watch_lock(nullptr, 0, nullptr);
    the_lock->end(state());
  }

  void thread(unsigned) {
    for (unsigned i = 0; i < acquisitions; i++) {
      acquire();
      const std::uint32_t n = acquired.get() + 1;
      acquired.set(n);
      release();
      if (n == Threads * acquisitions) world.end_of_lock();
    }
  }

  void after() {
    if (acquired.get() != Threads * acquisitions)
      fail("acquisitions are missing", rl::test_result_user_assert_failed, place::current());
    if (!world.all_nodes_free()) fail("a node was not given back", rl::test_result_resource_leak, place::current());
  }

 private:
  void* state() { return it.lock.data(); }

  void acquire() {
    if (the_client->tries && rl::rand(2) == 0)
      for (int i = 0; i < 2; i++)
        if (the_lock->try_lock(state())) return;
    if (the_client->timed && rl::rand(2) == 0) {
      lock_handle l{state()};
      static constexpr std::array<unsigned, 4> patience{0, 1, 2, ~0u};
      unsigned left = patience[rl::rand(patience.size())];
      if (gate::lock(l, it.gate, [&]() -> std::uint64_t { return left == 0 ? 0 : left--; })) return;
    }
    if (the_client->guests && the_lock->lock_as_guest != nullptr && rl::rand(2) == 0)
      return the_lock->lock_as_guest(state());
    the_lock->lock(state());
  }

  /// As timed_mutex::unlock().
  void release() {
    if (!the_client->timed || !gate::anyone(it.gate)) return the_lock->unlock(state());
    const wake_key key = checked::key_of(it.gate);
    if (gate::unlock(it.gate) == gate::outcome::handed_over) return;
    the_lock->unlock(state());
    checked::wake(key, every_sleeper, 1);
  }

  execution world{the_client->let, the_lock->traits->fifo};
  object it;
  checked::plain<std::uint32_t> acquired;
};

/// Passes relacy's history on as far as it is in order of time; relacy repeats it by thread. No memory of its
/// own, because relacy replaces the allocator.
class history_output : public std::streambuf {
  int overflow(int c) override {
    if (c == '\n' || length_ == sizeof line_) {
      const std::string_view line(line_, length_);
      if (line.starts_with("thread 0:")) over_ = true;
      if (!over_ && !line.empty()) std::printf("    %.*s\n", int(line.size()), line.data());
      length_ = 0;
    }
    if (c != '\n') line_[length_++] = char(c);
    return c;
  }
  char line_[1024];
  std::size_t length_ = 0;
  bool over_ = false;
};

struct outcome {
  bool passed;
  std::string why;
  std::uint64_t executions;
};

struct options {
  std::string_view lock, client;
  unsigned threads = 0;
  std::uint64_t executions = 20000, seed = 1;
  bool history = true;
  bool weaken = false;
};

template <rl::thread_id_t Threads>
outcome explore(const options& o) {
  struct : std::streambuf {
    int overflow(int c) override { return c; }
  } nowhere;
  std::ostream silent(&nowhere);
  rl::test_params p;
  p.output_stream = p.progress_stream = &silent;
  p.execution_depth_limit = 20000;
  p.iteration_count = o.seed + o.executions - 1;
  p.initial_state = std::to_string(o.seed).c_str();
  rl::ostringstream where;
  using machine = scheduler<Threads>;
  if (rl::run_test<suite<Threads>, machine>(p, where, false) == rl::test_result_success)
    return {true, {}, o.executions};
  const outcome failed{false, rl::test_result_str(p.test_result), p.stop_iteration - o.seed + 1};
  if (o.history) {
    history_output printer;
    std::ostream out(&printer);
    rl::test_params again = p;
    again.output_stream = &out;
    again.collect_history = true;
    again.initial_state = where.str();
    rl::ostringstream unused;
    rl::run_test<suite<Threads>, machine>(again, unused, true);
  }
  return failed;
}

outcome explore(unsigned threads, const options& o) {
  switch (threads) {
    case 2:
      return explore<2>(o);
    case 3:
      return explore<3>(o);
    default:
      return explore<4>(o);
  }
}

int usage() {
  std::fputs(
      "usage: usher_check [--lock L|wrong] [--client C] [--threads 2|3|4] [--acquisitions A] [--executions "
      "K]\n"
      "                   [--seed S] [--no-history] [--weaken]\n",
      stderr);
  return 2;
}

/// Makes each ordered operation of a lock relaxed in turn. A survivor is not superfluous for it: see
/// relacy_platform.hpp for what relacy cannot show.
void weaken(options o) {
  const auto any_fails = [&] {
    for (unsigned threads = 2; threads <= execution::most_threads; threads++)
      for (const client& c : clients) {
        the_client = &c;
        if (!explore(threads, o).passed) return true;
      }
    return false;
  };
  o.history = false;
  sites.count = 0;
  recording_sites = true;
  any_fails();
  recording_sites = false;
  unsigned missed = 0;
  for (unsigned i = 0; i < sites.count; i++) {
    sites.weakened = sites.seen[i];
    const bool found = any_fails();
    missed += found ? 0 : 1;
    const char* slash = std::strrchr(sites.seen[i].file_name(), '/');
    std::printf("%-24s %s:%u:%u relaxed: %s\n", the_lock->name.c_str(), slash + 1, unsigned(sites.seen[i].line()),
                unsigned(sites.seen[i].column()), found ? "caught" : "survives");
    std::fflush(stdout);
  }
  sites.weakened.reset();
  std::printf("%-24s %u of %u caught\n", the_lock->name.c_str(), sites.count - missed, sites.count);
}

int run(int argc, char** argv) {
  options o;
  for (int i = 1; i < argc; i++) {
    const std::string_view key = argv[i];
    if (key == "--no-history") {
      o.history = false;
      continue;
    }
    if (key == "--weaken") {
      o.weaken = true;
      continue;
    }
    if (i + 1 == argc) return usage();
    const char* value = argv[++i];
    if (key == "--lock")
      o.lock = value;
    else if (key == "--client")
      o.client = value;
    else if (key == "--threads")
      o.threads = unsigned(std::strtoul(value, nullptr, 10));
    else if (key == "--executions")
      o.executions = std::strtoull(value, nullptr, 10);
    else if (key == "--acquisitions")
      acquisitions = unsigned(std::strtoul(value, nullptr, 10));
    else if (key == "--seed")
      o.seed = std::strtoull(value, nullptr, 10);
    else
      return usage();
  }
  if (o.threads == 1 || o.threads > execution::most_threads || o.executions == 0 || o.seed == 0) return usage();

  bool as_expected = true, any = false;
  std::map<std::string, bool> caught;  // of each wrong lock: in any of its forms
  for (const checked_lock& l : checked_locks()) {
    // A family's name stands for its forms; wrong locks only on demand.
    const bool wanted = o.lock.empty() ? l.bug.empty() : o.lock == "wrong" ? !l.bug.empty() : l.name == o.lock;
    if (!wanted) continue;
    any = true;
    if (l.size > object::room) {
      std::fprintf(stderr, "usher_check: %s does not fit into the room for a lock\n", l.name.c_str());
      return 2;
    }
    the_lock = &l;
    if (o.weaken) {
      weaken(o);
      continue;
    }
    bool failed = false;
    for (unsigned threads = 2; threads <= execution::most_threads; threads++) {
      if (o.threads != 0 && o.threads != threads) continue;
      for (const client& c : clients) {
        if ((!o.client.empty() && o.client != c.name) || (failed && !l.bug.empty())) continue;
        the_client = &c;
        const auto begin = std::chrono::steady_clock::now();
        const outcome r = explore(threads, o);
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        std::printf("%-24s %-9s %u threads  %s%s  %llu executions, %.1f s\n", l.name.c_str(), c.name, threads,
                    r.passed ? "pass" : "FAIL: ", r.why.c_str(), static_cast<unsigned long long>(r.executions),
                    seconds);
        std::fflush(stdout);
        failed = failed || !r.passed;
      }
    }
    if (l.bug.empty())
      as_expected = as_expected && !failed;
    else
      caught[l.bug] = caught[l.bug] || failed;
  }
  for (const auto& [bug, found] : caught) {
    std::printf("%-10s %s\n", found ? "caught" : "NOT CAUGHT", bug.c_str());
    as_expected = as_expected && found;
  }
  if (!any) {
    std::fprintf(stderr, "usher_check: no such lock\n");
    return 2;
  }
  return as_expected ? 0 : 1;
}

}  // namespace
}  // namespace usher::check

int main(int argc, char** argv) {
  return usher::check::run(argc, argv);
}
