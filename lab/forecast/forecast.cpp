#include "lab/forecast/forecast.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "support/measure/statistics.hpp"

namespace usher::lab {
namespace {

using nlohmann::ordered_json;

/// A mutex is the bottleneck if a thread holds it or waits for it for at least this share of the time. Chosen, not
/// measured.
constexpr double all_the_time = 0.9;

spread spread_of(const std::vector<double>& values) {
  if (values.empty()) return {};
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {support::median(values), *least, *most};
}

struct run {
  const point_result* result = nullptr;
  ordered_json json;
  std::string unknown;  ///< the key of the unknown number that the run changes; empty: none
};

double number(const ordered_json& j, const char* key) {
  const auto found = j.find(key);
  return found != j.end() && found->is_number() ? found->get<double>() : 0;
}

std::string unknown_of(const sweep_point& p, const std::vector<unknown>& unknowns) {
  for (const unknown& u : unknowns) {
    if (p.parameters.contains(u.key)) return u.key;
    for (const auto& [key, value] : p.settings)
      if (key == u.key) return u.key;
  }
  return "";
}

busy_lock busiest_of(const std::vector<const run*>& runs) {
  struct found {
    std::vector<double> utilisation, wanted;
  };
  std::map<std::pair<std::uint32_t, unsigned>, found> all;
  for (const run* r : runs) {
    const auto locks = r->json.find("locks");
    if (locks == r->json.end() || !locks->is_array() || locks->empty()) continue;
    const ordered_json& first = locks->front();
    found& f = all[{static_cast<std::uint32_t>(number(first, "object")), static_cast<unsigned>(number(first, "part"))}];
    f.utilisation.push_back(number(first, "utilisation"));
    f.wanted.push_back(number(first, "wanted"));
  }
  busy_lock b;
  std::size_t most = 0;
  for (const auto& [which, f] : all)
    if (f.wanted.size() > most) {
      most = f.wanted.size();
      b = {which.first, which.second, support::median(f.utilisation), support::median(f.wanted)};
    }
  return b;
}

forecast_point sum_of(const std::vector<const run*>& runs) {
  forecast_point p;
  p.lock = runs.front()->result->point.lock;
  p.threads = runs.front()->result->point.threads;
  p.runs = runs.size();
  const auto all = [&](const char* key) {
    std::vector<double> values;
    for (const run* r : runs) values.push_back(number(r->json, key));
    return spread_of(values);
  };
  p.operations = all("operations_per_second");
  p.cpus = all("cpus_used");
  p.waiting = all("waiting_share");
  p.tokens = all("token_share");
  p.working_set = all("lwss");
  p.longest_wait = static_cast<std::uint64_t>(all("longest_wait_ns").most);
  p.stalls = all("stalls").middle;
  p.not_acquired = all("not_acquired").middle;
  for (const run* r : runs) p.unsettled += r->result->settled ? 0 : 1;
  p.busiest = busiest_of(runs);
  return p;
}

/// By lock and number of threads: runs that differ only in the seed and in the assumed number of cache lines that
/// critical sections move (the lower or the upper limit of the estimate).
using runs_of_points = std::map<std::pair<std::string, unsigned>, std::vector<const run*>>;
/// By key of the unknown number and by lock: the runs in which that number was changed.
using runs_of_unknowns = std::map<std::pair<std::string, std::string>, std::vector<const run*>>;

/// Returns the locks in the order of their first results.
std::vector<std::string> locks_of(const std::vector<point_result>& results) {
  std::vector<std::string> locks;
  for (const point_result& r : results)
    if (std::find(locks.begin(), locks.end(), r.point.lock) == locks.end()) locks.push_back(r.point.lock);
  return locks;
}

void add_points(forecast& f, const std::vector<std::string>& locks, const runs_of_points& by_point) {
  std::map<unsigned, double> of_first;  // throughput of the first lock, by number of threads
  for (const std::string& lock : locks)
    for (const auto& [where, same] : by_point) {
      if (where.first != lock) continue;
      forecast_point p = sum_of(same);
      if (lock == locks.front()) of_first[p.threads] = p.operations.middle;
      if (const auto first = of_first.find(p.threads); first != of_first.end() && first->second > 0)
        p.to_first = p.operations.middle / first->second;
      f.points.push_back(std::move(p));
    }
}

void add_bottlenecks(forecast& f, const std::vector<std::string>& locks) {
  for (const std::string& lock : locks)
    for (const forecast_point& p : f.points)
      if (p.lock == lock && p.busiest.wanted >= all_the_time) {
        f.bottlenecks.push_back({lock, p.busiest.object, p.busiest.part, p.threads});
        break;
      }
}

/// Records the relative change of a lock's throughput from `before` to `after`. For each unknown number only the lock
/// with the largest change is kept.
void add_effect(forecast& f, const unknown& u, const std::string& lock, double before, double after) {
  if (!(before > 0)) return;
  const double change = after / before - 1;
  const auto found =
      std::find_if(f.effects.begin(), f.effects.end(), [&u](const effect& e) { return e.what.key == u.key; });
  if (found == f.effects.end())
    f.effects.push_back({u, lock, change});
  else if (std::fabs(change) > std::fabs(found->change))
    *found = {u, lock, change};
}

/// Compares each run that has a changed unknown number with the run that differs from it only by that change: the first
/// seed, and the lower limit of the lines that sections move.
void add_effects_of_unknowns(forecast& f, const std::vector<unknown>& unknowns, const std::vector<std::string>& locks,
                             const runs_of_points& by_point, const runs_of_unknowns& tried) {
  for (const unknown& u : unknowns)
    for (const std::string& lock : locks) {
      const auto with = tried.find({u.key, lock});
      if (with == tried.end()) continue;
      const run& changed = *with->second.front();
      const auto without = by_point.find({lock, changed.result->point.threads});
      if (without == by_point.end()) continue;
      for (const run* r : without->second)
        if (r->result->point.seed == 1u && !r->result->point.parameters.contains("most_lines")) {
          add_effect(f, u, lock, number(r->json, "operations_per_second"),
                     number(changed.json, "operations_per_second"));
          break;
        }
    }
}

/// Adds the effect of the number of cache lines that sections move: with the highest number of threads, runs with the
/// upper limit of the estimate against those with the lower limit.
void add_effect_of_lines(forecast& f, const runs_of_points& by_point) {
  if (f.lines_given || f.least_lines == f.most_lines) return;
  const unknown lines{"most_lines", "sections move as many cache lines as the recording allows"};
  unsigned most = 0;
  for (const auto& [where, same] : by_point) most = std::max(most, where.second);
  for (const auto& [where, same] : by_point) {
    if (where.second != most) continue;
    std::vector<double> low, high;
    for (const run* r : same)
      (r->result->point.parameters.contains("most_lines") ? high : low)
          .push_back(number(r->json, "operations_per_second"));
    if (!low.empty() && !high.empty()) add_effect(f, lines, where.first, support::median(low), support::median(high));
  }
}

}  // namespace

void sum_up(forecast& f, const std::vector<point_result>& results, const std::vector<unknown>& unknowns) {
  std::vector<run> runs;
  for (const point_result& r : results)
    runs.push_back({&r, ordered_json::parse(r.json, nullptr, false), unknown_of(r.point, unknowns)});
  runs_of_points by_point;
  runs_of_unknowns tried;
  for (const run& r : runs)
    if (r.unknown.empty())
      by_point[{r.result->point.lock, r.result->point.threads}].push_back(&r);
    else
      tried[{r.unknown, r.result->point.lock}].push_back(&r);

  const std::vector<std::string> locks = locks_of(results);
  add_points(f, locks, by_point);
  add_bottlenecks(f, locks);
  add_effects_of_unknowns(f, unknowns, locks, by_point, tried);
  add_effect_of_lines(f, by_point);
  std::stable_sort(f.effects.begin(), f.effects.end(),
                   [](const effect& a, const effect& b) { return std::fabs(a.change) > std::fabs(b.change); });
}

}  // namespace usher::lab
