#include "cli/trial/trial_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "support/text/input_file.hpp"

namespace usher::cli::trial {
namespace {

using nlohmann::ordered_json;
using any_json = nlohmann::json;

constexpr std::array<std::pair<verdict, const char*>, 6> verdict_names = {{{verdict::reference, "reference"},
                                                                           {verdict::better, "better"},
                                                                           {verdict::worse, "worse"},
                                                                           {verdict::level, "level"},
                                                                           {verdict::undecided, "undecided"},
                                                                           {verdict::failed, "failed"}}};

ordered_json number_or_null(double v) {
  return std::isfinite(v) ? ordered_json(v) : ordered_json();
}

template <class T>
ordered_json or_null(const std::optional<T>& v) {
  return v ? ordered_json(*v) : ordered_json();
}

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json() : ordered_json(text);
}

ordered_json json_of_run(const run_result& r) {
  ordered_json j = {{"round", r.round},
                    {"metric", number_or_null(r.metric)},
                    {"seconds", r.seconds},
                    {"user_s", r.user_s},
                    {"system_s", r.system_s},
                    {"voluntary_switches", r.voluntary_switches},
                    {"involuntary_switches", r.involuntary_switches},
                    {"peak_kib", r.peak_kib}};
  if (!r.error.empty()) j["trouble"] = r.error;
  return j;
}

ordered_json json_of_calls(const std::optional<call_counts>& c) {
  if (!c) return {};
  return {{"locks", c->locks},
          {"contended", c->contended},
          {"condition_waits", c->condition_waits},
          {"semaphores", c->semaphores},
          {"threads", c->threads},
          {"loaded", c->loaded},
          {"waiting_share", or_null(c->waiting_share)}};
}

ordered_json json_of_candidate(const trial_results& t, const candidate_result& c) {
  const auto name =
      std::find_if(verdict_names.begin(), verdict_names.end(), [&](const auto& v) { return v.first == c.judged; });
  const bool limited = std::isfinite(c.limits.low) || std::isfinite(c.limits.high);
  ordered_json j = {{"name", c.name}, {"lock", c.lock}, {"verdict", name->second}};
  j["speed_up"] = t.has_ratios ? or_null(c.speed_up) : ordered_json();
  j["difference"] = t.has_ratios ? ordered_json() : or_null(c.speed_up);
  j["interval"] =
      limited ? ordered_json::array({number_or_null(c.limits.low), number_or_null(c.limits.high)}) : ordered_json();
  j["rounds"] = c.rounds;
  j["dropped"] = c.dropped ? ordered_json{{"round", c.dropped->round}, {"why", c.dropped->why}} : ordered_json();
  j["calls"] = json_of_calls(c.calls);
  j["troubles"] = c.errors;
  j["failed_runs"] = c.failed_runs;
  j["output_differs_at_line"] = c.first_difference;
  j["cut_bytes"] = c.cut;
  j["runs"] = ordered_json::array();
  for (const run_result& r : c.runs) j["runs"].push_back(json_of_run(r));
  return j;
}

// ---- and back ---------------------------------------------------------------------------------------------------

template <class T>
std::optional<T> value_of(const any_json& j, const char* key) {
  const any_json& v = j.at(key);
  return v.is_null() ? std::nullopt : std::optional(v.get<T>());
}

double number_of_json(const any_json& v, double otherwise) {
  return v.is_null() ? otherwise : v.get<double>();
}

run_result run_from(const any_json& j) {
  run_result r;
  r.round = whole(j.at("round"));
  r.metric = number_of_json(j.at("metric"), std::nan(""));
  r.seconds = j.at("seconds");
  r.user_s = j.at("user_s");
  r.system_s = j.at("system_s");
  r.voluntary_switches = whole(j.at("voluntary_switches"));
  r.involuntary_switches = whole(j.at("involuntary_switches"));
  r.peak_kib = whole(j.at("peak_kib"));
  r.error = j.value("trouble", "");
  return r;
}

std::optional<call_counts> calls_from(const any_json& j) {
  if (j.is_null()) return std::nullopt;
  call_counts c;
  c.locks = whole(j.at("locks"));
  c.contended = whole(j.at("contended"));
  c.condition_waits = whole(j.at("condition_waits"));
  c.semaphores = whole(j.at("semaphores"));
  c.threads = whole(j.at("threads"));
  c.loaded = j.at("loaded");
  c.waiting_share = value_of<double>(j, "waiting_share");
  return c;
}

verdict verdict_from(const std::string& name) {
  for (const auto& [v, known] : verdict_names)
    if (name == known) return v;
  throw unreadable(fmt::format("there is no verdict '{}'", name));
}

candidate_result candidate_from(const any_json& j) {
  candidate_result c;
  c.name = j.at("name");
  c.lock = j.at("lock");
  c.judged = verdict_from(j.at("verdict"));
  c.speed_up = value_of<double>(j, "speed_up");
  if (!c.speed_up) c.speed_up = value_of<double>(j, "difference");
  if (const any_json& i = j.at("interval"); !i.is_null())
    c.limits = {number_of_json(i.at(0), -HUGE_VAL), number_of_json(i.at(1), HUGE_VAL)};
  c.rounds = whole(j.at("rounds"));
  if (const any_json& d = j.at("dropped"); !d.is_null()) c.dropped = drop_reason{whole(d.at("round")), d.at("why")};
  c.calls = calls_from(j.at("calls"));
  c.errors = j.at("troubles").get<std::vector<std::string>>();
  c.failed_runs = whole(j.at("failed_runs"));
  c.first_difference = whole(j.at("output_differs_at_line"));
  c.cut = whole(j.at("cut_bytes"));
  for (const any_json& r : j.at("runs")) c.runs.push_back(run_from(r));
  return c;
}

trial_results read_trial(const any_json& j) {
  trial_results t;
  t.usher = j.at("usher");
  t.commit = j.at("commit");
  t.date = j.at("date");
  const any_json& m = j.at("machine");
  t.place = {m.at("cpu"), m.at("kernel"), m.at("libc"), whole(m.at("cpus"))};
  t.command = j.at("command").get<std::vector<std::string>>();
  t.metric = value_of<std::string>(j, "metric").value_or("");
  t.lower_is_better = j.at("better") == "lower";
  t.before = value_of<std::string>(j, "before").value_or("");
  t.until = value_of<std::string>(j, "until").value_or("");
  t.ready = value_of<std::string>(j, "ready").value_or("");
  t.budget = value_of<double>(j, "budget_s");
  t.warmup = whole(j.at("warmup"));
  t.rounds = whole(j.at("rounds"));
  t.confirming_rounds = whole(j.at("confirming_rounds"));
  t.run_seconds = j.at("run_seconds");
  t.seconds = j.at("seconds");
  t.others_cpu_share = j.at("others_cpu_share");
  t.interrupted = j.at("interrupted");
  t.has_ratios = j.at("comparison") == "ratio";
  for (const any_json& l : j.at("left_out")) t.left_out.push_back({l.at("name"), l.at("why")});
  t.order = j.at("order").get<std::vector<std::vector<std::string>>>();
  t.winner = value_of<std::string>(j, "winner").value_or("");
  if (const any_json& c = j.at("conclusion"); !c.is_null())
    t.conclusion = trial_conclusion{c.at("kind"), c.at("text"), value_of<std::string>(c, "command").value_or("")};
  for (const any_json& c : j.at("candidates")) t.candidates.push_back(candidate_from(c));
  if (t.candidates.empty()) throw unreadable("it has no candidates");
  return t;
}

}  // namespace

