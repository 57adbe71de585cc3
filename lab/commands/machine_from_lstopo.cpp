#include "lab/commands/machine_from_lstopo.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "lab/calibrate/lstopo_machine.hpp"
#include "lab/calibrate/lstopo_xml.hpp"
#include "support/command/subcommand.hpp"
#include "support/text/input_file.hpp"
#include "support/text/messages.hpp"

namespace usher::lab {
namespace {

namespace fs = std::filesystem;

/// The machines of the first folder that has any, by name.
std::vector<calibrate::known_machine> machines_of(const std::vector<fs::path>& folders) {
  std::vector<fs::path> files;
  for (const fs::path& folder : folders) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".toml") files.push_back(entry.path());
    if (!files.empty()) break;
  }
  std::sort(files.begin(), files.end());
  std::vector<calibrate::known_machine> all;
  all.reserve(files.size());
  for (const fs::path& file : files) all.push_back({sim::read_machine(file), sim::machine_values(file)});
  return all;
}

}  // namespace

int print_machine_from_lstopo(const std::string& file, const std::string& like, const std::vector<fs::path>& folders,
                              const std::function<sim::machine(const std::string&)>& find_machine) try {
  const calibrate::lstopo topology = calibrate::read_lstopo(support::read_input(file));
  std::vector<calibrate::known_machine> known = machines_of(folders);
  std::size_t chosen = known.size();
  if (like.empty()) {
    chosen = calibrate::nearest(topology, known, false);
  } else {
    const sim::machine m = find_machine(like);
    known.push_back({m, sim::machine_values(m.file)});
  }
  const std::size_t caches = known[chosen].machine.caches ? chosen : calibrate::nearest(topology, known, true);
  const std::string text = calibrate::machine_file(topology, fs::path(file).filename(), known[chosen], known[caches]);
  for (const std::string& w : topology.warnings) support::warn("--machine-from-lstopo {}: {}", file, w);
  fmt::print("{}", text);
  return 0;
} catch (const support::bad_input& e) {
  support::report_error("--machine-from-lstopo {}: {}", file, e.what());
  return support::bad_usage;
} catch (const calibrate::bad_topology& e) {
  support::report_error("--machine-from-lstopo {}: {}", file, e.what());
  return support::bad_usage;
}

}  // namespace usher::lab
