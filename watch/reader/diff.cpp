// usher diff: compares recordings of `usher stat --json`: for which objects threads wait more or less than before.
#include "watch/reader/diff.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/text/help.hpp"
#include "support/text/input_file.hpp"
#include "support/text/messages.hpp"
#include "support/text/output_file.hpp"
#include "support/text/table.hpp"
#include "support/text/words.hpp"
#include "watch/reader/compare/comparison_text.hpp"

namespace usher::reader {
namespace {

constexpr int grew = 1;
constexpr std::size_t most_runs = 100;  // of a side; chosen

struct options {
  std::vector<std::string> files, a, b;
  std::string fail_above, json;
  diff_options how;
};

/// The files of a word: "A1,A2,A3", unless a file has that name.
std::vector<std::string> files_of(const std::string& word) {
  if (access(word.c_str(), F_OK) == 0) return {word};
  std::vector<std::string> all;
  for (const std::string_view part : support::parts_of(word, ",")) all.emplace_back(part);
  if (all.empty()) all.push_back(word);
  return all;
}

/// False after an error message.
bool sort_files(options& o) {
  const bool has_sides = !o.a.empty() || !o.b.empty();
  if (has_sides ? !o.files.empty() || o.a.empty() || o.b.empty() : o.files.size() != 2) {
    support::report_error(
        "diff: which files? usher diff A B, or usher diff --a A1 A2 ... --b B1 B2 ... (see usher diff --help)");
    return false;
  }
  if (!has_sides) {
    o.a = files_of(o.files[0]);
    o.b = files_of(o.files[1]);
  }
  if (std::max(o.a.size(), o.b.size()) <= most_runs) return true;
  support::report_error("diff: at most {} files a side", most_runs);
  return false;
}

/// The share in "10%", "10 %" or "10"; nullopt if it is none.
std::optional<double> share_in(std::string_view text) {
  while (!text.empty() && (text.back() == '%' || text.back() == ' ')) text.remove_suffix(1);
  const std::string number(text);
  char* end = nullptr;
  const double v = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !(v >= 0 && v <= 100)) return std::nullopt;
  return v / 100;
}

std::string no_share(const std::string& text) {
  return share_in(text) ? "" : "'" + text + "' is no share from 0 to 100 %";
}

/// Reads the runs of a side. Nullopt after an error message.
std::optional<std::vector<compared_run>> runs_of(const std::vector<std::string>& files) {
  std::vector<compared_run> runs;
  for (const std::string& file : files) try {
      runs.push_back(read_run(file));
    } catch (const support::bad_input& e) {
      support::report_error("diff: {}: {} (usher stat --json FILE writes one)", file, e.what());
      return std::nullopt;
    }
  return runs;
}

int carry_out(options o) {
  if (!sort_files(o)) return support::bad_usage;
  support::output_file out;
  if (!out.open(o.json)) return support::cannot_start;
  auto a = runs_of(o.a);
  auto b = a ? runs_of(o.b) : std::nullopt;
  if (!b) return support::bad_usage;
  o.how.width = support::text_width();
  if (!o.fail_above.empty()) o.how.fail_above = share_in(o.fail_above);
  const comparison c = compare(std::move(*a), std::move(*b));
  std::fputs(as_text(c, o.how).c_str(), stdout);
  if (o.how.fail_above && !c.cannot_show.empty())
    support::report_error("diff: --fail-above was not tested: {}", c.cannot_show);
  if (out.wanted() && !out.write(as_json(c, o.how).dump(2) + "\n")) return support::cannot_start;
  return fails(c, o.how) ? grew : 0;
}

constexpr const char* notes =
    R"text(A and B are files of usher stat --json: of two builds, two days, two numbers of threads.
Objects are the same if they have the same symbol, or the same function and file; else if
the same code waits for them and holds them. The waiting is a share of the threads' time. A
change is shown if its interval, 95 % for all objects together, does not contain 0. One run
of each side must last 2 s; its windows give the interval. Several runs of each side give a
better one, by their differences: usher diff A1,A2,A3 B1,B2,B3.

--fail-above X fails if threads waited for some object by more than X % of their time longer
in B than in A, and this is certain: the lower end of the object's interval is above X. So
10% fails for 20 % in A and 35 % in B, if the interval is +12 to +18.

Examples:
  usher stat --duration 10 --json old.json -- ./server
  usher diff old.json new.json
  usher diff --fail-above 10% --a main-*.json --b branch-*.json

Exit status: 0; 1 if --fail-above fails; 2 for bad usage or a file that cannot be read; 125
if a file cannot be written.)text";

}  // namespace

support::subcommand diff_command(CLI::App& app) {
  auto* sub = app.add_subcommand("diff", support::diff_summary);
  auto o = std::make_shared<options>();
  sub->add_option("files", o->files, "Two files, or two lists of files with commas")->type_name("FILE")->expected(0, 2);
  sub->add_option("--a", o->a, "The files of side A")->type_name("FILE")->expected(1, -1);
  sub->add_option("--b", o->b, "The files of side B")->type_name("FILE")->expected(1, -1);
  sub->add_option("--fail-above", o->fail_above,
                  "Exit status 1 if the waiting for an object grew by more than this share of the threads' time")
      ->type_name("X%")
      ->check(no_share);
  sub->add_option("--top", o->how.top, "Number of rows without a change (default: 10)")
      ->type_name("N")
      ->check(CLI::Range(0, 1000000));
  sub->add_option("--json", o->json, "Write all objects to this file")->type_name("FILE");
  sub->formatter(std::make_shared<support::help>(
      "usher diff [OPTIONS] A B\n       usher diff [OPTIONS] --a A1 A2 ... --b B1 B2 ..."));
  sub->footer(notes);
  return {sub, [o](char**) { return carry_out(*o); }};
}

}  // namespace usher::reader
