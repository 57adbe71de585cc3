// usher try: runs a program under several locks in turns and compares them. trial/ has the method; this file has the options and the
// output.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "support/process/files.hpp"
#include "support/process/launch.hpp"
#include "support/process/preload.hpp"
#include "support/process/process.hpp"
#include "support/text/duration.hpp"
#include "support/text/help.hpp"
#include "support/text/input_file.hpp"
#include "support/text/messages.hpp"
#include "support/text/output_file.hpp"
#include "support/text/table.hpp"
#include "support/text/utf8.hpp"
#include "support/text/words.hpp"
#include "tool/commands.hpp"
#include "tool/trial/candidates.hpp"
#include "tool/trial/metric.hpp"
#include "tool/trial/rounds.hpp"
#include "tool/trial/trial_json.hpp"
#include "tool/trial/trial_options.hpp"
#include "tool/trial/trial_report.hpp"

namespace usher::tool {
namespace {

using try_options = trial::options;

/// The file of the results.
struct try_output {
  support::output_file json;
  bool json_on_stdout = false;

  /// False after an error message.
  bool open(const try_options& o) {
    json_on_stdout = o.json == "-";
    return json_on_stdout || json.open(o.json);
  }
};

std::string no_limit(const std::string& text) {
  char* rest = nullptr;
  const double v = std::strtod(text.c_str(), &rest);
  const bool good = rest != text.c_str() && *rest == '\0' && std::isfinite(v) && v > 0;
  return good ? "" : fmt::format("'{}' is no number of seconds above 0", text);
}

std::string no_duration(const std::string& text) {
  return support::duration_of(text) ? "" : fmt::format("'{}' is no duration above 0, as 90s, 2m or 1h30m", text);
}

std::string no_colour_word(const std::string& text) {
  return support::colour_when_of(text) ? "" : fmt::format("'{}' is none of auto, always, never", text);
}

/// False after an error message.
bool read_metric_option(const try_options& o, std::optional<metric_pattern>& metric) {
  if (o.metric.empty()) return true;
  try {
    metric.emplace(o.metric);
  } catch (const bad_pattern& e) {
    support::report_error("--metric '{}' is no regular expression: {}", o.metric, e.what());
    return false;
  }
  if (!metric->has_group())
    support::report_error("--metric '{}' has no group: put parentheses round the number, as in 'rate: ([0-9.]+)'",
                          o.metric);
  return metric->has_group();
}

/// False after an error message.
bool check_usage(const try_options& o, char** command) {
  if (command[0] == nullptr && o.show.empty()) {
    support::report_error("try: which command? usher try [OPTIONS] -- CMD [ARGS...] (see usher try --help)");
    return false;
  }
  if (command[0] != nullptr && !o.show.empty()) {
    support::report_error("--show {} shows a finished trial: it takes no command", o.show);
    return false;
  }
  if (!o.ready.empty() && o.until.empty()) {
    support::report_error("--ready is for servers, whose load is run by --until");
    return false;
  }
  return true;
}

/// Prints table, remarks and conclusion on standard output, or on standard error if the JSON goes to standard output.
void print_report(const trial::trial_results& t, const try_options& o, std::FILE* to) {
  const std::size_t width = to == stdout ? support::terminal_width() : 0;
  std::string text;
  // Makes all parts but the table printable, since the results may come from a file of another user. The table contains
  // colour codes, and its cells are printable already.
  const auto add = [&text](const std::string& part) { text += support::printable(part); };
  if (t.has_values()) {
    if (o.markdown)
      add(trial::markdown_table(t));
    else
      text += trial::table_text(t, width, support::has_colours(o.colours, to));
    if (const std::string notes = trial::notes_text(t); !notes.empty()) add("\n" + notes);
    if (o.details)
      add("\n" + (o.markdown ? "```text\n" + trial::details_text(t, 0) + "```\n" : trial::details_text(t, width)));
    if (o.plot) add("\n" + (o.markdown ? "```text\n" + trial::bars_text(t, 0) + "```\n" : trial::bars_text(t, width)));
    add("\n" + trial::summary_text(t, width));
  }
  add(trial::conclusion_text(t, width));
  fmt::print(to, "{}", text);
}

/// False after an error message.
bool write_json(const trial::trial_results& t, try_output& to) {
  if (!to.json.wanted() && !to.json_on_stdout) return true;
  // Bytes that are not UTF-8, which the output of programs may contain, are replaced.
  const std::string json =
      trial::json_of(t).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  if (!to.json_on_stdout) return to.json.write(json);
  fmt::print("{}", json);
  return true;
}

/// Reports a finished trial.
int show(const try_options& o) {
  std::string text;
  try {
    text = support::read_input(o.show);
  } catch (const support::bad_input& e) {
    support::report_error("cannot read {}: {}", o.show, e.what());
    return support::bad_usage;
  }
  try_output file;
  if (!file.open(o)) return support::cannot_start;
  try {
    const trial::trial_results t = trial::trial_from(support::parsed_json(text));
    print_report(t, o, file.json_on_stdout ? stderr : stdout);
    return write_json(t, file) ? 0 : int{support::cannot_start};
  } catch (const support::bad_input& e) {
    support::report_error("--show {}: {}", o.show, e.what());
  }
  return support::bad_usage;
}

bool has_errors(const trial::trial_results& t) {
  return std::any_of(t.candidates.begin(), t.candidates.end(), [](const auto& c) { return !c.is_clean(); });
}

int carry_out(const try_options& o, char** command) {
  std::optional<metric_pattern> metric;
  if (!check_usage(o, command) || !read_metric_option(o, metric)) return support::bad_usage;
  if (!o.show.empty()) return show(o);
  std::vector<trial::choice> candidates = trial::choose(o);
  if (candidates.empty()) return support::bad_usage;
  std::vector<support::wanted_locks> runs;
  for (const trial::choice& c : candidates) runs.push_back({c.locks.mutex, c.locks.rwlock});
  const auto found = support::find_library(runs);
  if (const auto* none = std::get_if<support::no_library>(&found)) {
    support::report_error("{}", none->reason);
    return support::cannot_start;
  }
  const auto& library = std::get<support::preload_library>(found);
  support::warn_of_hindrances(command[0], library.target);
  if (support::has_usher(support::environment("LD_PRELOAD"), library.path))
    support::warn("LD_PRELOAD has Usher's library already: it is removed for the C library's runs");
  if (!support::environment("USHER_RWLOCK").empty())
    support::warn("USHER_RWLOCK is set: it is ignored, --rwlocks says what is tried");

  try_output file;
  if (!file.open(o)) return support::cannot_start;
  support::watch_for_interruption();
  std::vector<std::string> words;
  for (char** w = command; *w != nullptr; ++w) words.emplace_back(*w);
  trial::rounds t(o, words, std::move(candidates), library, std::move(metric));
  const int stopped = t.run_all();
  bool written = true;
  if (stopped == 0 || t.results().has_values()) {
    print_report(t.results(), o, file.json_on_stdout ? stderr : stdout);
    written = write_json(t.results(), file);
  }
  if (stopped != 0) return stopped;
  if (!written) return support::cannot_start;
  return has_errors(t.results()) ? 1 : 0;
}

constexpr const char* try_notes =
    R"text(Runs the command under the C library's mutex and under some locks, in turns, until it
is certain whether one of them is better, or the budget is used up. Read-write locks are
tried if threads wait for them. Standard input, if it is a file, is given to each run from
its beginning; otherwise it is empty.

Examples:
  usher try -- ./bench
  usher try --budget 10m -- ./bench
  usher try --metric 'events: +([0-9]+)' -- sysbench threads --time=2 run
  usher try --locks steady,mcs --before 'rm -rf db' -- ./bench --db=db
  usher try --locks again=pthread --rounds 9 -- ./bench    # how much is noise?
  usher try --rwlocks phase-fair,bravo --locks pthread,steady -- ./bench
  usher try --until 'redis-benchmark -q -t set' --metric 'SET: ([0-9.]+)' \
            --ready 'redis-cli ping' -- redis-server

Exit status: 0; 1 if a run failed, hung or printed something else than under the C
library's mutex, or if the command also fails without Usher; 2 for bad usage or an
unknown lock; 125, 126, 127 as usher run; 130 if interrupted, 143 after SIGTERM, 129
after SIGHUP, 131 after SIGQUIT, with the table so far and the files so far.)text";

void add_trial_options(CLI::App& sub, try_options& o) {
  auto* locks = sub.add_option("--locks", o.locks,
                               fmt::format("The locks to compare with {}; LOCK may be LOCK+RWLOCK; NAME=LOCK shows "
                                           "LOCK as NAME, so that a lock may be tried twice (default: up to four that "
                                           "suit the program)",
                                           trial::c_library))
                    ->type_name("A,B,...");
  sub.add_option("--rwlocks", o.rwlocks,
                 fmt::format("Read-write locks to try, each with each of --locks (without --locks: with {} for "
                             "mutexes); {} is the C library's",
                             trial::c_library, trial::c_library))
      ->type_name("RWLOCK,...");
  sub.add_flag("--all", o.all, "All locks, each in its plain form")->excludes(locks);
  auto* budget = sub.add_option_function<std::string>(
                        "--budget", [&o](const std::string& text) { o.budget = *support::duration_of(text); },
                        "The longest duration of the trial: 90s, 2m, 1h30m (default: 2m). It ends earlier if the "
                        "answer is certain")
                     ->type_name("TIME")
                     ->check(no_duration);
  sub.add_option("--rounds", o.rounds, "Instead of a budget: exactly so many rounds of all candidates")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->excludes(budget);
  sub.add_option("--warmup", o.warmup,
                 "Runs of each lock before the first round; the last of them counts its calls (default: 1)")
      ->type_name("N")
      ->check(CLI::Range(0, 100));
  sub.add_option("--seed", o.seed, "Seed of the random order of the runs (default: another one each time)")
      ->type_name("N");
  sub.add_option("--metric", o.metric,
                 "A regular expression whose group is the number to compare, taken from its last match in the output; "
                 "more is better (default: the time of a run)")
      ->type_name("REGEX");
  auto* lower = sub.add_flag("--lower", o.lower, "Less of the metric is better");
  sub.add_flag("--higher", o.higher, "More of it is better")->excludes(lower);
  sub.add_option("--before", o.before,
                 "A shell command before each run; processes that it leaves running live as long as that run")
      ->type_name("CMD");
  sub.add_option("--until", o.until,
                 "The command is a server: run this shell command while it runs, take the metric from its output, and "
                 "then stop the server")
      ->type_name("CMD");
  sub.add_option("--ready", o.ready, "With --until: a shell command that succeeds once the server is ready")
      ->type_name("CMD");
  sub.add_option(
         "--timeout", o.timeout,
         "Kill a run after so many seconds (default: 10, plus ten times the latest successful run under the C library; "
         "before there is one, plus ten times the budget, or 3600 with --rounds)")
      ->type_name("S")
      ->check(no_limit);
}

void add_report_options(CLI::App& sub, try_options& o) {
  sub.add_flag("--details", o.details, "Also ranges, CPU seconds, context switches, memory and lock calls");
  sub.add_flag("--markdown", o.markdown, "The table as Markdown");
  sub.add_flag("--plot", o.plot, "Draw the speed-ups as bars, too");
  sub.add_option("--json", o.json,
                 "Write all results to this file; - is standard output, the table then goes to "
                 "standard error")
      ->type_name("FILE");
  sub.add_option("--show", o.show, "Run nothing: show the results that --json wrote to this file")->type_name("FILE");
  sub.add_option_function<std::string>(
         "--colour,--color", [&o](const std::string& word) { o.colours = *support::colour_when_of(word); },
         "Colours in the table: auto, always, never (default: auto, on a terminal, unless NO_COLOR is set)")
      ->type_name("WHEN")
      ->check(no_colour_word);
  sub.add_flag("--quiet", o.quiet, "No progress bar, and no message about the plan");
}

}  // namespace

support::subcommand try_locks(CLI::App& app) {
  auto* sub = app.add_subcommand("try", "Find out which lock suits a program on this machine");
  auto o = std::make_shared<try_options>();
  add_trial_options(*sub, *o);
  add_report_options(*sub, *o);
  sub->formatter(std::make_shared<support::help>("usher try [OPTIONS] -- CMD [ARGS...]"));
  sub->footer(try_notes);
  return {sub, [o](char** command) { return carry_out(*o, command); }, true};
}

}  // namespace usher::tool
