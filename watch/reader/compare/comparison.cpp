#include "watch/reader/compare/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "watch/reader/compare/estimate.hpp"
#include "watch/reader/compare/matching.hpp"
#include "watch/reader/judge/stat_quantities.hpp"

namespace usher::reader {
namespace {

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

using objects = std::span<const compared_object* const>;  // of one subject, by run of a side

std::vector<double> shares(std::span<const compared_run> runs, objects of) {
  std::vector<double> all;
  for (std::size_t i = 0; i < runs.size(); i++) all.push_back(of[i] != nullptr ? runs[i].share_of(of[i]->waited) : 0);
  return all;
}

side_figures figures_of(std::span<const compared_run> runs, objects of) {
  side_figures f;
  double acquisitions = 0, contended = 0, waited = 0, seconds = 0;
  bool has_contended = false;
  std::vector<double> held;
  for (std::size_t i = 0; i < runs.size(); i++) {
    seconds += runs[i].seconds;
    if (of[i] == nullptr) continue;
    f.is_there = true;
    f.name = of[i]->name;
    acquisitions += of[i]->acquisitions;
    contended += of[i]->contended;
    has_contended = has_contended || of[i]->has_contended;
    waited += of[i]->waited;
    if (of[i]->held_share) held.push_back(*of[i]->held_share);
  }
  f.share = mean(shares(runs, of));
  f.rate = acquisitions / seconds;
  if (acquisitions > 0) f.wait_each = waited / acquisitions;
  if (acquisitions > 0 && has_contended) f.contended = std::min(1.0, contended / acquisitions);
  if (!held.empty()) f.held = mean(held);
  return f;
}

/// The estimate of one run on its own. An object without windows was not among the hottest: its own size is taken for
/// the error.
estimate of_one_run(const compared_run& run, const compared_object* o, double for_cpus) {
  if (o == nullptr) return {0, for_cpus * for_cpus};
  const double share = run.share_of(o->waited);
  estimate e = o->windows.empty() ? estimate{share, share * share, fewest_windows}
                                  : of_windows(share, o->windows, run.window_threads);
  // The assumed part is no estimate and has no freedom to lose.
  const double assumed = between_runs * between_runs * share * share + for_cpus * for_cpus;
  if (e.variance > 0) e.freedom *= std::pow((e.variance + assumed) / e.variance, 2);
  e.variance += assumed;
  return e;
}

support::interval interval_of(const comparison& c, objects a, objects b, double miss) {
  if (c.is_of_single_runs()) {
    const double for_cpus = assumed_for_cpus(c);
    return difference(of_one_run(c.a[0], a[0], for_cpus), of_one_run(c.b[0], b[0], for_cpus), miss);
  }
  const std::vector<double> in_a = shares(c.a, a), in_b = shares(c.b, b);
  if (in_a.size() > 1 && in_b.size() > 1) return difference(of_runs(in_a), of_runs(in_b), miss);
  // The runs of one side say how much a single run of the other may differ.
  const std::vector<double>& many = in_a.size() > 1 ? in_a : in_b;
  estimate e = of_runs(many), alone = e;
  alone.variance *= static_cast<double>(many.size());
  alone.value = in_a.size() > 1 ? in_b[0] : in_a[0];
  return in_a.size() > 1 ? difference(e, alone, miss, e.freedom) : difference(alone, e, miss, e.freedom);
}

std::string why_runs_cannot_show(const comparison& c) {
  if (!c.is_of_single_runs()) return "";
  for (const auto* side : {&c.a, &c.b}) {
    const compared_run& r = side->front();
    const char* const name = side == &c.a ? "A" : "B";
    if (r.window_threads.empty())
      return fmt::format("{} was recorded without windows, by an older usher or by usher stat with another command",
                         name);
    if (r.seconds < shortest_run)
      return fmt::format("{} lasted {}: record at least {} s, or give several runs of each side", name,
                         time_text(r.seconds), shortest_run);
    if (r.window_threads.size() < fewest_windows)
      return fmt::format("{} has {}, and {} are needed: record longer, or give several runs of each side", name,
                         with_noun(r.window_threads.size(), "window"), fewest_windows);
    if (r.late > most_late)
      return fmt::format(
          "{} of the time of {} the machine had no CPU for usher stat itself: record it again, or give "
          "several runs of each side",
          share_text(r.late), name);
  }
  return "";
}

int rank(shown_change s) {
  return s == shown_change::hotter ? 0 : s == shown_change::cooler ? 1 : s == shown_change::none ? 2 : 3;
}

double hotness(const change& c) {
  return std::max(c.a.share, c.b.share);
}

bool comes_first(const change& a, const change& b) {
  if (rank(a.shown) != rank(b.shown)) return rank(a.shown) < rank(b.shown);
  const bool is_shown = rank(a.shown) < 2;
  return is_shown ? std::abs(a.difference()) > std::abs(b.difference()) : hotness(a) > hotness(b);
}

void judge(comparison& c, std::vector<std::pair<change, const subject*>>& all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& x, const auto& y) { return hotness(x.first) > hotness(y.first); });
  while (c.judged < std::min(all.size(), most_judged) && hotness(all[c.judged].first) >= least_judged) c.judged++;
  for (std::size_t i = 0; i < c.judged; i++) {
    auto& [one, of] = all[i];
    const objects in(of->in);
    one.limits =
        interval_of(c, in.first(c.a.size()), in.subspan(c.a.size()), (1 - confidence) / static_cast<double>(c.judged));
    one.shown = one.limits.low > 0    ? shown_change::hotter
                : one.limits.high < 0 ? shown_change::cooler
                                      : shown_change::none;
  }
}

}  // namespace

