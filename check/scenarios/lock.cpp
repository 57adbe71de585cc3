// The scenarios of locks. The files of lock/ describe the programs of the threads; one program serves several scenarios
// that differ in the ways to acquire. All scenarios check exclusion, the bounds on bypass, and the life of the lock.
#include <algorithm>

#include "check/scenarios/lock/lock_program.hpp"

namespace usher::check {
namespace {

constexpr auto has_deadlines = [](const checked_lock& l) { return l.lock_with_deadline != nullptr; };
constexpr auto is_had_when_freed = [](const checked_lock& l) { return l.is_had_when_freed; };
constexpr auto says_due = [](const checked_lock& l) { return l.unlock_is_due != nullptr; };
constexpr auto starves_nobody = [](const checked_lock& l) { return l.traits->starvation_free; };
constexpr auto has_ranks = [](const checked_lock& l) { return l.traits->by_priority; };
constexpr auto goes_past_stopped = [](const checked_lock& l) { return l.goes_past_stopped; };

// In the scenario `plain` there are no spurious wake-ups: only the lock itself wakes a sleeper. Where `let.adverse` is
// set, the schedule is fair.
constexpr lock_scenario scenarios[] = {
    {.name = "plain", .begin = lock_programs::counted},
    {.name = "stray", .begin = lock_programs::counted, .let = {.stray_wakes = 2}},
    {.name = "try", .begin = lock_programs::counted, .let = {.stray_wakes = 1}, .tries = true},
    {.name = "timed", .begin = lock_programs::counted, .tries = true, .timed = true},
    {.name = "no-nodes", .begin = lock_programs::counted, .let = {.refused_nodes = 2}, .guests = true},
    {.name = "progress", .begin = lock_programs::progress, .concerns = starves_nobody, .let = {.adverse = true}},
    {.name = "ranks", .begin = lock_programs::ranks, .concerns = has_ranks},
    {.name = "forked", .begin = lock_programs::forked, .tries = true, .guests = true},
    {.name = "served", .begin = lock_programs::served, .concerns = has_deadlines, .let = {.adverse = true}},
    {.name = "freed", .begin = lock_programs::freed, .concerns = is_had_when_freed, .let = {.adverse = true}},
    {.name = "outrun", .begin = lock_programs::outrun, .concerns = starves_nobody, .let = {.adverse = true}},
    {.name = "due", .begin = lock_programs::due, .concerns = says_due},
    {.name = "stopped", .begin = lock_programs::stopped, .concerns = goes_past_stopped, .tries = true},
};

template <rl::thread_id_t Threads>
struct program : rl::test_suite<program<Threads>, Threads> {
  ~program() { std::destroy_at(runs); }
  void thread(unsigned t) { runs->thread(t); }
  void after() { runs->after(); }

  lock_program* const runs = the_locks_scenario->begin(Threads);
};

/// Returns four threads for locks whose waiters are in lists or overtake each other: a third waiter can then arrive,
/// leave or be passed over between two others. The other traits do not show some locks that need four threads, so these
/// say it.
unsigned usual_threads(const lock_traits& t) {
  const bool has_lists = t.context || t.restricts || t.by_priority;
  const bool is_overtaken = !t.fifo && (t.starvation_free || t.bypass != unbounded);
  return std::max(has_lists || is_overtaken ? 4u : 3u, t.checker_threads);
}

}  // namespace

std::vector<target> lock_targets() {
  std::vector<target> all;
  for (const checked_lock& l : checked_locks()) {
    target s{.name = l.name,
             .mutation = l.mutation,
             .header = {},
             .size = l.size,
             .scenarios = {},
             .explore = {},
             .family = l.family,
             .usual_threads = usual_threads(*l.traits)};
    const auto asked =
        select_scenarios(s, scenarios, [&l](const lock_scenario& c) { return c.concerns == nullptr || c.concerns(l); });
    s.explore = [&l, asked](unsigned c, unsigned threads, options o) {
      the_lock = &l;
      the_locks_scenario = asked[c];
      o.fair = the_locks_scenario->let.adverse;
      return explore<program>(threads, o);
    };
    all.push_back(std::move(s));
  }
  return all;
}

}  // namespace usher::check
