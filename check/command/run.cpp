#include "check/command/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "support/process/process.hpp"
#include "support/process/side_by_side.hpp"
#include "support/text/messages.hpp"
#include "support/text/progress.hpp"

namespace usher::check::command {
namespace {

class runner {
 public:
  runner(const options& o, std::vector<goal>& goals, const std::function<void(const goal&)>& ended)
      : options_(o), goals_(goals), ended_(ended), bar_(chunks_of(goals), o.quiet) {
    for (const goal& g : goals) left_.push_back(g.chunks.size());
  }

  bool run_all() {
    support::run_side_by_side(
        options_.jobs, [&] { return next(); }, [&](std::size_t id, const support::ended_run& run) { end(id, run); });
    return works_;
  }

 private:
  static std::size_t chunks_of(const std::vector<goal>& goals) {
    std::size_t n = 0;
    for (const goal& g : goals) n += g.chunks.size();
    return n;
  }

  /// Whether the chunk need not run because an earlier chunk of its goal, or of its part, has failed. Chunks that have
  /// already started are not stopped, so the first failure does not depend on the number of jobs.
  static bool is_over(const goal& g, const chunk& c) {
    if (g.must_fail) return g.first_failure != goal::none;
    return std::any_of(g.chunks.begin(), g.chunks.end(), [&](const chunk& other) {
      return other.part == c.part && other.seed < c.seed && other.failure() != nullptr;
    });
  }

  /// Counts a chunk that has ended or was skipped. Reports goals that have no chunks left, in the order of the goals.
  void one_less(std::size_t goal) {
    --left_[goal];
    for (; known_ < goals_.size() && works_ && left_[known_] == 0; ++known_) {
      bar_.clear();
      ended_(goals_[known_]);
    }
  }

  std::optional<support::command_to_run> next() {
    for (; goal_ < goals_.size() && works_; ++goal_, chunk_ = 0) {
      const goal& g = goals_[goal_];
      for (; chunk_ < g.chunks.size(); ++chunk_) {
        const chunk& c = g.chunks[chunk_];
        if (is_over(g, c)) {
          bar_.skip(1);
          one_less(goal_);
          continue;
        }
        const part& p = g.parts[c.part];
        bar_.show(g.weakened ? g.family + " " + name_of(*g.weakened) : p.form->name + " " + p.scenario);
        started_.emplace_back(goal_, chunk_++);
        return support::command_to_run{words_of(g, c), time_limit(c.count), started_.size() - 1};
      }
    }
    return std::nullopt;
  }

  std::vector<std::string> words_of(const goal& g, const chunk& c) const {
    auto words = command_of(options_, g.parts[c.part], g.weakened);
    words.insert(words.end(), {"--no-history", "--executions", std::to_string(c.count), "--seed",
                               std::to_string(c.seed), "--scheduler", options_.scheduler});
    if (options_.scheduler == "bound")
      words.insert(words.end(), {"--differences", std::to_string(options_.differences)});
    if (!options_.random() && options_.programs != 0)
      words.insert(words.end(), {"--programs", std::to_string(options_.programs)});
    return words;
  }

  void end(std::size_t id, const support::ended_run& run) {
    bar_.one_done();
    const auto [at_goal, at_chunk] = started_[id];
    goal& g = goals_[at_goal];
    chunk& c = g.chunks[at_chunk];
    c.said = reply_of(run, time_limit(c.count));
    if (c.said->verdicts.empty() || c.said->verdicts.back().way == verdict::kind::broken) works_ = false;
    if (c.failure() != nullptr) g.first_failure = std::min(g.first_failure, at_chunk);
    one_less(at_goal);
  }

  const options& options_;
  std::vector<goal>& goals_;
  const std::function<void(const goal&)>& ended_;
  support::progress bar_;
  std::vector<std::size_t> left_;                             // chunks of each goal
  std::size_t known_ = 0;                                     // goals that have been reported
  std::vector<std::pair<std::size_t, std::size_t>> started_;  // goal and chunk of each run
  std::size_t goal_ = 0, chunk_ = 0;                          // the next to start
  bool works_ = true;
};

}  // namespace

bool run(const options& o, std::vector<goal>& goals, const std::function<void(const goal&)>& ended) {
  return runner(o, goals, ended).run_all();
}

std::vector<step> steps_of(const options& o, const goal& g, const part& p, const verdict& v) {
  if (v.state.empty()) return {};
  auto words = command_of(o, p, g.weakened);
  words.insert(words.end(), {"--replay", v.state});
  // A checker that crashes cannot print the steps at the end, so it prints each step at once.
  if (v.way != verdict::kind::fail) words.emplace_back("--at-once");
  const double limit = v.way == verdict::kind::hung ? 5 : 60;
  std::vector<step> steps = reply_of(support::run_command(words, limit), limit).steps;
  if (v.way != verdict::kind::fail && !steps.empty()) {
    step last;
    last.thread = steps.back().thread;
    last.what = v.why;
    steps.push_back(last);
  }
  return steps;
}

std::optional<outcome> replay(const options& o, const std::string& checker, const goal& g) {
  const part& p = g.parts.front();
  auto words = command_of(o, p, g.weakened);
  words.insert(words.end(), {"--replay", o.replay, "--no-history"});
  const support::ended_run run = support::run_command(words, time_limit(1));
  outcome seen;
  seen.executions = 1;
  if (support::interrupted() != 0) {
    seen.finished = false;
    return seen;
  }
  const reply r = reply_of(run, time_limit(1));
  if (r.verdicts.empty() || r.verdicts.back().way == verdict::kind::broken) {
    support::report_error("check: {}", r.verdicts.empty() ? checker + " does not answer" : r.verdicts.back().why);
    return std::nullopt;
  }
  verdict v = r.verdicts.back();
  v.state = o.replay;
  if (v.failed()) seen.failed = failure{p.form->name, p.scenario, p.threads, v.why, v.state, 0, steps_of(o, g, p, v)};
  return seen;
}

}  // namespace usher::check::command
