#include "check/command/check_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "check/command/check_options.hpp"
#include "check/command/interleaving.hpp"
#include "support/text/table.hpp"

namespace usher::check::command {
namespace {

using rows = std::vector<std::vector<std::string>>;

const char* plural(std::uint64_t n) {
  return n == 1 ? "" : "s";
}

std::uint64_t seeds_of(const results& r, const outcome& o) {
  if (r.random()) return o.executions;
  return o.programs + (r.is_complete(o) ? 0 : 1);
}

/// "1–20000"
std::string range_from(std::uint64_t first, std::uint64_t count) {
  return fmt::format("{}–{}", first, first + std::max<std::uint64_t>(count, 1) - 1);
}

void add_row(rows& to, const results& r, const part_result& p, const std::string& scenarios, const std::string& verdict,
             const outcome& o, std::uint64_t seeds) {
  to.push_back({p.lock, std::to_string(p.threads), scenarios, verdict, std::to_string(o.executions),
                o.executions == 0 ? "" : range_from(r.seed, seeds), fmt::format("{:.1f}", o.seconds)});
}

/// One row for all passed scenarios of one form with the same number of threads.
struct passed_row {
  std::string scenarios;
  outcome sum;
  std::uint64_t seeds = 0;

  void add(const results& r, const part_result& p) {
    scenarios += (scenarios.empty() ? "" : " ") + p.scenario;
    sum.executions += p.seen.executions;
    sum.seconds += p.seen.seconds;
    seeds = std::max(seeds, seeds_of(r, p.seen));
  }
};

/// Adds the rows of the parts that have the form and the number of threads of part `begin`. Returns the index of the
/// next part.
std::size_t add_rows_of_form(rows& to, const results& r, std::size_t begin) {
  const part_result& first = r.parts[begin];
  passed_row complete, incomplete;
  std::vector<const part_result*> others;
  std::size_t end = begin;
  for (; end < r.parts.size() && r.parts[end].lock == first.lock && r.parts[end].threads == first.threads; ++end) {
    const part_result& p = r.parts[end];
    if (p.seen.failed || !p.seen.finished)
      others.push_back(&p);
    else
      (r.is_complete(p.seen) ? complete : incomplete).add(r, p);
  }
  if (!complete.scenarios.empty()) add_row(to, r, first, complete.scenarios, "pass", complete.sum, complete.seeds);
  if (!incomplete.scenarios.empty())
    add_row(to, r, first, incomplete.scenarios, "pass, not complete", incomplete.sum, incomplete.seeds);
  for (const part_result* p : others)
    add_row(to, r, *p, p->scenario, p->seen.failed ? "FAIL: " + p->seen.failed->why : "not finished", p->seen,
            seeds_of(r, p->seen));
  return end;
}

/// Appends the verdict; the form, scenario and number of threads that caught the mistake; the seed; the number of
/// executions.
void append_caught(std::vector<std::string>& row, const outcome& o, const char* not_caught) {
  row.emplace_back(!o.finished ? "not finished" : o.failed ? "caught" : not_caught);
  row.push_back(o.failed ? fmt::format("{} {}, {} threads", o.failed->lock, o.failed->scenario, o.failed->threads)
                         : "");
  row.push_back(o.failed ? o.failed->replay : "");
  row.push_back(std::to_string(o.executions));
}

rows rows_of(const results& r) {
  rows all;
  for (std::size_t at = 0; at < r.parts.size();) at = add_rows_of_form(all, r, at);
  for (const mutant_result& m : r.mutants) {
    all.push_back({m.name, m.mutation});
    append_caught(all.back(), m.seen, m.may_escape() ? "not caught" : "NOT CAUGHT");
  }
  for (const order_result& o : r.orders) {
    all.push_back({o.lock, fmt::format("{}:{}", o.file, o.line), o.made, o.code});
    append_caught(all.back(), o.seen, "survives");
  }
  return all;
}

std::vector<support::column> columns_of(const results& r) {
  if (r.kind == goal_kind::pass)
    return {{"lock"},
            {"threads", true},
            {"scenarios", false, 18},
            {"verdict", false, 20},
            {"executions", true},
            {r.random() ? "seeds" : "programs"},
            {"seconds", true}};
  std::vector<support::column> columns{{"mutant"}, {"mutation", false, 24}};
  if (r.kind == goal_kind::orders) columns = {{"lock"}, {"order at"}, {"made"}, {"code", false, 24}};
  for (const support::column& c : {support::column{"verdict"}, support::column{"caught by", false, 16},
                                   support::column{"seed", true}, support::column{"executions", true}})
    columns.push_back(c);
  return columns;
}

// Texts for planned rows, as wide as those of any result: the widths of the columns are computed from them.
constexpr const char *usual_verdict = "pass, not complete  ", *usual_seconds = "99999.9";

void add_planned_catch(std::vector<std::string>& row, const results& r, const std::vector<std::string>& forms) {
  std::string longest;
  for (const std::string& f : forms) longest = f.size() > longest.size() ? f : longest;
  for (const std::string& cell : {std::string("not finished"), longest + " progress, 4 threads",
                                  std::to_string(r.seed + r.executions), std::to_string(r.executions)})
    row.push_back(cell);
}

rows planned_rows(const results& r) {
  rows all;
  for (std::size_t at = 0; at < r.parts.size();) {
    const part_result& first = r.parts[at];
    std::string scenarios;
    std::uint64_t count = 0;
    for (; at < r.parts.size() && r.parts[at].lock == first.lock && r.parts[at].threads == first.threads; ++at, ++count)
      scenarios += (count == 0 ? "" : " ") + r.parts[at].scenario;
    all.push_back({first.lock, std::to_string(first.threads), scenarios, usual_verdict,
                   std::to_string(r.executions * count), range_from(r.seed, r.executions), usual_seconds});
  }
  for (const mutant_result& m : r.mutants) {
    all.push_back({m.name, m.mutation});
    add_planned_catch(all.back(), r, m.forms);
  }
  for (const order_result& o : r.orders) {
    all.push_back({o.lock, fmt::format("{}:{}", o.file, o.line), o.made, o.code});
    add_planned_catch(all.back(), r, o.forms);
  }
  return all;
}

struct caught_counts {
  std::size_t all = 0, caught = 0, survive = 0;  // the rest is not finished
  std::uint64_t executions = 0;
};

template <class Result>
caught_counts count(const std::vector<Result>& all) {
  caught_counts c;
  c.all = all.size();
  for (const Result& one : all) {
    c.executions += one.seen.executions;
    if (one.seen.finished) ++(one.seen.failed ? c.caught : c.survive);
  }
  return c;
}

std::string summary_of_parts(const results& r) {
  std::set<std::string> families;
  std::size_t failed = 0, complete = 0;
  std::uint64_t executions = 0;
  for (const part_result& p : r.parts) {
    families.insert(p.family);
    executions += p.seen.executions;
    if (p.seen.failed)
      ++failed;
    else if (p.seen.finished && r.is_complete(p.seen))
      ++complete;
  }
  std::string text =
      fmt::format("{} lock{}, {} scenario runs in {} executions: {}.", families.size(), plural(families.size()),
                  r.parts.size(), executions, failed == 0 ? "all pass" : fmt::format("{} fail", failed));
  if (r.random() || r.programs == 0) return text;
  const std::string range = r.scheduler == "full" ? std::string("all executions")
                                                  : fmt::format("all executions with at most {} difference{}",
                                                                r.differences, plural(r.differences));
  return text + fmt::format("\n{} of {} searches were complete: {} of {} program{}.", complete, r.parts.size(), range,
                            r.programs, plural(r.programs));
}

std::string replay_command(const results& r, const failure& f) {
  return fmt::format("usher check {} --scenario {} --threads {}{} --replay {}", f.lock, f.scenario, f.threads,
                     r.acquisitions == default_acquisitions ? "" : fmt::format(" --acquisitions {}", r.acquisitions),
                     f.replay);
}

}  // namespace

result_table::result_table(const results& planned, std::size_t width)
    : table_(columns_of(planned), planned_rows(planned), width) {}

std::string result_table::rows(const results& some) const {
  std::string text;
  for (const auto& row : rows_of(some)) text += table_.row(row);
  return text;
}

std::string table_text(const results& r, std::size_t width) {
  const result_table table(r, width);
  return table.heading() + table.rows(r);
}

std::string failures_text(const results& r, std::size_t width) {
  std::string text;
  for (const part_result& p : r.parts) {
    if (!p.seen.failed) continue;
    const failure& f = *p.seen.failed;
    text += fmt::format("\n{}, {}, {} threads{}: {}\n", f.lock, f.scenario, f.threads,
                        f.replay.empty() ? "" : ", seed " + f.replay, f.why);
    text += format_interleaving(f.steps, f.steps_before, f.threads, width);
    if (!f.replay.empty()) text += "Again: " + replay_command(r, f) + "\n";
  }
  return text;
}

std::string summary_text(const results& r) {
  if (r.kind == goal_kind::pass) return summary_of_parts(r);
  const caught_counts c = r.kind == goal_kind::mutants ? count(r.mutants) : count(r.orders);
  if (r.kind == goal_kind::mutants)
    return fmt::format("{} mutant{}, {} of them caught, in {} executions.", c.all, plural(c.all), c.caught,
                       c.executions);
  return fmt::format("{} order{} weakened, one at a time: {} caught, {} survive, in {} executions.", c.all,
                     plural(c.all), c.caught, c.survive, c.executions);
}

}  // namespace usher::check::command
