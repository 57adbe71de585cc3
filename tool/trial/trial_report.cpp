#include "tool/trial/trial_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <tuple>

#include "support/measure/statistics.hpp"
#include "support/process/scratch_file.hpp"
#include "support/text/colour.hpp"
#include "support/text/duration.hpp"
#include "support/text/table.hpp"
#include "support/text/utf8.hpp"
#include "support/text/words.hpp"
#include "support/text/wrap.hpp"
#include "tool/trial/conclusion.hpp"
#include "tool/trial/quantities.hpp"

namespace usher::tool::trial {
namespace {

constexpr std::size_t usual_width = 80;
constexpr const char* winner_mark = "* ";

bool is_reference(const trial_results& t, const candidate_result& c) {
  return &c == &t.reference();
}
bool is_winner(const trial_results& t, const candidate_result& c) {
  return t.winner == c.name;
}
/// The candidates, sorted by speed-up, the winner first. The reference counts as neutral; candidates without a speed-up are
/// last. A candidate that was dropped as behind another is never above all others: its median is of fewer rounds.
std::vector<const candidate_result*> best_first(const trial_results& t) {
  std::vector<const candidate_result*> sorted;
  sorted.reserve(t.candidates.size());
  for (const candidate_result& c : t.candidates) sorted.push_back(&c);
  const auto figure = [&](const candidate_result& c) {
    return is_reference(t, c) ? t.neutral() : c.speed_up.value_or(-HUGE_VAL);
  };
  double best = -HUGE_VAL;
  for (const candidate_result& c : t.candidates)
    if (!c.is_behind()) best = std::max(best, figure(c));
  const auto worth = [&](const candidate_result* c) {
    return std::tuple(is_winner(t, *c), std::min(figure(*c), best), !c->is_behind());
  };
  std::stable_sort(sorted.begin(), sorted.end(), [&](auto* a, auto* b) { return worth(a) > worth(b); });
  return sorted;
}

std::string median_text(const trial_results& t, const candidate_result& c) {
  const auto values = c.values(metric_of);
  return values.empty() ? "-" : quantity(support::median(values)) + t.unit();
}

std::string speed_up_text(const trial_results& t, const candidate_result& c) {
  if (is_reference(t, c)) return t.has_ratios ? "1" : "0";
  if (!c.speed_up) return "-";
  const std::string limits = limits_text(c.limits, t.has_ratios);
  return (t.has_ratios ? factor(*c.speed_up) : signed_quantity(*c.speed_up)) +
         (limits.empty() ? "" : " (" + limits + ")");
}

/// The median CPU time relative to the reference's.
std::string cpu_text(const trial_results& t, const candidate_result& c) {
  const auto mine = c.values(cpu_of), theirs = t.reference().values(cpu_of);
  if (mine.empty() || theirs.empty() || support::median(theirs) <= 0) return "-";
  return is_reference(t, c) ? "1" : factor(support::median(mine) / support::median(theirs));
}

std::string verdict_word(const trial_results& t, const candidate_result& c) {
  switch (c.judged) {
    case verdict::reference:
      return "the C library's";
    case verdict::better:
      return is_winner(t, c) ? "better" : "better, not chosen";
    case verdict::worse:
      return "worse";
    case verdict::level:
      return "no different";
    case verdict::undecided:
      return "undecided";
    case verdict::failed:
      return "failed";
  }
  return "";
}

/// The verdict, and the reason why the candidate was dropped unless the verdict implies it.
std::string verdict_text(const trial_results& t, const candidate_result& c) {
  std::string text = verdict_word(t, c);
  if (c.judged == verdict::better && t.winner.empty()) text = "better";
  if (is_reference(t, c) && !c.errors.empty()) text += "; see below";
  if (!is_reference(t, c) && !c.is_clean()) text += c.judged == verdict::failed ? ": see below" : "; see below";
  if (!c.dropped || c.judged == verdict::failed) return text;
  if (c.dropped->why == text) return text + fmt::format("; dropped in round {}", c.dropped->round);
  return text + fmt::format("; dropped: {}, round {}", c.dropped->why, c.dropped->round);
}

std::vector<std::string> columns_of(const trial_results& t, const candidate_result& c) {
  return {c.name, median_text(t, c), speed_up_text(t, c), cpu_text(t, c), verdict_text(t, c)};
}

std::string heading_of_speed_up(const trial_results& t) {
  return t.has_ratios ? "speed-up (95 %)" : "better by (95 %)";
}

/// The errors of a candidate.
std::vector<std::string> remarks(const trial_results& t, const candidate_result& c) {
  std::vector<std::string> all = c.errors;
  if (c.failed_runs > 0) all.push_back(fmt::format("{} of {} failed", c.failed_runs, with_noun(c.runs.size(), "run")));
  if (c.first_difference != 0) all.push_back(fmt::format("PRINTED SOMETHING ELSE (line {})", c.first_difference));
  if (c.cut != 0)
    all.push_back(fmt::format("printed {} MiB: only the first and the last {} were read", c.cut >> 20,
                              support::scratch_file::kept_end >> 20));
  if (!is_reference(t, c) && !c.speed_up && !c.values(metric_of).empty())
    all.push_back(fmt::format("no round in which {} went well, too", t.reference_text()));
  return all;
}

/// A paragraph, broken for a terminal of that width (0: 80 columns).
std::string in_lines(const std::string& paragraph, std::size_t width) {
  std::string text;
  for (const std::string& line : support::broken(paragraph, width == 0 ? usual_width : width)) text += line + "\n";
  return text;
}

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string text;
  for (const std::string& p : parts) text += (text.empty() ? "" : between) + p;
  return text;
}

/// Returns the table with colours in the lines of the winner and of candidates with failures.
std::string painted(const trial_results& t, const std::string& table) {
  std::string text;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    support::text_colour c = support::text_colour::none;
    for (const candidate_result& one : t.candidates) {
      const bool wins = is_winner(t, one);
      if (!line.starts_with((wins ? winner_mark : "  ") + one.name + " ")) continue;
      if (wins) c = support::text_colour::good;
      if (one.judged == verdict::failed || one.first_difference != 0) c = support::text_colour::bad;
    }
    text += support::coloured(line, c) + "\n";
  }
  return text;
}

