// usher report: one HTML page of the JSON files of `usher stat`, `usher top` and `usher try`.
#include "watch/reader/report_command.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "support/process/files.hpp"
#include "support/process/near.hpp"
#include "support/text/help.hpp"
#include "support/text/input_file.hpp"
#include "support/text/messages.hpp"
#include "support/text/output_file.hpp"
#include "watch/reader/print/report_page.hpp"

namespace usher::reader {
namespace {

constexpr int cannot_be_shown = 1;
constexpr std::size_t most_files = 50;

struct report_options {
  std::vector<std::string> files;
  std::string output;
};

/// The files' texts, in their order; nullopt after an error message. Together they are as large as one may be.
std::optional<std::vector<page_file>> read_files(const std::vector<std::string>& names) {
  std::vector<page_file> files;
  std::size_t size = 0;
  for (const std::string& name : names) {
    try {
      files.push_back({name, support::read_input(name)});
    } catch (const support::bad_input& e) {
      support::report_error("report: cannot read {}: {}", name, e.what());
      return std::nullopt;
    }
    size += files.back().text.size();
    if (size > support::largest_input) {
      support::report_error("report: the files together have more than {} MiB: make a page of fewer",
                            support::largest_input >> 20);
      return std::nullopt;
    }
  }
  return files;
}

/// The entries of the files, in their order; nullopt after an error message. The small files come first to the room, so
/// that large ones get what these leave.
std::optional<std::vector<std::string>> entries_of(std::vector<page_file> files, std::size_t room) {
  std::vector<std::size_t> order(files.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return files[a].text.size() < files[b].text.size(); });
  std::vector<std::string> entries(files.size());
  std::size_t left = files.size();
  for (const std::size_t i : order) {
    try {
      entries[i] = page_entry(files[i], room / left);
    } catch (const std::exception& e) {
      support::report_error("report: cannot show {}: {}", files[i].name, e.what());
      return std::nullopt;
    }
    files[i].text = {};
    room -= entries[i].size();
    left--;
  }
  return entries;
}

int carry_out(const report_options& o) {
  const std::filesystem::path place = support::own_tree() / "share/usher/report.html";
  if (!support::is_file(place)) {
    support::report_error(
        "report: this build has no page to fill: `make page` in Usher's sources makes {}, with Node.js",
        place.native());
    return support::cannot_start;
  }
  for (const std::string& name : o.files)
    if (support::is_same_file(name, o.output)) {
      support::report_error("report: the page would replace {}, which it shows: give -o another name", name);
      return support::bad_usage;
    }
  if (o.files.size() > most_files) {
    support::report_error("report: {} files; a page has {} at most", o.files.size(), most_files);
    return support::bad_usage;
  }
  support::output_file page;
  if (!page.open(o.output)) return support::cannot_start;
  std::string page_template;
  try {
    page_template = support::read_input(place);
  } catch (const support::bad_input& e) {
    support::report_error("report: cannot read {}: {}", place.native(), e.what());
    return support::cannot_start;
  }
  auto files = read_files(o.files);
  if (!files) return cannot_be_shown;
  constexpr std::size_t frame = 8192;  // the names of the rules, and the commas
  if (page_template.size() + frame > largest_page) {
    support::report_error("report: {} is too large", place.native());
    return support::cannot_start;
  }
  const auto entries = entries_of(std::move(*files), largest_page - page_template.size() - frame);
  if (!entries) return cannot_be_shown;
  return page.write(filled_page(page_template, *entries)) ? 0 : support::cannot_start;
}

constexpr const char* report_notes =
    R"text(The page is one file, at most 1.5 MB, to open in any browser of the last years or to send to
somebody. It loads nothing and sends nothing. It has what the files have: also the program's
command line and the paths of its modules and sources.

Where the files have more than the page has room for, the least waited for is left out, and
the page says how much.

Examples:
  usher stat --json hot.json -- ./server --port 80
  usher report hot.json -o hot.html
  usher report before.json after.json trial.json -o all.html

Exit status: 0; 1 if a file cannot be shown; 2 for bad usage; 125 if the page cannot be
written, or if this build has none.)text";

}  // namespace

support::subcommand report_command(CLI::App& app) {
  auto* sub = app.add_subcommand("report", support::report_summary);
  auto o = std::make_shared<report_options>();
  sub->add_option("FILE", o->files, "Files of usher stat --json, usher top --json and usher try --json")
      ->required()
      ->type_name("");
  sub->add_option("-o,--output", o->output, "Write the page to this file")->required()->type_name("FILE");
  sub->formatter(std::make_shared<support::help>("usher report FILE... -o PAGE"));
  sub->footer(report_notes);
  return {sub, [o](char**) { return carry_out(*o); }};
}

}  // namespace usher::reader
