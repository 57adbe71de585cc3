#include "check/command/verdict.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "check/command/run.hpp"
#include "support/command/provenance.hpp"
#include "support/process/process.hpp"

namespace usher::check::command {
namespace {

constexpr std::size_t most_recorded = 3;  // failures with their steps
constexpr std::size_t most_steps = 60;    // of each, the last ones

failure failure_of(const part& p, const verdict& v) {
  return {p.form->name, p.scenario, p.threads, v.why, v.state, 0, {}};
}

/// Sums the chunks of a part up to the first that failed.
outcome outcome_of(const goal& g, std::size_t part) {
  outcome sum;
  for (std::size_t i = 0; i < g.chunks.size(); ++i) {
    const chunk& c = g.chunks[i];
    if (c.part != part || (g.must_fail && i > g.first_failure)) continue;
    if (!c.said) {
      sum.finished = false;
      continue;
    }
    for (const verdict& v : c.said->verdicts) {
      sum.executions += v.executions;
      sum.programs += v.programs;
      sum.seconds += v.seconds;
    }
    if (const verdict* v = c.failure()) {
      sum.failed = failure_of(g.parts[part], *v);
      break;
    }
  }
  return sum;
}

/// Sums all parts of a goal that must fail, up to the first chunk that failed.
outcome outcome_of(const goal& g) {
  outcome sum;
  for (std::size_t p = 0; p < g.parts.size(); ++p) {
    const outcome one = outcome_of(g, p);
    sum.executions += one.executions;
    sum.programs += one.programs;
    sum.seconds += one.seconds;
    sum.finished = sum.finished && one.finished;
  }
  if (g.first_failure != goal::none) {
    const chunk& c = g.chunks[g.first_failure];
    sum.failed = failure_of(g.parts[c.part], *c.failure());
    sum.finished = true;
  }
  return sum;
}

std::vector<std::string> forms_of(const goal& g) {
  std::vector<std::string> forms;
  for (const part& p : g.parts)
    if (forms.empty() || forms.back() != p.form->name) forms.push_back(p.form->name);
  return forms;
}

order_result order_of(const goal& g) {
  const order_site& s = *g.weakened;
  return {g.family, short_name(s.file),          s.line,      s.column,
          s.made,   source_line(s.file, s.line), forms_of(g), outcome_of(g)};
}

bool is_good(const results& r) {
  return std::all_of(r.parts.begin(), r.parts.end(), [](const part_result& p) { return !p.seen.failed; }) &&
         std::all_of(r.mutants.begin(), r.mutants.end(),
                     [](const mutant_result& m) { return m.seen.failed || m.may_escape(); });
}

results settings_of(const options& o) {
  results r;
  r.usher = USHER_VERSION;
  r.date = support::utc_now();
  r.kind = o.weaken ? goal_kind::orders : o.mutants ? goal_kind::mutants : goal_kind::pass;
  r.scheduler = o.scheduler;
  r.differences = o.differences;
  r.programs = o.random() ? 0 : o.programs;
  r.acquisitions = o.acquisitions;
  r.seed = o.seed;
  r.executions = o.executions;
  return r;
}

}  // namespace

results results_of(const options& o, const std::vector<goal>& goals, bool works) {
  results r = settings_of(o);
  for (const goal& g : goals) {
    if (r.kind == goal_kind::orders)
      r.orders.push_back(order_of(g));
    else if (r.kind == goal_kind::mutants)
      r.mutants.push_back({g.family, g.mutation, forms_of(g), outcome_of(g)});
    else
      for (std::size_t i = 0; i < g.parts.size(); ++i)
        r.parts.push_back({g.parts[i].form->name, g.family, g.parts[i].scenario, g.parts[i].threads, outcome_of(g, i)});
  }
  r.interrupted = support::interrupted() != 0;
  r.good = works && is_good(r);
  return r;
}

void record_steps(const options& o, const std::vector<goal>& goals, results& r) {
  if (r.kind != goal_kind::pass) return;
  std::size_t recorded = 0, at = 0;
  for (const goal& g : goals) {
    bool first = true;  // one failure of each target
    for (std::size_t i = 0; i < g.parts.size(); ++i) {
      std::optional<failure>& f = r.parts[at++].seen.failed;
      if (!f || !std::exchange(first, false) || recorded == most_recorded || support::interrupted() != 0) continue;
      const auto failed = std::find_if(g.chunks.begin(), g.chunks.end(),
                                       [&](const chunk& c) { return c.part == i && c.failure() != nullptr; });
      f->steps = steps_of(o, g, g.parts[i], *failed->failure());
      f->steps_before = f->steps.size() - std::min(f->steps.size(), most_steps);
      f->steps.erase(f->steps.begin(), f->steps.begin() + static_cast<std::ptrdiff_t>(f->steps_before));
      ++recorded;
    }
  }
}

}  // namespace usher::check::command