std::string median_of(const candidate_result& c, double (*get)(const run_result&)) {
  return quantity(support::median(c.values(get)));
}

std::vector<std::string> detail_columns(const candidate_result& c) {
  const auto values = c.values(metric_of);
  std::string range = "-", calls = "-", contended = "-";
  if (!values.empty())
    range = quantity(*std::min_element(values.begin(), values.end())) + "–" +
            quantity(*std::max_element(values.begin(), values.end()));
  if (c.calls) {
    const auto locks = static_cast<double>(c.calls->locks) + static_cast<double>(c.calls->rwlocks);
    calls = quantity(locks);
    if (locks > 0)
      contended = fmt::format(
          "{:.1f} %",
          100 * (static_cast<double>(c.calls->contended) + static_cast<double>(c.calls->contended_rwlocks)) / locks);
  }
  return {c.name,
          range,
          fmt::format("{}", c.values(metric_of).size()),
          median_of(c, cpu_of),
          median_of(c, [](const run_result& r) { return static_cast<double>(r.voluntary_switches); }),
          median_of(c, [](const run_result& r) { return static_cast<double>(r.involuntary_switches); }),
          median_of(c, [](const run_result& r) { return static_cast<double>(r.peak_kib) / 1024; }),
          calls,
          contended};
}

}  // namespace

