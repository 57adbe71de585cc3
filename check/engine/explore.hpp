// Runs one scenario against one target in many executions. Also defines the list of all targets that main.cpp runs.
#pragma once

#include <cstdint>
#include <functional>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

#include "check/engine/checked_platform.hpp"
#include "check/engine/checker_scheduler.hpp"

namespace usher::check {

struct outcome {
  bool passed = true;
  std::string why;
  std::uint64_t executions = 0;
  std::uint64_t programs = 0;  ///< bound: the number of completely searched programs
  std::string state;           ///< the state of the failed execution
};

struct options {
  std::string_view lock, scenario;
  unsigned threads = 0;
  std::uint64_t executions = 20000, seed = 1;
  bool bounded = false;
  unsigned differences = 2;
  std::uint64_t programs = 0;
  bool fair = false;     ///< set by the scenario. It excludes `bounded`: executions are drawn at random
  std::string replay;    ///< the state of the only execution to run
  bool history = true;   ///< print the steps of a failure
  bool at_once = false;  ///< print each step when it happens, because a crash leaves no time afterwards
  bool lines = false;    ///< print lines for `usher check` to read
  bool weaken = false;
};

inline unsigned acquisitions = 2;  ///< acquisitions of each thread, in scenarios that leave their number open

/// A lock, waiting list, condition variable or semaphore, with the scenarios that drive it.
struct target {
  std::string name;
  std::string mutation;     ///< the mutant's change; empty for the shipped code
  std::string_view header;  ///< headers whose memory orders are weakened, separated by spaces; empty: all
  std::size_t size;
  std::vector<const char*> scenarios;
  std::function<outcome(unsigned scenario, unsigned threads, const options&)> explore;
  std::string family = {};     ///< the name without the way of waiting; if empty, the name
  unsigned usual_threads = 4;  ///< the number of threads without --threads
};

/// Stores the names of the scenarios that concern the target in `of`, and returns these scenarios. The number that
/// explore() gets is an index into the result.
template <class Scenario, std::size_t N, class Concerns>
std::vector<const Scenario*> select_scenarios(target& of, const Scenario (&all)[N], Concerns concerns) {
  std::vector<const Scenario*> selected;
  for (const Scenario& s : all)
    if (concerns(s)) {
      of.scenarios.push_back(s.name);
      selected.push_back(&s);
    }
  return selected;
}

constexpr std::size_t room_for_target = 2048;

std::vector<target> lock_targets();
std::vector<target> queue_targets();
std::vector<target> condition_targets();
std::vector<target> semaphore_targets();
std::vector<target> read_write_targets();

/// Returns the targets of all kinds. It has a file of its own, all_targets.cpp, since the program of usher-check-own
/// (packaging/tarball) has only some kinds and defines this function itself.
std::vector<target> all_targets();

/// Prints relacy's history step by step. It allocates no memory, because relacy replaces the allocator.
class history_output : public std::streambuf {
 public:
  explicit history_output(bool lines) : lines_(lines) {}

 private:
  int overflow(int c) override;
  void show(std::string_view line);
  void show_step(unsigned thread, std::string_view what, std::string_view file, unsigned line);

  bool lines_;
  char line_[1024];
  std::size_t length_ = 0;
  bool within_ = false;  ///< true while threads run, false in the program's constructor and destructor
  bool over_ = false;    ///< true when relacy prints the same steps again, sorted by thread
};

/// Installs signal handlers: after this call, a crash prints the state of its execution.
void report_ends();

/// Sets the parameters of the search and of relacy for a run.
void prepare(rl::test_params& p, const options& o);
void prepare_for_history(rl::test_params& p, const options& o, const std::string& state);
outcome failure(const rl::test_params& p, const options& o);

template <class Program, rl::thread_id_t Threads>
outcome explore(const options& o) {
  struct : std::streambuf {
    int overflow(int c) override { return c; }
  } nowhere;
  std::ostream silent(&nowhere);
  rl::test_params p;
  p.output_stream = p.progress_stream = &silent;
  prepare(p, o);
  rl::ostringstream where;
  using machine = scheduler<Threads>;
  outcome r;
  if (o.replay.empty()) {
    if (rl::run_test<Program, machine>(p, where, false) == rl::test_result_success) {
      r.executions = the_search.bounded ? the_search.number : o.executions;
      r.programs = the_search.programs_done;
      return r;
    }
    r = failure(p, o);
    if (!o.history) return r;
  }
  history_output printer(o.lines);
  std::ostream out(&printer);
  rl::test_params again = p;
  again.output_stream = &out;
  const std::string state = o.replay.empty() ? r.state : o.replay;
  prepare_for_history(again, o, state);
  const bool failed = rl::run_test<Program, machine>(again, where, true) != rl::test_result_success;
  if (!o.replay.empty()) {
    r.passed = !failed;
    if (failed) r = failure(again, o);
    r.executions = 1;
    r.state = state;
  }
  return r;
}

template <template <rl::thread_id_t> class Program>
outcome explore(unsigned threads, const options& o) {
  switch (threads) {
    case 2:
      return explore<Program<2>, 2>(o);
    case 3:
      return explore<Program<3>, 3>(o);
    default:
      return explore<Program<4>, 4>(o);
  }
}

[[noreturn]] inline void fail(const char* why, place p = place::current()) {
  fail(why, rl::test_result_user_assert_failed, p);
}

}  // namespace usher::check
