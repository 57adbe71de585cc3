// Values of a simulated machine that replace those in its file: the options --set-machine and --vary.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/sim/machine.hpp"

namespace usher::lab {

/// Changes of a machine's numbers, by key, for sim::read_machine().
using machine_changes = std::map<std::string, std::string>;

/// A value of a machine's key: a text without quotes, or another value in the form of JSON.
struct machine_value {
  std::string text;
  bool is_text = false;

  /// Returns the value as a number; nullopt if it is not a number.
  std::optional<double> number() const;
};

bool operator==(const machine_value& a, const machine_value& b);

using machine_settings = std::vector<std::pair<std::string, machine_value>>;

/// One value of --vary, such as the key "coherence.per_read" with the value 6.
struct varied_number {
  std::string key;
  machine_value value;
};

bool is_set(const machine_settings& settings, const std::string& key);

/// Reads texts of the form SECTION.KEY=VALUE, each key once. A value that is not JSON is a text. Throws
/// std::runtime_error.
machine_settings machine_settings_of(const std::vector<std::string>& texts);

/// Reads SECTION.KEY=V1,V2,… A comma within brackets or quotes does not separate values. Throws std::runtime_error.
std::vector<varied_number> varied_numbers(const std::string& text);

}  // namespace usher::lab
