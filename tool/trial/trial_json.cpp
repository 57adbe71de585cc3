#include "tool/trial/trial_json.hpp"

#include <array>
#include <utility>

#include "support/text/json_fields.hpp"

namespace usher::cli {

constexpr auto json_names(verdict) {
  return std::array{std::pair{verdict::reference, "reference"}, std::pair{verdict::better, "better"},
                    std::pair{verdict::worse, "worse"},         std::pair{verdict::level, "level"},
                    std::pair{verdict::undecided, "undecided"}, std::pair{verdict::failed, "failed"}};
}

namespace trial {

using nlohmann::ordered_json;
using any_json = nlohmann::json;

constexpr auto json_fields(const run_result*) {
  using r = run_result;
  return std::tuple(field("round", &r::round), field("metric", &r::metric, or_null), field("seconds", &r::seconds),
                    field("user_s", &r::user_s), field("system_s", &r::system_s),
                    field("voluntary_switches", &r::voluntary_switches),
                    field("involuntary_switches", &r::involuntary_switches), field("peak_kib", &r::peak_kib),
                    field("trouble", &r::error, or_absent));
}

constexpr auto json_fields(const call_counts*) {
  using c = call_counts;
  return std::tuple(field("locks", &c::locks), field("contended", &c::contended),
                    field("condition_waits", &c::condition_waits), field("semaphores", &c::semaphores),
                    field("threads", &c::threads), field("loaded", &c::loaded),
                    field("waiting_share", &c::waiting_share), field("rwlocks", &c::rwlocks, or_absent),
                    field("contended_rwlocks", &c::contended_rwlocks, or_absent),
                    field("rwlock_waiting_share", &c::rwlock_waiting_share, or_absent),
                    field("shared_rwlock_waiting_share", &c::shared_rwlock_waiting_share, or_absent),
                    field("parks_threads", &c::parks_threads, [](const c& n) { return n.parks_threads; }));
}

constexpr auto json_fields(const drop_reason*) {
  return std::tuple(field("round", &drop_reason::round), field("why", &drop_reason::why));
}

static ordered_json interval_of(const candidate_result& c) {
  const auto [low, high] = c.limits;  // JSON's writer makes null of an infinite one
  return std::isfinite(low) || std::isfinite(high) ? ordered_json::array({low, high}) : ordered_json();
}

static void read_interval(const any_json& from, candidate_result& c) {
  if (from.is_null()) return;
  if (!from.at(0).is_null()) from.at(0).get_to(c.limits.low);
  if (!from.at(1).is_null()) from.at(1).get_to(c.limits.high);
}

constexpr auto json_fields(const candidate_result*) {
  using c = candidate_result;
  return std::tuple(
      field("name", &c::name), field("lock", &c::lock), field("rwlock", &c::rwlock, or_absent),
      field("verdict", &c::judged),
      field("speed_up", &c::speed_up),  // json_of() exchanges it with the next one in a trial without ratios
      computed(
          "difference", [](const c&) { return nullptr; },
          [](const any_json& from, c& to) {
            if (!to.speed_up) read_value(from, to.speed_up, "difference");
          }),
      computed("interval", interval_of, read_interval), field("rounds", &c::rounds), field("dropped", &c::dropped),
      field("calls", &c::calls), field("troubles", &c::errors), field("failed_runs", &c::failed_runs),
      field("output_differs_at_line", &c::first_difference), field("cut_bytes", &c::cut), field("runs", &c::runs));
}

constexpr auto json_fields(const computer*) {
  using c = computer;
  return std::tuple(field("cpu", &c::cpu), field("cpus", &c::cpus), field("kernel", &c::kernel),
                    field("libc", &c::libc));
}

constexpr auto json_fields(const left_out_lock*) {
  return std::tuple(field("name", &left_out_lock::name), field("why", &left_out_lock::why));
}

constexpr auto json_fields(const trial_conclusion*) {
  using c = trial_conclusion;
  return std::tuple(field("kind", &c::kind), field("text", &c::text), field("command", &c::command, or_null));
}

constexpr auto json_fields(const trial_results*) {
  using t = trial_results;
  return std::tuple(field("usher", &t::usher), field("commit", &t::commit), field("date", &t::date),
                    field("machine", &t::place), field("command", &t::command), field("metric", &t::metric, or_null),
                    computed(
                        "better", [](const t& s) { return s.lower_is_better ? "lower" : "higher"; },
                        [](const any_json& from, t& to) { to.lower_is_better = from == "lower"; }),
                    field("before", &t::before, or_null), field("until", &t::until, or_null),
                    field("ready", &t::ready, or_null), field("budget_s", &t::budget), field("warmup", &t::warmup),
                    field("rounds", &t::rounds), field("confirming_rounds", &t::confirming_rounds),
                    field("run_seconds", &t::run_seconds), field("seconds", &t::seconds),
                    field("others_cpu_share", &t::others_cpu_share), field("interrupted", &t::interrupted),
                    computed(
                        "comparison", [](const t& s) { return s.has_ratios ? "ratio" : "difference"; },
                        [](const any_json& from, t& to) { to.has_ratios = from == "ratio"; }),
                    field("left_out", &t::left_out), field("order", &t::order), field("winner", &t::winner, or_null),
                    field("conclusion", &t::conclusion), field("candidates", &t::candidates));
}

ordered_json json_of(const trial_results& t) {
  ordered_json j = json_of_results(t);
  if (!t.has_ratios)
    for (ordered_json& c : j["candidates"]) c["speed_up"].swap(c["difference"]);
  return j;
}

trial_results trial_from(const any_json& j) {
  if (!j.is_object() || !j.contains("candidates")) throw bad_input("it is no result of usher try");
  trial_results t = read_results<trial_results>(j, "try");
  if (t.candidates.empty()) throw bad_input("it has no candidates");
  return t;
}

}  // namespace trial
}  // namespace usher::cli
