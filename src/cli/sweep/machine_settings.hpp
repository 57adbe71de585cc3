// Numbers of a simulated machine that replace those of its file: --set-machine and --vary.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/machine.hpp"

namespace usher::cli {

/// Keys and values as sim::read_machine() takes them.
using machine_changes = std::map<std::string, std::string>;

/// A text, or any other value as JSON writes it.
struct machine_value {
  std::string text;
  bool is_text = false;

  /// Absent if it is no number.
  std::optional<double> number() const;
};

bool operator==(const machine_value& a, const machine_value& b);

using machine_settings = std::vector<std::pair<std::string, machine_value>>;

/// One value of a sweep: "coherence.per_read" and 6.
struct varied_number {
  std::string key;
  machine_value value;
};

bool is_set(const machine_settings& settings, const std::string& key);

/// SECTION.KEY=VALUE, each key once. A value that is no JSON is a text. Throws std::runtime_error.
machine_settings machine_settings_of(const std::vector<std::string>& texts);

/// SECTION.KEY=V1,V2,…; a comma within brackets or quotes separates nothing. Throws std::runtime_error.
std::vector<varied_number> varied_numbers(const std::string& text);

}  // namespace usher::cli
