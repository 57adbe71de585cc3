// Tests the conclusion that `usher try` draws from a trial. The times of the runs are made up. The conclusion's text
// must not contradict the waiting that was measured.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simulated_trials.hpp"
#include "tool/trial/conclusion.hpp"
#include "tool/trial/judge.hpp"
#include "tool/trial/trial_report.hpp"

namespace {

using namespace usher::tool::trial;

/// The measurements of a trial other than the times of the runs.
struct measured {
  std::optional<double> waiting = 0.1, rwlock_waiting = std::nullopt, shared_rwlock_waiting = std::nullopt;
  std::uint64_t threads = 4;
  double cpus_used = 2;  ///< CPU seconds a second
  double others = 0;
  double a_run = 1;                                  ///< seconds, under the reference
  double budget = 60;                                ///< seconds
  std::optional<std::size_t> rounds = std::nullopt;  ///< instead of a budget
};

struct played {
  trial_results results;
  outlook seen;
  trial_conclusion conclusion;
};

using speed_up = std::function<double(std::size_t candidate, std::size_t round)>;

void add_run(candidate_result& c, std::size_t round, double seconds, const measured& m) {
  run_result r;
  r.round = round;
  r.metric = r.seconds = seconds;
  r.user_s = m.cpus_used * seconds;
  c.runs.push_back(r);
}

/// Evaluates a trial with these made-up runs as `usher try` evaluates a real one. The candidates are numbered from 1.
played play(const std::vector<std::string>& locks, const speed_up& of, const measured& m) {
  played p;
  trial_results& t = p.results;
  t.command = {"program", "argument"};
  t.lower_is_better = true;
  t.warmup = 1;
  t.run_seconds = m.a_run;
  t.others_cpu_share = m.others;
  if (!m.rounds) t.budget = m.budget;
  t.candidates.resize(1 + locks.size());
  for (std::size_t i = 0; i < t.candidates.size(); ++i) {
    candidate_result& c = t.candidates[i];
    c.name = c.lock = i == 0 ? c_library : locks[i - 1];
    if (const std::size_t plus = c.name.find('+'); plus != std::string::npos) {
      c.lock = c.name.substr(0, plus);
      c.rwlock = c.name.substr(plus + 1);
      c.name = name_of(c.lock, c.rwlock);
    }
  }
  t.candidates.front().judged = usher::tool::verdict::reference;
  t.candidates.front().calls = call_counts{100000, 1000, 0, 0, m.threads, true, m.waiting};
  t.candidates.front().calls->rwlocks = m.rwlock_waiting ? 100000 : 0;
  t.candidates.front().calls->rwlock_waiting_share = m.rwlock_waiting;
  t.candidates.front().calls->shared_rwlock_waiting_share = m.shared_rwlock_waiting;

  std::vector<bool> takes_part(t.candidates.size(), true);
  takes_part[0] = false;
  usher::tool::contest_rules rules;
  rules.uses_rest = !has_little_waiting(t);
  usher::tool::contest c(takes_part, rules);
  double left = m.budget - m.a_run * static_cast<double>(t.candidates.size());
  std::size_t running = locks.size();
  for (;;) {
    std::vector<std::size_t> wanted;
    if (m.rounds) {
      for (std::size_t i = 1; i <= locks.size() && t.rounds < *m.rounds; ++i) wanted.push_back(i);
    } else {
      const double most = 200.0 - static_cast<double>(t.rounds);
      wanted = c.next(std::min(left / m.a_run / static_cast<double>(running + 1), most));
      for (std::size_t i = 1; i <= locks.size(); ++i) {
        const usher::tool::standing s = c.of(i);
        candidate_result& one = t.candidates[i];
        if (s == usher::tool::standing::behind) one.dropped = {t.rounds, behind_another};
        if (s == usher::tool::standing::hopeless && !one.dropped) one.dropped = {t.rounds, no_time};
        if (s == usher::tool::standing::in) one.dropped.reset();
      }
    }
    if (wanted.empty()) break;
    running = wanted.size();
    left -= m.a_run * static_cast<double>(running + 1);
    ++t.rounds;
    add_run(t.candidates[0], t.rounds, m.a_run, m);
    for (const std::size_t i : wanted) add_run(t.candidates[i], t.rounds, m.a_run / of(i, t.rounds), m);
    add_last_round(t, c);
  }
  p.seen = judge(t, c);
  if (!m.rounds && left > 2 * m.a_run) p.seen.seconds_unused = left;
  p.conclusion = *(t.conclusion = conclusion_of(t, p.seen));
  return p;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool recommends_trial(const trial_conclusion& c) {
  return c.command.starts_with("usher try") || has(c.text, "new trial");
}

/// Returns the name in the first row of the table of results.
std::string first_row(const trial_results& t) {
  const std::string table = table_text(t, 200, false);
  const std::string row = table.substr(table.find('\n') + 3);
  return row.substr(0, row.find(' '));
}

/// The speed-up of a lock that by chance seems better than it is. The lock wins four of the first five rounds, then
/// every second round.
double lucky(std::size_t round) {
  return round <= 5 ? (round == 3 ? 0.8 : 1.2 + 0.1 * static_cast<double>(round)) : round % 2 == 0 ? 0.9 : 1.1;
}

// Single cases:

TEST(conclusion, xz_with_hardly_any_waiting) {
  const auto p =
      play({"steady", "futex"}, [](std::size_t i, std::size_t r) { return i == 1 ? lucky(r) : 1 / lucky(r + 1); },
           {.waiting = 0.0003, .threads = 3, .cpus_used = 2, .budget = 29});
  EXPECT_EQ(p.conclusion.kind, "no-lock-helps");
  EXPECT_EQ(p.conclusion.command, "");
  EXPECT_TRUE(has(p.conclusion.text, "Threads wait for mutexes 0.03 % of their time")) << p.conclusion.text;
  for (const char* const not_said : {"seems", "up to", "decides after", "new trial"})
    EXPECT_FALSE(has(p.conclusion.text, not_said)) << p.conclusion.text;
}

TEST(conclusion, estimate_larger_than_the_waiting_is_named) {
  const auto p = play({"steady"}, [](std::size_t, std::size_t r) { return r % 3 == 0 ? 0.8 : 1.2; },
                      {.waiting = 0.0003, .threads = 3, .cpus_used = 2, .budget = 29});
  EXPECT_EQ(p.conclusion.kind, "no-lock-helps");
  EXPECT_TRUE(has(p.conclusion.text,
                  "The difference of steady is larger than this waiting: chance, or something else than waiting."))
      << p.conclusion.text;
}

TEST(conclusion, ffmpeg_undecided_gets_no_command_of_eleven_minutes) {
  const auto p = play({"steady", "loiter"}, [](std::size_t i, std::size_t r) { return (r + i) % 3 == 0 ? 0.9 : 1.1; },
                      {.waiting = 0.003, .threads = 6, .cpus_used = 2, .a_run = 4, .budget = 120});
  EXPECT_EQ(p.conclusion.command, "") << p.conclusion.text;
  EXPECT_FALSE(recommends_trial(p.conclusion)) << p.conclusion.text;
}

TEST(conclusion, busy_machine_gets_no_command_for_a_trial) {
  for (const double waiting : {0.02, 0.3}) {
    const auto p = play({"steady"}, [](std::size_t, std::size_t r) { return r % 3 == 0 ? 0.8 : 1.2; },
                        {.waiting = waiting, .others = 0.35, .budget = 30});
    EXPECT_EQ(p.conclusion.kind, "undecided");
    EXPECT_FALSE(recommends_trial(p.conclusion)) << p.conclusion.text;
    EXPECT_TRUE(has(p.conclusion.text, "Others took 35 % of the CPU time")) << p.conclusion.text;
  }
}

// Two threads that wait half of their time, beside 250 that wait for work: 0.4 % of all threads' time.
TEST(conclusion, idle_threads_do_not_hide_waiting) {
  const auto noise = [](std::size_t, std::size_t r) { return r % 3 == 0 ? 0.8 : 1.2; };
  const auto p = play({"steady"}, noise, {.waiting = 0.004, .threads = 252, .cpus_used = 1, .budget = 30});
  EXPECT_EQ(p.conclusion.kind, "undecided");
  EXPECT_TRUE(recommends_trial(p.conclusion)) << p.conclusion.text;
  const auto few = play({"steady"}, noise, {.waiting = 0.004, .threads = 8, .cpus_used = 1, .budget = 30});
  EXPECT_EQ(few.conclusion.kind, "no-lock-helps") << few.conclusion.text;
}

TEST(conclusion, undecided_with_waiting_on_a_quiet_machine_gets_a_command) {
  const auto p = play({"steady"}, [](std::size_t, std::size_t r) { return r % 3 == 0 ? 0.8 : 1.2; },
                      {.waiting = 0.3, .others = 0.02, .budget = 30});
  EXPECT_EQ(p.conclusion.kind, "undecided");
  EXPECT_TRUE(p.conclusion.command.starts_with("usher try --locks steady --budget ")) << p.conclusion.text;
}

TEST(conclusion, unused_26_of_60_seconds) {
  const auto noise = [](std::size_t i, std::size_t r) { return (r + i) % 2 == 0 ? 0.8 : 1.2; };
  const auto waits = play({"steady", "futex", "ttas"}, noise, {.waiting = 0.1, .budget = 60});
  EXPECT_EQ(waits.seen.seconds_unused, 0);
  EXPECT_FALSE(has(waits.conclusion.text, "not used"));
  const auto idle = play({"steady", "futex", "ttas"}, noise, {.waiting = 0.003, .budget = 60});
  EXPECT_GT(idle.seen.seconds_unused, 20);
  EXPECT_TRUE(has(idle.conclusion.text, "of 1 min were not used: threads wait so little.")) << idle.conclusion.text;
  const auto decided = play({"steady", "futex"}, [](std::size_t, std::size_t) { return 0.7; }, {.budget = 60});
  EXPECT_TRUE(has(decided.conclusion.text, "were not used: each lock is decided")) << decided.conclusion.text;
  const auto quick = play({"steady"}, noise, {.a_run = 0.001, .budget = 60});
  EXPECT_TRUE(has(quick.conclusion.text, "were not used: a trial has at most 200 rounds.")) << quick.conclusion.text;
}

TEST(conclusion, behind_another_is_never_in_the_first_row) {
  // futex is slower than steady in each round that runs both. The later rounds, which run only steady, are worse than
  // the early rounds of futex.
  const auto p =
      play({"steady", "futex"}, [](std::size_t i, std::size_t r) { return r <= 6 ? (i == 1 ? 1.6 : 1.5) : 0.9; },
           {.waiting = 0.1, .budget = 200});
  ASSERT_TRUE(p.results.candidates[2].is_behind());
  ASSERT_GT(p.results.candidates[2].figure(), p.results.candidates[1].figure());
  EXPECT_NE(first_row(p.results), "futex");
}

TEST(conclusion, winner_is_in_the_first_row) {
  trial_results t;
  t.candidates.resize(3);
  t.candidates[0].name = "pthread";
  t.candidates[1].name = "steady";
  t.candidates[2].name = "ttas";
  t.candidates[1].speed_up = 1.2;
  t.candidates[2].speed_up = 1.3;
  EXPECT_EQ(first_row(t), "ttas");
  t.winner = "steady";
  EXPECT_EQ(table_text(t, 200, false).find("* steady"), table_text(t, 200, false).find('\n') + 1);
}

TEST(conclusion, idle_threads_make_the_share_small_and_the_gain_no_contradiction) {
  const auto gain = [](std::size_t, std::size_t) { return 1.2; };
  const auto idle = play({"steady"}, gain, {.waiting = 0.003, .threads = 100, .cpus_used = 1});
  EXPECT_EQ(idle.conclusion.kind, "worth-it");
  EXPECT_FALSE(has(idle.conclusion.text, "something else")) << idle.conclusion.text;
  const auto busy_threads = play({"steady"}, gain, {.waiting = 0.003, .threads = 4, .cpus_used = 4});
  EXPECT_EQ(busy_threads.conclusion.kind, "worth-it");
  EXPECT_TRUE(has(busy_threads.conclusion.text,
                  "Threads wait for mutexes 0.3 % of their time. The difference of steady is larger than this waiting: "
                  "chance, or something else than waiting."))
      << busy_threads.conclusion.text;
}

TEST(conclusion, few_calls_leave_nothing_to_change) {
  trial_results t;
  t.candidates.resize(1);
  t.candidates[0].calls = call_counts{3, 0, 0, 0, 1, true, 0.0};
  outlook o;
  o.nothing_to_gain = true;
  const trial_conclusion c = conclusion_of(t, o);
  EXPECT_EQ(c.kind, "no-locks");
  EXPECT_TRUE(c.text.starts_with(
      "The program does not use pthread locks or semaphores (3 calls): other locks have nothing to change."));
}

TEST(conclusion, budget_without_room_names_one_that_has) {
  trial_results t;
  t.command = {"program"};
  t.budget = 10;
  t.candidates.resize(2);
  t.candidates[0].name = c_library;
  t.candidates[1].name = t.candidates[1].lock = "steady";
  outlook o;
  o.seconds_wanted = 90;
  o.rounds_wanted = 5;
  EXPECT_EQ(conclusion_of(t, o).kind, "too-few-rounds");
  EXPECT_EQ(conclusion_of(t, o).command, "usher try --locks steady --budget 3m --warmup 0 --higher -- program");
  t.others_cpu_share = 0.35;
  EXPECT_EQ(conclusion_of(t, o).command, "");
}

// Read-write locks:

TEST(conclusion, winner_with_a_read_write_lock_names_both) {
  const auto gain = [](std::size_t i, std::size_t) { return 1.1 + 0.1 * static_cast<double>(i); };
  const measured m{.waiting = 0.1, .rwlock_waiting = 0.2};
  const auto both = play({"steady", "steady+bravo"}, gain, m);
  EXPECT_EQ(both.conclusion.command, "usher run --lock steady --rwlock bravo -- program argument");
  EXPECT_TRUE(
      both.conclusion.text.starts_with("Worth it: steady+bravo is 1.30 times as fast (1.30–1.30) as the C "
                                       "library's locks, in the 5 rounds after it was chosen."))
      << both.conclusion.text;
  EXPECT_TRUE(has(both.conclusion.text, "read-write locks are experimental"));
  EXPECT_EQ(first_row(both.results), "steady+bravo");
  const auto alone = play({"pthread+phase-fair"}, gain, m);
  EXPECT_EQ(alone.results.winner, "phase-fair");
  EXPECT_EQ(alone.conclusion.command, "usher run --lock pthread --rwlock phase-fair -- program argument");
  const auto mutex = play({"steady+bravo", "steady"}, gain, m);
  EXPECT_EQ(mutex.conclusion.command, "usher run --lock steady -- program argument");
  EXPECT_FALSE(has(mutex.conclusion.text, "experimental"));
}

TEST(conclusion, command_overrides_a_read_write_lock_of_the_environment) {
  auto p = play({"steady"}, [](std::size_t, std::size_t) { return 1.2; }, {});
  p.seen.names_rwlock = true;
  EXPECT_EQ(conclusion_of(p.results, p.seen).command, "usher run --lock steady --rwlock pthread -- program argument");
}

TEST(conclusion, waiting_for_read_write_locks_counts) {
  const auto noise = [](std::size_t, std::size_t r) { return r % 3 == 0 ? 0.8 : 1.2; };
  const auto p = play({"pthread+bravo"}, noise, {.waiting = 0.0003, .rwlock_waiting = 0.3, .budget = 30});
  EXPECT_EQ(p.conclusion.kind, "undecided");
  EXPECT_TRUE(has(p.conclusion.text, "Threads wait for mutexes 0.03 % and for read-write locks 30.0 % of their time"))
      << p.conclusion.text;
  EXPECT_TRUE(p.conclusion.command.starts_with("usher try --locks bravo --budget ")) << p.conclusion.command;
  // has_little_waiting() compares the sum of both shares, for mutexes and for read-write locks, with its limit.
  EXPECT_FALSE(has_little_waiting(play({"steady"}, noise, {.waiting = 0.006, .rwlock_waiting = 0.006}).results));
  EXPECT_TRUE(has_little_waiting(play({"steady"}, noise, {.waiting = 0.006, .rwlock_waiting = 0.001}).results));
  // The waiting of 0.2 of all threads' time, of 4 threads on 2 CPUs, can explain a speed-up of 1 + 0.2 × 4 / 2 = 1.4,
  // and so a gain of 1.35.
  const auto gain = [](std::size_t, std::size_t) { return 1.35; };
  EXPECT_FALSE(has(play({"steady"}, gain, {.waiting = 0, .rwlock_waiting = 0.2}).conclusion.text, "larger than this"));
  EXPECT_TRUE(has(play({"steady"}, gain, {.waiting = 0, .rwlock_waiting = 0.1}).conclusion.text, "larger than this"));
}

TEST(conclusion, process_shared_read_write_locks_are_named) {
  const auto noise = [](std::size_t, std::size_t r) { return r % 3 == 0 ? 0.8 : 1.2; };
  const measured m{.waiting = 0.0003, .rwlock_waiting = 0, .shared_rwlock_waiting = 0.4, .budget = 30};
  const auto p = play({"steady"}, noise, m);
  EXPECT_EQ(p.conclusion.kind, "no-lock-helps");
  EXPECT_TRUE(has(p.conclusion.text,
                  "Threads wait for process-shared read-write locks 40.0 % of their time: these "
                  "stay the C library's, since no lock of Usher's serves them."))
      << p.conclusion.text;
  trial_results t;
  t.candidates.resize(1);
  t.candidates[0].calls = call_counts{3, 0, 0, 0, 4, true, 0.0};
  t.candidates[0].calls->rwlocks = 1000;
  t.candidates[0].calls->rwlock_waiting_share = 0.001;
  outlook o;
  o.nothing_to_gain = true;
  EXPECT_EQ(conclusion_of(t, o).kind, "no-locks");
  EXPECT_TRUE(has(conclusion_of(t, o).text, "--rwlocks phase-fair,bravo compares anyway"));
  t.candidates[0].calls->shared_rwlock_waiting_share = 0.4;
  EXPECT_TRUE(has(conclusion_of(t, o).text, "no lock of Usher's serves them")) << conclusion_of(t, o).text;
}

// All combinations:

const std::vector<std::pair<const char*, speed_up>>& outcomes() {
  static const std::vector<std::pair<const char*, speed_up>> all = {
      {"gain", [](std::size_t i, std::size_t) { return 1.1 + 0.1 * static_cast<double>(i); }},
      {"small gain", [](std::size_t, std::size_t) { return 1.01; }},
      {"loss", [](std::size_t, std::size_t) { return 0.8; }},
      {"level", [](std::size_t, std::size_t r) { return r % 2 == 0 ? 0.995 : 1.005; }},
      {"noise", [](std::size_t i, std::size_t r) { return (r + i) % 2 == 0 ? 0.7 : 1.4; }},
      {"mostly won", [](std::size_t i, std::size_t r) { return (r + i) % 4 == 0 ? 0.7 : 1.4; }},
      {"mostly lost", [](std::size_t i, std::size_t r) { return (r + i) % 4 == 0 ? 1.4 : 0.7; }},
      {"lucky", [](std::size_t, std::size_t r) { return lucky(r); }},
      {"contradicted", [](std::size_t, std::size_t r) { return r <= 7 ? 1.3 : 0.8; }},
      {"one of each",
       [](std::size_t i, std::size_t r) {
         return i == 1 ? 1.3 : i == 2 ? 0.7 : r % 2 == 0 ? 0.8 : 2.0;
       }},
      {"behind", [](std::size_t i, std::size_t r) { return r <= 6 ? (i == 1 ? 1.6 : 1.5) : 0.9; }},
  };
  return all;
}

TEST(conclusion, agrees_with_the_measurements_in_all_combinations) {
  const std::vector<std::string> names = {"steady", "futex", "twa", "ttas"};
  for (const auto& [name, of] : outcomes())
    for (const std::optional<double> waiting :
         {std::optional<double>(), {0.0}, {0.0003}, {0.003}, {0.0099}, {0.01}, {0.05}, {0.6}})
      for (const double others : {0.0, 0.1, 0.11, 0.35})
        for (const double budget : {3.0, 12.0, 30.0, 60.0, 400.0, 0.0})
          for (std::size_t n = 1; n <= names.size(); ++n) {
            measured m{.waiting = waiting, .others = others, .budget = budget};
            if (budget == 0) m.rounds = 6;
            const played p = play({names.begin(), names.begin() + static_cast<std::ptrdiff_t>(n)}, of, m);
            const std::string& text = p.conclusion.text;
            SCOPED_TRACE(fmt::format("{}, {} waiting, {} others, {} s, {} locks: {}: {} [{}]", name,
                                     waiting.value_or(-1), others, budget, n, p.conclusion.kind, text,
                                     p.conclusion.command));
            const bool little = waiting.value_or(1) < 0.01;
            if (little || others > 0.1) {
              EXPECT_FALSE(recommends_trial(p.conclusion));
            }
            EXPECT_FALSE(has(text, "no lock can make"));
            if (!p.results.winner.empty()) {
              EXPECT_TRUE(has(text, p.results.winner));
              EXPECT_TRUE(p.conclusion.command.starts_with("usher run --lock " + p.results.winner));
              EXPECT_TRUE(has(table_text(p.results, 200, false), "\n* " + p.results.winner));
              EXPECT_EQ(table_text(p.results, 200, false).find("\n* "), table_text(p.results, 200, false).find('\n'));
            } else {
              EXPECT_FALSE(has(text, "orth it"));
              const bool is_better = p.conclusion.kind == "unconfirmed";
              if (p.seen.seconds_unused > 0 && !is_better) {
                EXPECT_TRUE(has(text, "were not used: "));
              }
              if (little && !is_better && p.conclusion.kind != "too-few-rounds") {
                EXPECT_FALSE(has(text, "seems"));
              }
            }
            for (const candidate_result& c : p.results.candidates) {
              if (c.is_behind()) {
                EXPECT_NE(first_row(p.results), c.name);
              }
            }
          }
}

// Simulated trials with noise:

/// Trials of equal locks whose threads wait 10 % of their time. In at most 5 % of the trials may a lock seem better, as
/// in `unit.contest_test`.
TEST(conclusion, equal_locks_are_seldom_recommended) {
  constexpr int trials = 2000;
  for (const auto& kind : simulated::kinds_of_noise()) {
    simulated::random_bits bits(13);
    int recommended = 0, better = 0;
    for (int i = 0; i < trials; ++i) {
      const auto machine = kind.make();
      machine->restart(bits);
      std::vector<double> noise(5);
      std::size_t round = 0;
      const auto of = [&](std::size_t candidate, std::size_t r) {
        if (r != round)
          for (const std::size_t place : usher::tool::random_order(noise.size(), bits))
            noise[place] = machine->next(bits);
        round = r;
        return std::exp(noise[0] - noise[candidate]);
      };
      const std::string said = play({"steady", "futex", "mcs", "twa"}, of, {.budget = 60}).conclusion.kind;
      recommended += said == "worth-it" || said == "hardly-worth-it" ? 1 : 0;
      better += said == "unconfirmed" ? 1 : 0;
    }
    RecordProperty(kind.name, fmt::format("{} {}", recommended, better));
    EXPECT_LE(recommended + better, trials / 20) << kind.name;
  }
}

}  // namespace
