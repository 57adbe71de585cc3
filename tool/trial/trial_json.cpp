#include "tool/trial/trial_json.hpp"

#include <array>
#include <utility>

#include "support/text/json_fields.hpp"

namespace usher::tool {

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
  return std::tuple(support::field("round", &r::round), support::field("metric", &r::metric, support::or_null),
                    support::field("seconds", &r::seconds), support::field("user_s", &r::user_s),
                    support::field("system_s", &r::system_s),
                    support::field("voluntary_switches", &r::voluntary_switches),
                    support::field("involuntary_switches", &r::involuntary_switches),
                    support::field("peak_kib", &r::peak_kib), support::field("trouble", &r::error, support::or_absent));
}

constexpr auto json_fields(const call_counts*) {
  using c = call_counts;
  return std::tuple(support::field("locks", &c::locks), support::field("contended", &c::contended),
                    support::field("condition_waits", &c::condition_waits),
                    support::field("semaphores", &c::semaphores), support::field("threads", &c::threads),
                    support::field("loaded", &c::loaded), support::field("waiting_share", &c::waiting_share),
                    support::field("rwlocks", &c::rwlocks, support::or_absent),
                    support::field("contended_rwlocks", &c::contended_rwlocks, support::or_absent),
                    support::field("rwlock_waiting_share", &c::rwlock_waiting_share, support::or_absent),
                    support::field("shared_rwlock_waiting_share", &c::shared_rwlock_waiting_share, support::or_absent),
                    support::field("parks_threads", &c::parks_threads, [](const c& n) { return n.parks_threads; }));
}

constexpr auto json_fields(const drop_reason*) {
  return std::tuple(support::field("round", &drop_reason::round), support::field("why", &drop_reason::why));
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
      support::field("name", &c::name), support::field("lock", &c::lock),
      support::field("rwlock", &c::rwlock, support::or_absent), support::field("verdict", &c::judged),
      support::field("speed_up", &c::speed_up),  // json_of() exchanges it with the next one in a trial without ratios
      support::computed(
          "difference", [](const c&) { return nullptr; },
          [](const any_json& from, c& to) {
            if (!to.speed_up) support::read_value(from, to.speed_up, "difference");
          }),
      support::computed("interval", interval_of, read_interval), support::field("rounds", &c::rounds),
      support::field("dropped", &c::dropped), support::field("calls", &c::calls),
      support::field("troubles", &c::errors), support::field("failed_runs", &c::failed_runs),
      support::field("output_differs_at_line", &c::first_difference), support::field("cut_bytes", &c::cut),
      support::field("runs", &c::runs));
}

constexpr auto json_fields(const computer*) {
  using c = computer;
  return std::tuple(support::field("cpu", &c::cpu), support::field("cpus", &c::cpus),
                    support::field("kernel", &c::kernel), support::field("libc", &c::libc));
}

constexpr auto json_fields(const left_out_lock*) {
  return std::tuple(support::field("name", &left_out_lock::name), support::field("why", &left_out_lock::why));
}

constexpr auto json_fields(const trial_conclusion*) {
  using c = trial_conclusion;
  return std::tuple(support::field("kind", &c::kind), support::field("text", &c::text),
                    support::field("command", &c::command, support::or_null));
}

constexpr auto json_fields(const trial_results*) {
  using t = trial_results;
  return std::tuple(
      support::field("usher", &t::usher), support::field("commit", &t::commit), support::field("date", &t::date),
      support::field("machine", &t::place), support::field("command", &t::command),
      support::field("metric", &t::metric, support::or_null),
      support::computed(
          "better", [](const t& s) { return s.lower_is_better ? "lower" : "higher"; },
          [](const any_json& from, t& to) { to.lower_is_better = from == "lower"; }),
      support::field("before", &t::before, support::or_null), support::field("until", &t::until, support::or_null),
      support::field("ready", &t::ready, support::or_null), support::field("budget_s", &t::budget),
      support::field("warmup", &t::warmup), support::field("rounds", &t::rounds),
      support::field("confirming_rounds", &t::confirming_rounds), support::field("run_seconds", &t::run_seconds),
      support::field("seconds", &t::seconds), support::field("others_cpu_share", &t::others_cpu_share),
      support::field("interrupted", &t::interrupted),
      support::computed(
          "comparison", [](const t& s) { return s.has_ratios ? "ratio" : "difference"; },
          [](const any_json& from, t& to) { to.has_ratios = from == "ratio"; }),
      support::field("left_out", &t::left_out), support::field("order", &t::order),
      support::field("winner", &t::winner, support::or_null), support::field("conclusion", &t::conclusion),
      support::field("candidates", &t::candidates));
}

ordered_json json_of(const trial_results& t) {
  ordered_json j = support::json_of_results(t);
  if (!t.has_ratios)
    for (ordered_json& c : j["candidates"]) c["speed_up"].swap(c["difference"]);
  return j;
}

trial_results trial_from(const any_json& j) {
  if (!j.is_object() || !j.contains("candidates")) throw support::bad_input("it is no result of usher try");
  trial_results t = support::read_results<trial_results>(j, "try");
  if (t.candidates.empty()) throw support::bad_input("it has no candidates");
  return t;
}

}  // namespace trial
}  // namespace usher::tool