std::string table_text(const trial_results& t, std::size_t width, bool colours) {
  std::vector<std::vector<std::string>> rows;
  for (const candidate_result* c : best_first(t)) {
    rows.push_back(columns_of(t, *c));
    rows.back().front().insert(0, is_winner(t, *c) ? winner_mark : "  ");
  }
  const std::string table = support::format_table(
      {{"  lock"}, {"median", true}, {heading_of_speed_up(t)}, {"CPU", true}, {"verdict", false, 16}}, rows,
      width == 0 ? usual_width : width);
  return colours ? painted(t, table) : table;
}

std::string markdown_table(const trial_results& t) {
  std::string text =
      fmt::format("| lock | median | {} | CPU | verdict |\n|---|---:|---:|---:|---|\n", heading_of_speed_up(t));
  for (const candidate_result* c : best_first(t)) {
    std::vector<std::string> cells = columns_of(t, *c);
    cells.front() = is_winner(t, *c) ? "**`" + cells.front() + "`**" : "`" + cells.front() + "`";
    for (std::string& cell : cells)
      for (std::size_t at = 0; (at = cell.find('|', at)) != std::string::npos; at += 2) cell.insert(at, "\\");
    text += support::printable_line("| " + joined(cells, " | ") + " |") + "\n";
  }
  return text;
}

std::string notes_text(const trial_results& t) {
  std::string text;
  for (const candidate_result& c : t.candidates)
    if (const auto all = remarks(t, c); !all.empty())
      text += support::printable_line(c.name + ": " + joined(all, "; ")) + "\n";
  if (!t.has_ratios) text += "The metric is zero or negative in some run: differences are compared.\n";
  return text;
}

std::string details_text(const trial_results& t, std::size_t width) {
  std::vector<std::vector<std::string>> rows;
  for (const candidate_result* c : best_first(t)) rows.push_back(detail_columns(*c));
  return support::format_table({{"lock"},
                                {"range", true},
                                {"runs", true},
                                {"CPU s", true},
                                {"switches", true},
                                {"preempted", true},
                                {"MiB", true},
                                {"lock calls", true},
                                {"contended", true}},
                               rows, width);
}

std::string bars_text(const trial_results& t, std::size_t width) {
  const std::size_t name = t.tries_read_write_locks() ? 20 : 16;
  const std::size_t room = std::clamp<std::size_t>(width == 0 ? usual_width : width, 50, 120) - name - 14;
  double most = 1;
  for (const candidate_result& c : t.candidates)
    if (c.speed_up && t.has_ratios) most = std::max(most, *c.speed_up);
  std::string text = fmt::format("speed-up over {} (above 1 is better)\n", t.reference_text());
  for (const candidate_result* c : best_first(t)) {
    const double value = is_reference(t, *c) ? 1 : c->speed_up.value_or(-1);
    if (value < 0 || !t.has_ratios) continue;
    const auto bar = static_cast<std::size_t>(value / most * static_cast<double>(room));
    text += fmt::format("{:<{}} {}{} {:.2f}\n", support::printable_line(c->name), name, std::string(bar, '#'),
                        std::string(room - bar, ' '), value);
  }
  return text;
}

std::string summary_text(const trial_results& t, std::size_t width) {
  std::string text =
      in_lines(fmt::format("{} in {}{}; others and the hypervisor took {:.0f} % of the CPU time meanwhile.",
                           with_noun(t.rounds, "round"), support::duration_text(t.seconds),
                           t.interrupted ? ", interrupted" : "", 100 * t.others_cpu_share),
               width);
  if (t.others_cpu_share > busy) text += in_lines("That is much: it may hide differences.", width);
  return text;
}

std::string conclusion_text(const trial_results& t, std::size_t width) {
  if (!t.conclusion) return "";
  std::string text;
  std::istringstream paragraphs(t.conclusion->text);
  for (std::string line; std::getline(paragraphs, line);) text += in_lines(line, width);
  if (!t.conclusion->command.empty()) text += "  " + support::printable_line(t.conclusion->command) + "\n";
  return text;
}

}  // namespace usher::tool::trial
