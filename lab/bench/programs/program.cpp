#include "lab/bench/programs/program.hpp"

#include <algorithm>
#include <string_view>

namespace usher::workloads {

void check_parameters(const description& d, const std::map<std::string, long>& asked) {
  for (const auto& [name, value] : asked) {
    const auto known = std::find_if(d.parameters.begin(), d.parameters.end(),
                                    [&name = name](const parameter& k) { return name == k.name; });
    if (known == d.parameters.end())
      throw bad_program(std::string(d.name) + " has no parameter '" + name + "': --list shows them");
    if (value < known->least || value > known->most)
      throw bad_program(std::string(d.name) + ": " + name + " must be between " + std::to_string(known->least) +
                        " and " + std::to_string(known->most));
  }
}

void check_exclusion(const description& d, std::string_view lock, const lock_traits& traits) {
  if (d.guards && !traits.excludes)
    throw bad_program(std::string(d.name) + " breaks under " + std::string(lock) + ", which does not exclude");
}

void check_guests(const std::map<std::string, long>& asked, unsigned threads, const char* lock, bool admits_guests) {
  const auto guests = asked.find("guests");
  if (guests == asked.end() || guests->second == 0) return;
  if (guests->second > long{threads}) throw bad_program("more guests than threads");
  if (!admits_guests) throw bad_program(std::string(lock) + " takes no guests");
}

std::map<std::string, long> with_defaults(const description& d, std::map<std::string, long> asked) {
  for (const parameter& p : d.parameters) asked.try_emplace(p.name, p.value);
  return asked;
}

}  // namespace usher::workloads
