#include "cli/sweep/simulated_point.hpp"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <stdexcept>
#include <system_error>

#include "cli/process/files.hpp"
#include "cli/process/near.hpp"
#include "cli/sweep/point_json.hpp"
#include "cli/text/words.hpp"

namespace usher::cli {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::vector<fs::path> machine_folders() {
  std::vector<fs::path> folders;
  if (const std::string own = environment("USHER_MACHINES"); !own.empty()) folders.emplace_back(own);
  const fs::path tree = own_tree();
  folders.push_back(tree / "share" / "usher" / "machines");
  folders.push_back(tree / USHER_DATADIR / "usher" / "machines");
  return folders;
}

sim::machine find_machine(const std::string& name, const machine_changes& changes) {
  if (name.find('/') != std::string::npos || fs::path(name).extension() == ".toml") {
    if (!is_file(name)) throw sim::bad_machine("there is no machine file " + name);
    return sim::read_machine(name, changes);
  }
  std::set<std::string> known;
  for (const fs::path& folder : machine_folders()) {
    if (const fs::path file = folder / (name + ".toml"); is_file(file)) return sim::read_machine(file, changes);
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".toml") known.insert(entry.path().stem());
  }
  std::string list;
  for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
  throw sim::bad_machine("unknown machine '" + name + "': " +
                         (list.empty() ? "no machine files were found; USHER_MACHINES may name their folder" : list));
}

sim::machine machine_of(const sweep_point& p) {
  sim::machine m = find_machine(p.machine, changes_of(p.settings, p.varied));
  if (!p.jitter) return m;
  if (!(*p.jitter >= 0 && *p.jitter <= most_jitter))
    throw std::runtime_error(fmt::format("the point's jitter is {}", *p.jitter));
  m.jitter = static_cast<unsigned>(std::lround(*p.jitter * 1024));
  return m;
}

sim::point simulated(const sweep_point& p) {
  sim::point to;
  to.workload = p.workload;
  to.lock = p.lock;
  to.threads = p.threads;
  to.seed = p.seed.value_or(1);
  to.parameters = p.parameters;
  to.run_ns = p.run_ns;
  to.pinned = p.pinned;
  to.others = p.others;
  to.spin_ns = p.spin_ns;
  to.placement = p.placement;
  to.together = p.together;
  to.warm_up_ns = p.warm_up_ns;
  return to;
}

ordered_json to_json(const sim::result& r) {
  ordered_json j;
  add_operations(j, r.throughput, r.operations);
  j["first_half"] = r.first_half;
  j["second_half"] = r.second_half;
  j["settled"] = r.settled;
  j["sockets"] = r.sockets;
  if (!r.groups.empty()) {
    j["admissions"] = r.admissions;
    j["found_free"] = r.found_free;
    j["lwss"] = r.working_set;
    j["mttr"] = r.reacquire;
    j["between_sockets"] = r.between_sockets;
    j["bypasses"] = r.bypasses;
    j["leaders_too_late"] = r.leaders_too_late;
    j["utilisation"] = r.utilisation;
    j["hold_ns"] = durations_to_json(r.holds);
    j["unlock_ns"] = durations_to_json(r.unlocks);
    j["hand_over_ns"] = durations_to_json(r.hand_overs);
  }
  for (const sim::group& g : r.groups) {
    ordered_json& to = add_group(j, g, true);
    if (!g.name.empty()) to["bypasses"] = g.bypasses;
  }
  j["voluntary_switches"] = r.voluntary;
  j["involuntary_switches"] = r.involuntary;
  j["migrations"] = r.migrations;
  j["cpus_used"] = r.cpus_used;
  j["cpus_without_pipeline"] = r.cpus_without_pipeline;
  if (r.loads != 0) {
    j["loads"] = r.loads;
    j["private_hits"] = r.private_hits;
    j["misses"] = r.misses;
    j["displaced_own"] = r.own_displaced;
    j["displaced_others"] = r.others_displaced;
    j["tlb_misses"] = r.tlb_misses;
  }
  j["measured_after_ns"] = r.warm_up_ns;
  j["events"] = r.events;
  j["looks"] = r.looks;
  j["cpu_s"] = r.cpu_seconds;
  return j;
}

}  // namespace usher::cli