std::vector<const change*> comparison::all(shown_change s) const {
  std::vector<const change*> found;
  for (const change& one : changes)
    if (one.shown == s) found.push_back(&one);
  return found;
}

const change* comparison::surest_growth() const {
  const change* most = nullptr;
  for (const change& one : changes)
    if (one.shown != shown_change::not_judged && (most == nullptr || one.limits.low > most->limits.low)) most = &one;
  return most;
}

comparison compare(std::vector<compared_run> a, std::vector<compared_run> b) {
  comparison c;
  std::vector<compared_run> runs = a;
  runs.insert(runs.end(), b.begin(), b.end());
  const std::size_t in_a = a.size();
  c.a = std::move(a);
  c.b = std::move(b);
  const std::vector<subject> subjects = match(runs);
  std::vector<std::pair<change, const subject*>> all;
  for (const subject& s : subjects) {
    const objects in(s.in);
    all.push_back({{s.latest().what, figures_of(c.a, in.first(in_a)), figures_of(c.b, in.subspan(in_a))}, &s});
  }
  c.cannot_show = why_runs_cannot_show(c);
  if (c.cannot_show.empty()) judge(c, all);
  for (auto& [one, of] : all) c.changes.push_back(std::move(one));
  std::stable_sort(c.changes.begin(), c.changes.end(), comes_first);
  return c;
}

double assumed_for_cpus(const comparison& c) {
  const std::optional<double> in_a = c.a[0].ready, in_b = c.b[0].ready;
  return c.is_of_single_runs() && in_a && in_b ? between_ready * std::abs(*in_a - *in_b) : 0;
}

std::vector<std::string> cautions(const comparison& c) {
  std::vector<std::string> all;
  if (c.a[0].lock != c.b[0].lock) all.push_back(fmt::format("A ran under {}, B under {}.", c.a[0].lock, c.b[0].lock));
  const auto others_in = [](const std::vector<compared_run>& side) {
    std::vector<double> shares;
    for (const compared_run& r : side)
      if (r.others_cpu_share) shares.push_back(*r.others_cpu_share);
    return mean(shares);
  };
  constexpr double much = 0.1;  // chosen
  const double in_a = others_in(c.a), in_b = others_in(c.b);
  if (in_a >= much || in_b >= much)
    all.push_back(
        fmt::format("Other programs took {} of the CPU time in A and {} in B: the waiting depends on it, too.",
                    share_text(in_a), share_text(in_b)));
  if (c.is_of_single_runs() && c.cannot_show.empty())
    all.push_back(
        fmt::format("One run of each side: {} of an object's waiting and {} of the threads' time are assumed to vary "
                    "from run to run. "
                    "Three runs of each side measure it: usher diff A1,A2,A3 B1,B2,B3.",
                    share_text(between_runs), share_text(assumed_for_cpus(c))));
  return all;
}

}  // namespace usher::reader
