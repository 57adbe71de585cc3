#include "cli/checking/check_json.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "support/text/input_file.hpp"

namespace usher::cli::checking {
namespace {

using nlohmann::ordered_json;
using any_json = nlohmann::json;

constexpr std::array<std::pair<goal_kind, const char*>, 3> kind_names = {
    {{goal_kind::pass, "pass"}, {goal_kind::mutants, "mutants"}, {goal_kind::orders, "orders"}}};

ordered_json json_of_steps(const std::vector<step>& steps) {
  ordered_json all = ordered_json::array();
  for (const step& s : steps)
    all.push_back({{"thread", s.thread}, {"file", s.file}, {"line", s.line}, {"what", s.what}, {"code", s.code}});
  return all;
}

void add_failure(ordered_json& to, const failure& f) {
  to["by"] = {{"lock", f.lock}, {"scenario", f.scenario}, {"threads", f.threads}};
  to["why"] = f.why;
  to["replay"] = f.replay;
  if (f.steps.empty()) return;
  to["steps_before"] = f.steps_before;
  to["steps"] = json_of_steps(f.steps);
}

/// `key` says how it ended: true, false, or null if it was interrupted.
void add_outcome(ordered_json& to, const outcome& o, const char* key, bool if_failed) {
  to[key] = o.failed || o.finished ? ordered_json(o.failed ? if_failed : !if_failed) : ordered_json();
  to["executions"] = o.executions;
  to["seconds"] = o.seconds;
  if (o.failed) add_failure(to, *o.failed);
}

ordered_json json_of_part(const results& r, const part_result& p) {
  ordered_json j = {
      {"lock", p.lock}, {"family", p.family}, {"scenario", p.scenario}, {"threads", p.threads}, {"seed", r.seed}};
  if (!r.random()) j["programs"] = p.seen.programs;
  add_outcome(j, p.seen, "passed", false);
  return j;
}

ordered_json json_of_mutant(const mutant_result& m) {
  ordered_json j = {{"name", m.name}, {"mutation", m.mutation}, {"forms", m.forms}};
  add_outcome(j, m.seen, "caught", true);
  return j;
}

ordered_json json_of_order(const order_result& o) {
  ordered_json j = {{"lock", o.lock}, {"file", o.file}, {"line", o.line},  {"column", o.column},
                    {"made", o.made}, {"code", o.code}, {"forms", o.forms}};
  add_outcome(j, o.seen, "caught", true);
  return j;
}

// ---- and back ---------------------------------------------------------------------------------------------------

failure failure_from(const any_json& j) {
  const any_json& by = j.at("by");
  failure f{by.at("lock"), by.at("scenario"), whole(by.at("threads")), j.at("why"), j.at("replay"), 0, {}};
  if (!j.contains("steps")) return f;
  f.steps_before = whole(j.at("steps_before"));
  for (const any_json& s : j.at("steps"))
    f.steps.push_back({whole(s.at("thread")), s.at("file"), whole(s.at("line")), s.at("what"), s.at("code")});
  return f;
}

outcome outcome_from(const any_json& j, const char* key, bool if_failed) {
  outcome o;
  o.executions = whole(j.at("executions"));
  o.programs = whole_or(j, "programs", std::uint64_t{0});
  o.seconds = j.at("seconds");
  const any_json& ended = j.at(key);
  o.finished = !ended.is_null();
  if (ended == if_failed) o.failed = failure_from(j);
  return o;
}

goal_kind kind_from(const std::string& name) {
  for (const auto& [kind, kind_name] : kind_names)
    if (name == kind_name) return kind;
  throw unreadable(fmt::format("its goal '{}' is none of pass, mutants, orders", name));
}

results read_results(const any_json& j) {
  results r;
  r.usher = j.at("usher");
  r.date = j.at("date");
  r.kind = kind_from(j.at("goal"));
  r.scheduler = j.at("scheduler");
  r.differences = whole_or(j, "differences", 0u);
  r.programs = whole_or(j, "programs", std::uint64_t{0});
  r.acquisitions = whole(j.at("acquisitions"));
  r.seed = whole(j.at("seed"));
  r.executions = whole(j.at("executions"));
  r.interrupted = j.at("interrupted");
  r.good = j.at("good");
  for (const any_json& p : j.at("parts"))
    r.parts.push_back(
        {p.at("lock"), p.at("family"), p.at("scenario"), whole(p.at("threads")), outcome_from(p, "passed", false)});
  for (const any_json& m : j.at("mutants"))
    r.mutants.push_back({m.at("name"), m.at("mutation"), m.at("forms"), outcome_from(m, "caught", true)});
  for (const any_json& o : j.at("orders"))
    r.orders.push_back({o.at("lock"), o.at("file"), whole(o.at("line")), whole(o.at("column")), o.at("made"),
                        o.at("code"), o.at("forms"), outcome_from(o, "caught", true)});
  return r;
}

}  // namespace

ordered_json json_of(const results& r) {
  ordered_json j = {{"format", results::format}, {"usher", r.usher}, {"date", r.date}};
  for (const auto& [kind, name] : kind_names)
    if (kind == r.kind) j["goal"] = name;
  j["scheduler"] = r.scheduler;
  if (r.scheduler == "bound") j["differences"] = r.differences;
  if (r.programs != 0) j["programs"] = r.programs;
  j["acquisitions"] = r.acquisitions;
  j["seed"] = r.seed;
  j["executions"] = r.executions;
  j["interrupted"] = r.interrupted;
  j["good"] = r.good;
  for (const char* list : {"parts", "mutants", "orders"}) j[list] = ordered_json::array();
  for (const part_result& p : r.parts) j["parts"].push_back(json_of_part(r, p));
  for (const mutant_result& m : r.mutants) j["mutants"].push_back(json_of_mutant(m));
  for (const order_result& o : r.orders) j["orders"].push_back(json_of_order(o));
  return j;
}

results results_from(const any_json& j) {
  if (!j.is_object() || !j.contains("parts") || !j.contains("orders"))
    throw unreadable("it is no result of usher check");
  if (!j.contains("format")) throw unreadable("an earlier usher wrote it: run that check again");
  if (const int format = j.at("format").is_number_integer() ? static_cast<int>(whole(j.at("format"))) : 0;
      format != results::format)
    throw unreadable(fmt::format("it has format {}, and this usher reads format {}", format, results::format));
  try {
    return read_results(j);
  } catch (const bad_input& e) {
    throw unreadable(e.what());
  } catch (const any_json::exception& e) {
    throw unreadable(fmt::format("it is not as docs/schema/check.json says: {}", reason_of(e)));
  }
}

}  // namespace usher::cli::checking
