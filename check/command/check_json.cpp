#include "check/command/check_json.hpp"

#include <array>
#include <utility>

#include "support/text/json_fields.hpp"

namespace usher::cli::checking {

using nlohmann::ordered_json;
using any_json = nlohmann::json;

constexpr auto json_names(goal_kind) {
  return std::array{std::pair{goal_kind::pass, "pass"}, std::pair{goal_kind::mutants, "mutants"},
                    std::pair{goal_kind::orders, "orders"}};
}

constexpr auto json_fields(const step*) {
  return std::tuple(field("thread", &step::thread), field("file", &step::file), field("line", &step::line),
                    field("what", &step::what), field("code", &step::code));
}

struct part_of_failure {
  void write(ordered_json& to, const failure& f) const {
    to["by"] = {{"lock", f.lock}, {"scenario", f.scenario}, {"threads", f.threads}};
  }
  void read(const any_json& from, failure& f) const {
    const any_json& by = from.at("by");
    f.lock = by.at("lock");
    f.scenario = by.at("scenario");
    f.threads = whole(by.at("threads"));
  }
};

constexpr auto json_fields(const failure*) {
  using f = failure;
  return std::tuple(part_of_failure{}, field("why", &f::why), field("replay", &f::replay),
                    field("steps_before", &f::steps_before, [](const f& s) { return !s.steps.empty(); }),
                    field("steps", &f::steps, or_absent));
}

/// The JSON keys of an outcome. `key`: the first key, whose value is true or false, or null if the run was interrupted.
struct outcome_keys {
  void write(ordered_json& to, const auto& s) const {
    const outcome& o = s.seen;
    to[key] = o.failed || o.finished ? ordered_json(o.failed ? if_failed : !if_failed) : ordered_json();
    to["executions"] = o.executions;
    to["seconds"] = o.seconds;
    if (o.failed) add_fields(to, *o.failed);
  }
  void read(const any_json& from, auto& s) const {
    outcome& o = s.seen;
    o.executions = whole(from.at("executions"));
    o.seconds = from.at("seconds");
    const any_json& ended = from.at(key);
    o.finished = !ended.is_null();
    if (ended == if_failed) read_fields(from, o.failed.emplace());
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
    p.seen.programs = whole_or(from, "programs", std::uint64_t{0});
  }
};

constexpr auto json_fields(const part_result*) {
  using p = part_result;
  return std::tuple(field("lock", &p::lock), field("family", &p::family), field("scenario", &p::scenario),
                    field("threads", &p::threads), searched_keys{}, outcome_keys{"passed", false});
}

constexpr auto json_fields(const mutant_result*) {
  using m = mutant_result;
  return std::tuple(field("name", &m::name), field("mutation", &m::mutation), field("forms", &m::forms),
                    outcome_keys{"caught", true});
}

constexpr auto json_fields(const order_result*) {
  using o = order_result;
  return std::tuple(field("lock", &o::lock), field("file", &o::file), field("line", &o::line),
                    field("column", &o::column), field("made", &o::made), field("code", &o::code),
                    field("forms", &o::forms), outcome_keys{"caught", true});
}

constexpr auto json_fields(const results*) {
  using r = results;
  return std::tuple(
      field("usher", &r::usher), field("date", &r::date), field("goal", &r::kind), field("scheduler", &r::scheduler),
      field("differences", &r::differences, [](const r& s) { return s.scheduler == "bound"; }),
      field("programs", &r::programs, or_absent), field("acquisitions", &r::acquisitions), field("seed", &r::seed),
      field("executions", &r::executions), field("interrupted", &r::interrupted), field("good", &r::good),
      field("parts", &r::parts), field("mutants", &r::mutants), field("orders", &r::orders));
}

ordered_json json_of(const results& r) {
  ordered_json j = json_of_results(r);
  for (ordered_json& part : j["parts"]) {
    part["seed"] = r.seed;
    if (r.random()) part.erase("programs");
  }
  return j;
}

results results_from(const any_json& j) {
  if (!j.is_object() || !j.contains("parts") || !j.contains("orders"))
    throw bad_input("it is no result of usher check");
  if (!j.contains("format")) throw bad_input("an earlier usher wrote it: run that check again");
  return read_results<results>(j, "check");
}

}  // namespace usher::cli::checking
