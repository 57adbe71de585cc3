#include "watch/reader/compare/comparison_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/text/table.hpp"
#include "support/text/utf8.hpp"
#include "support/text/wrap.hpp"
#include "watch/reader/compare/estimate.hpp"
#include "watch/reader/judge/stat_quantities.hpp"

namespace usher::reader {
namespace {

using nlohmann::ordered_json;
using support::printable_line;

constexpr std::size_t most_named = 4;  // objects in the verdict
constexpr std::size_t longest_name = 38;

std::string percent(double share) {
  return fmt::format("{:.1f}", share * 100);
}

std::string points(double share) {
  return fmt::format("{:+.1f}", share * 100 + 0.0);
}

std::string from_to(const support::interval& i) {
  return fmt::format("{} to {}", points(i.low), points(i.high));
}

std::string name_of(const change& c, std::size_t width = longest_name) {
  return shortened(printable_line(c.name()), width);
}

const char* word_for(const change& c) {
  if (c.shown == shown_change::hotter) return c.a.is_there ? "hotter" : "new, hotter";
  if (c.shown == shown_change::cooler) return c.b.is_there ? "cooler" : "gone, cooler";
  return !c.a.is_there ? "new" : !c.b.is_there ? "gone" : "";
}

std::string side_text(const char* name, const std::vector<compared_run>& runs) {
  double seconds = 0;
  for (const compared_run& r : runs) seconds += r.seconds;
  const compared_run& first = runs.front();
  const std::string files = runs.size() == 1
                                ? printable_line(first.file)
                                : fmt::format("{} and {} more", printable_line(first.file), runs.size() - 1);
  return fmt::format("{}  {}: {}; {}{}, {}, {}\n", name, files, printable_line(first.command),
                     runs.size() == 1 ? "" : fmt::format("{} runs, together ", runs.size()), time_text(seconds),
                     with_noun(first.threads, "thread"),
                     first.lock == "pthread" ? "the C library's mutex" : printable_line(first.lock));
}

std::string table_of(const comparison& c, const diff_options& o) {
  std::vector<std::vector<std::string>> rows;
  std::size_t others = 0;
  for (const change& one : c.changes) {
    const bool is_shown = one.shown == shown_change::hotter || one.shown == shown_change::cooler;
    const bool waits = one.a.share > 0 || one.b.share > 0;
    if (!is_shown && (!waits || others++ >= o.top)) continue;
    rows.push_back({name_of(one), contract::kind_names[int(one.what)],
                    one.a.is_there ? percent(one.a.share) : unknown_text,
                    one.b.is_there ? percent(one.b.share) : unknown_text, points(one.difference()),
                    one.shown == shown_change::not_judged ? "" : from_to(one.limits), word_for(one)});
  }
  if (rows.empty()) return "No thread waited for an object.\n";
  return "Waited, % of the threads' time:\n" +
         support::format_table(
             {{"object"}, {"kind"}, {"A", true}, {"B", true}, {"change", true}, {"95 % interval", true}, {""}}, rows,
             0);
}

std::string pair_of(const std::optional<double>& a, const std::optional<double>& b, std::string (*text)(double)) {
  return fmt::format("{} → {}", a ? text(*a) : unknown_text, b ? text(*b) : unknown_text);
}

std::string rate_text(double rate) {
  return count_text(static_cast<std::uint64_t>(std::llround(std::min(rate, 1e15)))) + "/s";
}

/// The other figures of an object that changed.
std::string details_of(const change& c) {
  const auto rate = [](const side_figures& f) { return f.is_there ? std::optional(f.rate) : std::nullopt; };
  std::string text = "\n" + printable_line(c.name()) + "\n";
  if (c.a.is_there && c.b.is_there && c.a.name != c.b.name) text += "  in A     " + printable_line(c.a.name) + "\n";
  text += fmt::format("  acquired   {}\n", pair_of(rate(c.a), rate(c.b), rate_text));
  if (c.a.contended || c.b.contended)
    text += fmt::format("  contended  {}\n", pair_of(c.a.contended, c.b.contended, share_text));
  text += fmt::format("  wait each  {}\n", pair_of(c.a.wait_each, c.b.wait_each, time_text));
  if (c.a.held || c.b.held) text += fmt::format("  held       {}\n", pair_of(c.a.held, c.b.held, share_text));
  return text;
}

std::string sentence_of(const change& c) {
  return fmt::format(
      "{} became {}: threads waited {} % of their time for it in A and {} % in B ({}, between {} points)",
      printable_line(c.name()), c.shown == shown_change::hotter ? "hotter" : "cooler", percent(c.a.share),
      percent(c.b.share), points(c.difference()),
      fmt::format("{} and {}", points(c.limits.low), points(c.limits.high)));
}

/// The names of the changes but the first, after "; ".
std::string names_of(const std::vector<const change*>& all, std::size_t from, const char* word) {
  if (all.size() <= from) return "";
  std::string text = "; ";
  for (std::size_t i = from; i < all.size() && i < from + most_named; i++)
    text += (i == from ? "" : ", ") + printable_line(all[i]->name());
  if (all.size() > from + most_named) text += fmt::format(" and {} more", all.size() - from - most_named);
  return text + " became " + word + (from != 0 ? ", too" : "");
}

ordered_json figures(const side_figures& f) {
  if (!f.is_there) return {};
  const auto value = [](const std::optional<double>& v) { return v ? ordered_json(*v) : ordered_json(); };
  return {{"name", printable_line(f.name)},  {"waited_share", f.share},         {"acquisitions_per_second", f.rate},
          {"wait_each", value(f.wait_each)}, {"contended", value(f.contended)}, {"held_share", value(f.held)}};
}

ordered_json side_json(const std::vector<compared_run>& runs) {
  ordered_json files = ordered_json::array();
  double seconds = 0, thread_seconds = 0;
  for (const compared_run& r : runs) {
    files.push_back(printable_line(r.file));
    seconds += r.seconds;
    thread_seconds += r.thread_seconds;
  }
  return {{"files", std::move(files)},
          {"command", printable_line(runs.front().command)},
          {"lock", printable_line(runs.front().lock)},
          {"seconds", seconds},
          {"thread_seconds", thread_seconds}};
}

ordered_json change_json(const change& c) {
  const bool is_judged = c.shown != shown_change::not_judged;
  const char* const word = c.shown == shown_change::hotter   ? "hotter"
                           : c.shown == shown_change::cooler ? "cooler"
                                                             : "none";
  return {{"kind", contract::kind_names[int(c.what)]},
          {"name", printable_line(c.name())},
          {"presence", !c.a.is_there   ? "new"
                       : !c.b.is_there ? "gone"
                                       : "both"},
          {"change", is_judged ? ordered_json(word) : ordered_json()},
          {"difference", c.difference()},
          {"low", is_judged ? ordered_json(c.limits.low) : ordered_json()},
          {"high", is_judged ? ordered_json(c.limits.high) : ordered_json()},
          {"a", figures(c.a)},
          {"b", figures(c.b)}};
}

}  // namespace

bool fails(const comparison& c, const diff_options& o) {
  const change* const most = c.surest_growth();
  return o.fail_above && most != nullptr && most->limits.low > *o.fail_above;
}

std::string verdict_of(const comparison& c) {
  if (!c.cannot_show.empty()) return "These runs cannot show a difference: " + c.cannot_show;
  const std::vector<const change*> hotter = c.all(shown_change::hotter), cooler = c.all(shown_change::cooler);
  if (!hotter.empty()) return sentence_of(*hotter[0]) + names_of(hotter, 1, "hotter") + names_of(cooler, 0, "cooler");
  if (!cooler.empty()) return sentence_of(*cooler[0]) + names_of(cooler, 1, "cooler");
  std::string text = "No difference that these runs can show";
  double hidden = 0;
  for (const change* one : c.all(shown_change::none)) hidden = std::max({hidden, one->limits.high, -one->limits.low});
  if (c.judged == 0) return text + ": threads hardly waited on either side";
  return text + fmt::format(": a change of {} % of the threads' time may be hidden", percent(hidden));
}

std::string as_text(const comparison& c, const diff_options& o) {
  std::string text = side_text("A", c.a) + side_text("B", c.b) + "\n" + table_of(c, o);
  for (const shown_change s : {shown_change::hotter, shown_change::cooler})
    for (const change* one : c.all(s)) text += details_of(*one);
  text += "\n";
  for (const std::string& sentence : cautions(c)) text += support::filled(sentence, o.width);
  if (c.judged > 1)
    text += support::filled(fmt::format("All {} intervals together contain the true changes with a probability of "
                                        "{:.0f} % (Bonferroni).",
                                        c.judged, confidence * 100),
                            o.width);
  text += "\n" + support::filled("Verdict: " + verdict_of(c), o.width);
  if (const change* const most = c.surest_growth(); o.fail_above && most != nullptr)
    text += support::filled(
        fmt::format("{}: the surest growth is {}'s, at least {} % of the threads' time; the limit is {} %.",
                    fails(c, o) ? "Failed" : "Passed", printable_line(most->name()),
                    percent(std::max(0.0, most->limits.low)), percent(*o.fail_above)),
        o.width);
  return text;
}

ordered_json as_json(const comparison& c, const diff_options& o) {
  ordered_json changes = ordered_json::array(), remarks = ordered_json::array();
  for (const change& one : c.changes) changes.push_back(change_json(one));
  for (const std::string& sentence : cautions(c)) remarks.push_back(printable_line(sentence));
  return {{"version", 1},
          {"usher", USHER_VERSION},
          {"a", side_json(c.a)},
          {"b", side_json(c.b)},
          {"confidence", confidence},
          {"correction", "Bonferroni"},
          {"judged", c.judged},
          {"error_from",
           !c.cannot_show.empty() ? ordered_json() : ordered_json(c.is_of_single_runs() ? "windows" : "runs")},
          {"verdict", printable_line(verdict_of(c))},
          {"fail_above", o.fail_above ? ordered_json(*o.fail_above) : ordered_json()},
          {"failed", o.fail_above ? ordered_json(fails(c, o)) : ordered_json()},
          {"remarks", std::move(remarks)},
          {"objects", std::move(changes)}};
}

}  // namespace usher::reader
