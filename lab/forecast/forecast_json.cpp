#include <string>
#include <utility>

#include "lab/forecast/forecast.hpp"

namespace usher::lab {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const spread& s) {
  return {{"median", s.middle}, {"least", s.least}, {"most", s.most}};
}

ordered_json object_to_json(const predict::replay_plan& p, std::uint32_t object, unsigned part) {
  return {{"object", object}, {"name", predict::name_of(p.objects, object)}, {"part", part}};
}

const char* name_of(predict::signal_rule r) {
  switch (r) {
    case predict::signal_rule::none:
      return "none";
    case predict::signal_rule::counted:
      return "counted";
    case predict::signal_rule::rounds:
      return "rounds";
    case predict::signal_rule::matched:
      return "matched";
  }
  return "none";
}

ordered_json recording_to_json(const forecast& f, const predict::replay_plan& p) {
  ordered_json j = {{"file", f.recording},
                    {"threads", p.threads},
                    {"cpus", p.machine.cpus},
                    {"processor", p.machine.processor},
                    {"lock", p.machine.lock},
                    {"windows", f.all_windows},
                    {"replayed_windows", p.windows},
                    {"seconds", p.seconds},
                    {"operations_per_second", p.operations_per_second}};
  j["roles"] = ordered_json::array();
  for (const predict::role& r : p.roles)
    j["roles"].push_back({{"name", r.name}, {"threads", r.threads}, {"operations", r.operations}});
  j["conditions"] = ordered_json::array();
  for (std::uint32_t c = 0; c < p.conditions.size(); c++) {
    const predict::condition_facts& of = p.conditions[c];
    if (of.waits + of.timed_out + of.signals == 0) continue;
    j["conditions"].push_back({{"object", c},
                               {"rule", name_of(of.rule)},
                               {"waits", of.waits},
                               {"unknown_waits", of.unknown},
                               {"timed_out", of.timed_out},
                               {"signals", of.signals}});
  }
  return j;
}

}  // namespace

ordered_json forecast_json(const forecast& f, const predict::replay_plan& p, const std::string& commit) {
  ordered_json j = {{"usher", USHER_VERSION}, {"commit", commit}};
  j["recording"] = recording_to_json(f, p);
  j["simulated_machine"] = {{"name", f.machine}, {"hash", f.machine_hash}, {"title", f.title}, {"cpus", f.cpus}};
  j["changes"] = f.changes;
  j["moved_lines"] = {
      {"given", f.lines_given}, {"measured", f.lines_measured}, {"least", f.least_lines}, {"most", f.most_lines}};
  j["track_record"] = track_record();
  j["left_out"] = left_out_in_words(p);
  j["effects"] = ordered_json::array();
  for (const effect& e : f.effects)
    j["effects"].push_back({{"key", e.what.key}, {"words", e.what.words}, {"lock", e.lock}, {"change", e.change}});
  j["bottlenecks"] = ordered_json::array();
  for (const bottleneck& b : f.bottlenecks) {
    ordered_json one = {{"lock", b.lock}, {"from_threads", b.from_threads}};
    one.update(object_to_json(p, b.object, b.part));
    j["bottlenecks"].push_back(std::move(one));
  }
  j["points"] = ordered_json::array();
  for (const forecast_point& at : f.points) {
    ordered_json one = {{"lock", at.lock}, {"threads", at.threads}, {"runs", at.runs}, {"unsettled", at.unsettled}};
    one["operations_per_second"] = to_json(at.operations);
    if (at.to_first) one["relative_to_first"] = *at.to_first;
    one["cpus_used"] = to_json(at.cpus);
    one["waiting_share"] = to_json(at.waiting);
    one["token_share"] = to_json(at.tokens);
    one["longest_wait_ns"] = at.longest_wait;
    one["working_set"] = to_json(at.working_set);
    ordered_json busiest = object_to_json(p, at.busiest.object, at.busiest.part);
    busiest["utilisation"] = at.busiest.utilisation;
    busiest["wanted"] = at.busiest.wanted;
    one["busiest"] = std::move(busiest);
    one["stalls"] = at.stalls;
    one["not_acquired"] = at.not_acquired;
    j["points"].push_back(std::move(one));
  }
  return j;
}

}  // namespace usher::lab