ordered_json json_of(const trial_results& t) {
  ordered_json j = {{"format", trial_results::format}, {"usher", t.usher}, {"commit", t.commit}, {"date", t.date}};
  j["machine"] = {{"cpu", t.place.cpu}, {"cpus", t.place.cpus}, {"kernel", t.place.kernel}, {"libc", t.place.libc}};
  j["command"] = t.command;
  j["metric"] = text_or_null(t.metric);
  j["better"] = t.lower_is_better ? "lower" : "higher";
  j["before"] = text_or_null(t.before);
  j["until"] = text_or_null(t.until);
  j["ready"] = text_or_null(t.ready);
  j["budget_s"] = or_null(t.budget);
  j["warmup"] = t.warmup;
  j["rounds"] = t.rounds;
  j["confirming_rounds"] = t.confirming_rounds;
  j["run_seconds"] = t.run_seconds;
  j["seconds"] = t.seconds;
  j["others_cpu_share"] = t.others_cpu_share;
  j["interrupted"] = t.interrupted;
  j["comparison"] = t.has_ratios ? "ratio" : "difference";
  j["left_out"] = ordered_json::array();
  for (const left_out_lock& l : t.left_out) j["left_out"].push_back({{"name", l.name}, {"why", l.why}});
  j["order"] = t.order;
  j["winner"] = text_or_null(t.winner);
  j["conclusion"] = nullptr;
  if (const auto& c = t.conclusion)
    j["conclusion"] = {{"kind", c->kind}, {"text", c->text}, {"command", text_or_null(c->command)}};
  j["candidates"] = ordered_json::array();
  for (const candidate_result& c : t.candidates) j["candidates"].push_back(json_of_candidate(t, c));
  return j;
}

trial_results trial_from(const any_json& j) {
  if (!j.is_object() || !j.contains("candidates")) throw unreadable("it is no result of usher try");
  const int format = whole_or(j, "format", 1);
  if (format != trial_results::format)
    throw unreadable(fmt::format("it has format {}, and this usher reads format {}", format, trial_results::format));
  try {
    return read_trial(j);
  } catch (const bad_input& e) {
    throw unreadable(e.what());
  } catch (const any_json::exception& e) {
    throw unreadable(fmt::format("it is not as docs/schema/try.json says: {}", reason_of(e)));
  }
}

}  // namespace usher::cli::trial
