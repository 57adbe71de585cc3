#include "lab/sweep/measured_json.hpp"

namespace usher::lab {

using nlohmann::ordered_json;

ordered_json begun_result(const std::string& point, const std::string& commit) {
  ordered_json all = ordered_json::parse(point);
  all["usher"] = USHER_VERSION;
  all["commit"] = commit;
  return all;
}

ordered_json durations_to_json(const support::durations& d) {
  return {{"mean", d.mean}, {"median", d.median}, {"p99", d.p99}, {"longest", d.longest}};
}

void add_operations(ordered_json& to, double throughput, const std::vector<std::uint64_t>& operations) {
  to["throughput"] = throughput;
  to["operations"] = operations;
  to["gini"] = support::gini(operations);
  to["relative_deviation"] = support::relative_deviation(operations);
  to["smallest_share"] = support::smallest_share(operations);
}

ordered_json& add_group(ordered_json& to, const support::group& g, bool waits) {
  ordered_json& here = g.name.empty() ? to : to["groups"][g.name];
  if (!g.name.empty()) {
    here["threads"] = g.threads;
    here["throughput"] = g.throughput;
  }
  if (waits) {
    here["wait_ns"] = durations_to_json(g.waits);
    here["waiting_at_end"] = g.waiting_at_end;
  }
  return here;
}

}  // namespace usher::lab
