#include "check/command/check_json.hpp"

#include <array>
#include <utility>

#include "support/text/json_fields.hpp"

namespace usher::check::command {

using nlohmann::ordered_json;
using any_json = nlohmann::json;

constexpr auto json_names(goal_kind) {
  return std::array{std::pair{goal_kind::pass, "pass"}, std::pair{goal_kind::mutants, "mutants"},
                    std::pair{goal_kind::orders, "orders"}};
}

constexpr auto json_fields(const step*) {
  return std::tuple(support::field("thread", &step::thread), support::field("file", &step::file),
                    support::field("line", &step::line), support::field("what", &step::what),
                    support::field("code", &step::code));
}

struct part_of_failure {
  void write(ordered_json& to, const failure& f) const {
    to["by"] = {{"lock", f.lock}, {"scenario", f.scenario}, {"threads", f.threads}};
  }
  void read(const any_json& from, failure& f) const {
    const any_json& by = from.at("by");
    f.lock = by.at("lock");
    f.scenario = by.at("scenario");
    f.threads = support::whole(by.at("threads"));
  }
};

constexpr auto json_fields(const failure*) {
  using f = failure;
  return std::tuple(part_of_failure{}, support::field("why", &f::why), support::field("replay", &f::replay),
                    support::field("steps_before", &f::steps_before, [](const f& s) { return !s.steps.empty(); }),
                    support::field("steps", &f::steps, support::or_absent));
}

/// The JSON keys of an outcome. `key`: the first key, whose value is true or false, or null if the run was interrupted.
struct outcome_keys {
  void write(ordered_json& to, const auto& s) const {
    const outcome& o = s.seen;
    to[key] = o.failed || o.finished ? ordered_json(o.failed ? if_failed : !if_failed) : ordered_json();
    to["executions"] = o.executions;
    to["seconds"] = o.seconds;
    if (o.failed) support::add_fields(to, *o.failed);
  }
  void read(const any_json& from, auto& s) const {
    outcome& o = s.seen;
    o.executions = support::whole(from.at("executions"));
    o.seconds = from.at("seconds");
    const any_json& ended = from.at(key);
    o.finished = !ended.is_null();
    if (ended == if_failed) support::read_fields(from, o.failed.emplace());
  }

  const char* key;
  bool if_failed;
};

/// The keys of a part that precede those of its outcome. json_of() sets the seed later.
struct searched_keys {
  void write(ordered_json& to, const part_result& p) const {
    to["seed"] = nullptr;
    to["programs"] = p.seen.programs;
  }
  void read(const any_json& from, part_result& p) const {
    p.seen.programs = support::whole_or(from, "programs", std::uint64_t{0});
  }
};

constexpr auto json_fields(const part_result*) {
  using p = part_result;
  return std::tuple(support::field("lock", &p::lock), support::field("family", &p::family),
                    support::field("scenario", &p::scenario), support::field("threads", &p::threads), searched_keys{},
                    outcome_keys{"passed", false});
}

constexpr auto json_fields(const mutant_result*) {
  using m = mutant_result;
  return std::tuple(support::field("name", &m::name), support::field("mutation", &m::mutation),
                    support::field("forms", &m::forms), outcome_keys{"caught", true});
}

constexpr auto json_fields(const order_result*) {
  using o = order_result;
  return std::tuple(support::field("lock", &o::lock), support::field("file", &o::file),
                    support::field("line", &o::line), support::field("column", &o::column),
                    support::field("made", &o::made), support::field("code", &o::code),
                    support::field("forms", &o::forms), outcome_keys{"caught", true});
}

constexpr auto json_fields(const results*) {
  using r = results;
  return std::tuple(support::field("usher", &r::usher), support::field("date", &r::date),
                    support::field("goal", &r::kind), support::field("scheduler", &r::scheduler),
                    support::field("differences", &r::differences, [](const r& s) { return s.scheduler == "bound"; }),
                    support::field("programs", &r::programs, support::or_absent),
                    support::field("acquisitions", &r::acquisitions), support::field("seed", &r::seed),
                    support::field("executions", &r::executions), support::field("interrupted", &r::interrupted),
                    support::field("good", &r::good), support::field("parts", &r::parts),
                    support::field("mutants", &r::mutants), support::field("orders", &r::orders));
}

ordered_json json_of(const results& r) {
  ordered_json j = support::json_of_results(r);
  for (ordered_json& part : j["parts"]) {
    part["seed"] = r.seed;
    if (r.random()) part.erase("programs");
  }
  return j;
}

results results_from(const any_json& j) {
  if (!j.is_object() || !j.contains("parts") || !j.contains("orders"))
    throw support::bad_input("it is no result of usher check");
  if (!j.contains("format")) throw support::bad_input("an earlier usher wrote it: run that check again");
  return support::read_results<results>(j, "check");
}

}  // namespace usher::check::command
