// usher check: runs locks under a relaxed-memory checker. The work is in checking/; this file has the options and the outputs.
#include <re2/re2.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "check/command/check.hpp"
#include "check/command/check_json.hpp"
#include "check/command/check_options.hpp"
#include "check/command/check_plan.hpp"
#include "check/command/check_report.hpp"
#include "check/command/checker.hpp"
#include "check/command/interleaving.hpp"
#include "check/command/run.hpp"
#include "check/command/verdict.hpp"
#include "support/process/process.hpp"
#include "support/text/help.hpp"
#include "support/text/input_file.hpp"
#include "support/text/messages.hpp"
#include "support/text/output_file.hpp"
#include "support/text/printable_json.hpp"
#include "support/text/table.hpp"

namespace usher::check::command {
namespace {

using check_options = command::options;

std::string list_of(const std::vector<command::target>& all, std::size_t width) {
  std::vector<std::vector<std::string>> rows;
  for (const command::target& t : all) {
    std::string scenarios;
    for (const std::string& s : t.scenarios) scenarios += (scenarios.empty() ? "" : " ") + s;
    rows.push_back({t.name, scenarios, t.mutation});
  }
  return support::format_table({{"lock"}, {"scenarios", false, 24}, {"mutation", false, 24}}, rows, width);
}

/// Treats the word `mutants` among the locks as --mutants without names. Returns false after an error message.
bool read_words(check_options& o) {
  const std::size_t words = std::erase(o.locks, "mutants");
  if (words != 0 && !o.locks.empty()) {
    support::report_error("check: 'mutants' stands for all mutants: no names beside it");
    return false;
  }
  o.mutants = o.mutants || words != 0;
  return true;
}

/// False after an error message.
bool is_about_something(const check_options& o) {
  if (!o.show.empty()) {
    if (o.locks.empty() && !o.all && !o.mutants && !o.list && o.replay.empty() && o.json.empty()) return true;
    support::report_error("check: --show {} shows a check that is over: no locks and no {} beside it", o.show,
                          !o.json.empty() ? "--json" : "--all, --mutants, --list, --replay");
    return false;
  }
  if (o.locks.empty() && !o.all && !o.mutants && !o.list) {
    support::report_error("check: which locks? usher check LOCK..., --all, or --mutants (see usher check --help)");
    return false;
  }
  if (o.all && (o.mutants || !o.locks.empty())) {
    support::report_error("check: --all is every lock, and no mutant: no {} beside it",
                          o.mutants ? "--mutants" : "names");
    return false;
  }
  return true;
}

/// False after an error message.
bool makes_sense(const check_options& o) {
  static const re2::RE2 state("[0-9]{1,18}(:[0-9]{1,18}(:[0-9]{1,6}\\.[0-9]{1,3})*)?");
  if (!is_about_something(o)) return false;
  if (o.weaken && (o.mutants || !o.replay.empty()))
    support::report_error("check: --weaken does not go with {}", o.mutants ? "--mutants" : "--replay");
  else if (!o.weaken_at.empty() && o.replay.empty())
    support::report_error("check: --weaken-at is for --replay; --weaken goes through all places");
  else if (!o.weaken_at.empty() && command::order_site_from(o.weaken_at).file.empty())
    support::report_error(
        "check: --weaken-at takes FILE:LINE:COLUMN or FILE:LINE:COLUMN:ORDER, where ORDER is one of {}",
        command::order_names());
  else if (o.programs != 0 && o.random())
    support::report_error("check: --programs goes with --scheduler bound or full");
  else if (!o.replay.empty() && !re2::RE2::FullMatch(o.replay, state))
    support::report_error("check: --replay takes what a failure has said, as 4711 or 7:3:12.1, not '{}'", o.replay);
  else
    return true;
  return false;
}

std::string failures_and_summary(const command::results& r, std::size_t width) {
  return fmt::format("{}\n{}{}\n", command::failures_text(r, width), r.interrupted ? "Interrupted. So far: " : "",
                     command::summary_text(r));
}

/// Shows the results that --json has written.
int show(const check_options& o) {
  std::string text;
  try {
    text = support::read_input(o.show);
  } catch (const support::bad_input& e) {
    support::report_error("cannot read {}: {}", o.show, e.what());
    return support::bad_usage;
  }
  try {
    auto said = support::parsed_json(text);
    support::make_printable(said);
    const command::results r = command::results_from(said);
    fmt::print("{}{}", command::table_text(r, support::terminal_width()),
               failures_and_summary(r, support::terminal_width()));
    return 0;
  } catch (const support::bad_input& e) {
    support::report_error("--show {}: {}", o.show, e.what());
  }
  return support::bad_usage;
}

int replay(const check_options& o, const std::string& checker, std::vector<command::goal>& goals) {
  command::goal& g = goals.front();
  if (goals.size() != 1 || g.parts.size() != 1) {
    support::report_error(
        "check: --replay is about one lock in one form, one scenario and one number of threads: name them "
        "(usher check twa-spin --scenario plain --threads 3 --replay {})",
        o.replay);
    return support::bad_usage;
  }
  const command::part& p = g.parts.front();
  if (!o.weaken_at.empty()) g.weakened = command::order_site_from(o.weaken_at);
  const auto seen = command::replay(o, checker, g);
  if (support::interrupted() != 0) return 128 + support::interrupted();
  if (!seen) return support::cannot_start;
  fmt::print("{}, {}, {} threads, seed {}: {}\n", p.form->name, p.scenario, p.threads, o.replay,
             seen->failed ? seen->failed->why : "pass");
  if (!seen->failed) return 0;
  fmt::print("{}", command::format_interleaving(seen->failed->steps, 0, p.threads, support::terminal_width()));
  return 1;
}

/// Runs the goals. Prints each row as soon as its outcome is known. The steps of failures come after all rows, since
/// finding them may take a minute for each failure.
int run(const check_options& o, std::vector<command::goal>& goals, support::output_file& json) {
  command::cut_into_chunks(o, goals);
  const command::result_table table(command::results_of(o, goals, true), support::terminal_width());
  const auto print = [](const std::string& text) {
    fmt::print("{}", text);
    std::fflush(stdout);
  };
  print(table.heading());
  std::size_t printed = 0;
  const bool works = command::run(o, goals, [&](const command::goal& g) {
    print(table.rows(command::results_of(o, {g}, true)));
    ++printed;
  });
  command::results r = command::results_of(o, goals, works);
  print(table.rows(command::results_of(o, {goals.begin() + static_cast<std::ptrdiff_t>(printed), goals.end()}, works)));
  command::record_steps(o, goals, r);
  r.interrupted = support::interrupted() != 0;
  fmt::print("{}", failures_and_summary(r, support::terminal_width()));
  const auto lenient = nlohmann::ordered_json::error_handler_t::replace;
  const bool written = !json.wanted() || json.write(command::json_of(r).dump(1, ' ', false, lenient) + "\n");
  if (support::interrupted() != 0) return 128 + support::interrupted();
  if (!written) return support::cannot_start;
  return r.good ? 0 : 1;
}

int carry_out(check_options o) {
  if (!read_words(o) || !makes_sense(o)) return support::bad_usage;
  if (!o.show.empty()) return show(o);
  const auto found = command::find_checker();
  if (const auto* none = std::get_if<command::no_checker>(&found)) {
    support::report_error("{}", none->reason);
    return support::cannot_start;
  }
  const std::string checker = std::get<std::string>(found);
  support::watch_for_interruption();
  const auto all = command::all_targets(checker);
  if (o.list) {
    fmt::print("{}", list_of(all, support::terminal_width()));
    return 0;
  }
  if (o.mutants && o.threads.empty())  // some mutants fail only with two threads, others only with four
    for (unsigned t = command::least_threads; t <= command::most_threads; ++t) o.threads.push_back(t);
  if (o.mutants && o.locks.empty() && !command::has_all_mutants(checker))
    support::report_error("check: only a few of the mutants are built; for all of them: make mutants");
  auto goals = command::choose(o, checker, all);
  if (!goals) return support::bad_usage;
  if (!o.replay.empty()) return replay(o, checker, *goals);
  support::output_file json;
  if (!json.open(o.json)) return support::cannot_start;
  if (o.weaken) {
    goals = command::weaken(o, checker, *goals);
    if (!goals) return support::cannot_start;
    if (support::interrupted() != 0) return 128 + support::interrupted();
    if (goals->empty()) {
      support::report_error("check: no order but relaxed in what is named");
      return support::bad_usage;
    }
  }
  return run(o, *goals, json);
}

constexpr const char* check_notes =
    R"text(Each lock is compiled, from the header that programs use, against a simulated memory
that returns every value that the C++ memory model allows, and driven by several
scenarios in random executions. An execution is drawn from its number, the seed, and so
can be replayed. A lock's name stands for its forms: mcs is mcs, mcs-spin, mcs-park.
A mutant is a lock with one mistake, which the checker must catch. Passing is evidence,
and no proof.

Examples:
  usher check twa
  usher check --all --threads 4 --executions 5000
  usher check mutants                      # are all mutants caught?
  usher check mcs-relaxed-hand-over        # how one of them fails
  usher check --weaken mcs                 # which memory orders are needed?

Exit status: 0 if all pass (--mutants: if all are caught); 1 if something fails; 2 for
bad usage or an unknown lock; 125 if there is no checker; 130 if interrupted.)text";

constexpr auto many = ~std::uint64_t{0} / 4;

void add_targets(CLI::App& sub, check_options& o) {
  sub.add_option("locks", o.locks, "Locks (twa), forms of them (twa-spin), others that --list shows; mutants")
      ->type_name("LOCK|mutants");
  sub.add_flag("--all", o.all, "All locks, read-write locks, waiting lists, condition variables and semaphores");
  sub.add_flag("--mutants", o.mutants, "The mutants named, or all: each must be caught");
  sub.add_flag("--list", o.list, "Show what can be checked, with its scenarios");
  sub.add_option("--forms", o.forms, "These forms alone: plain, spin, park")
      ->type_name("F,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"plain", "spin", "park"}));
  sub.add_option("--scenario", o.scenario, "This scenario alone")->type_name("SCENARIO");
  sub.add_option("--threads", o.threads,
                 "2, 3, 4, or several of them (default: 4 for locks with lists of waiters, else 3; --mutants: 2,3,4)")
      ->type_name("N,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(command::least_threads, command::most_threads));
}

void add_executions(CLI::App& sub, check_options& o) {
  sub.add_option("--executions", o.executions, "Of each scenario, for each number of threads (default: 20000)")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, many));
  sub.add_option("--seed", o.seed, "The number of the first execution (default: 1)")
      ->type_name("S")
      ->check(CLI::Range(std::uint64_t{1}, many));
  sub.add_option("--replay", o.replay,
                 "One execution, as a failure has named it: of one lock, scenario and number of threads")
      ->type_name("STATE");
  sub.add_option("--scheduler", o.scheduler,
                 "random, or bound: all executions of a program with few differences from the plain one, then of the "
                 "next program; full: all executions of a program (default: random)")
      ->type_name("random|bound|full")
      ->check(CLI::IsMember({"random", "bound", "full"}));
  sub.add_option("--differences", o.differences, "bound: at most so many (default: 2)")
      ->type_name("N")
      ->check(CLI::Range(0u, 8u));
  sub.add_option("--programs", o.programs, "bound, full: the end after so many (default: --executions says)")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, many));
  sub.add_option("--acquisitions", o.acquisitions, "Of each thread, for scenarios of locks (default: 2)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1000u));
  sub.add_flag("--weaken", o.weaken,
               "Weaken each memory order, each half of one by itself, and leave each fence out: is that caught?");
  sub.add_option("--weaken-at", o.weaken_at, "With --replay: this order is weakened")
      ->type_name("FILE:LINE:COLUMN:ORDER");
  sub.add_option("--jobs", o.jobs, "Processes side by side (default: one for each CPU)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1024u));
}

void add_outputs(CLI::App& sub, check_options& o) {
  sub.add_option("--json", o.json, "Write all verdicts to this file")->type_name("FILE");
  sub.add_option("--show", o.show, "Run nothing: show the results that --json wrote to this file")->type_name("FILE");
  sub.add_flag("--quiet", o.quiet, "No progress bar");
}

}  // namespace

support::subcommand check(CLI::App& app) {
  auto* sub = app.add_subcommand("check", "Look for mistakes in locks, under a relaxed-memory checker");
  auto o = std::make_shared<check_options>();
  add_targets(*sub, *o);
  add_executions(*sub, *o);
  add_outputs(*sub, *o);
  sub->formatter(std::make_shared<support::help>("usher check [OPTIONS] [LOCK...]"));
  sub->footer(check_notes);
  return {sub, [o](char**) { return carry_out(*o); }};
}

}  // namespace usher::check::command
