#include "lab/commands/machines.hpp"

#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "support/process/files.hpp"
#include "support/process/near.hpp"

namespace usher::lab {

namespace fs = std::filesystem;

std::vector<fs::path> shipped_folders() {
  const fs::path tree = support::own_tree();
  return {tree / "share" / "usher" / "machines", tree / USHER_DATADIR / "usher" / "machines"};
}

std::vector<fs::path> machine_folders() {
  std::vector<fs::path> folders = shipped_folders();
  if (const std::string own = support::environment("USHER_MACHINES"); !own.empty())
    folders.emplace(folders.begin(), own);
  return folders;
}

sim::machine find_machine(const std::string& name, const machine_changes& changes) {
  if (name.find('/') != std::string::npos || fs::path(name).extension() == ".toml") {
    if (!support::is_file(name)) throw sim::bad_machine("there is no machine file " + name);
    return sim::read_machine(name, changes);
  }
  std::set<std::string> known;
  for (const fs::path& folder : machine_folders()) {
    if (const fs::path file = folder / (name + ".toml"); support::is_file(file))
      return sim::read_machine(file, changes);
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".toml") known.insert(entry.path().stem());
  }
  std::string list;
  for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
  throw sim::bad_machine("unknown machine '" + name + "': " +
                         (list.empty() ? "no machine files were found; USHER_MACHINES may name their folder" : list));
}

}  // namespace usher::lab
