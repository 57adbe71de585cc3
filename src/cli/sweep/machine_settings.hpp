// Numbers of a simulated machine that are other than its file says: --set-machine, --vary, and what of them stands in a point.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/machine.hpp"

namespace usher::cli {

/// As sim::read_machine() takes them.
using machine_changes = std::map<std::string, std::string>;

/// One value of a sweep: "coherence.per_read" and 6. A text that is no JSON stays a text.
struct varied_number {
  std::string key;
  nlohmann::ordered_json value;
};

/// SECTION.KEY=VALUE, each key once, as an object. Throws std::runtime_error.
nlohmann::ordered_json machine_settings_of(const std::vector<std::string>& texts);

/// SECTION.KEY=V1,V2,…; a comma within brackets or quotes separates nothing. Throws std::runtime_error.
std::vector<varied_number> varied_numbers(const std::string& text);

machine_changes changes_of(const nlohmann::ordered_json& settings, const std::optional<varied_number>& varied);
/// Of a point. Throws what JSON throws where its "machine_settings" and "vary" are something else.
machine_changes changes_of(const nlohmann::ordered_json& point);

/// One line where the machine's file or the changes have names of 0.1.
void warn_of_old_keys(const sim::machine& m);

}  // namespace usher::cli
