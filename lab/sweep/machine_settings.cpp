#include "lab/sweep/machine_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace usher::lab {

namespace {

machine_value value_of(const std::string& text) {
  const auto value = nlohmann::ordered_json::parse(text, nullptr, false);
  if (value.is_discarded()) return {text, true};
  return value.is_string() ? machine_value{value.get<std::string>(), true} : machine_value{value.dump(), false};
}

/// Splits "SECTION.KEY=VALUE" at the first '='. Throws if the text has another form; `right` describes the correct
/// form.
std::pair<std::string, std::string> halves(const char* option, const std::string& text, const char* right) {
  const std::size_t at = text.find('=');
  const std::size_t dot = text.substr(0, at).find('.');
  if (at == std::string::npos || at + 1 == text.size() || dot == 0 || dot == std::string::npos || dot + 1 == at)
    throw std::runtime_error(fmt::format("{}: '{}' is not {}", option, text, right));
  return {text.substr(0, at), text.substr(at + 1)};
}

std::vector<std::string> list_of(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool quoted = false;
  for (const char c : text) {
    quoted = quoted != (c == '"');
    if (!quoted) depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0 && !quoted)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

}  // namespace

std::optional<double> machine_value::number() const {
  const auto value = nlohmann::json::parse(is_text ? "" : text, nullptr, false);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

bool operator==(const machine_value& a, const machine_value& b) {
  if (a.is_text != b.is_text) return false;
  return a.text == b.text || (a.number() && a.number() == b.number());
}

bool is_set(const machine_settings& settings, const std::string& key) {
  return std::any_of(settings.begin(), settings.end(), [&](const auto& s) { return s.first == key; });
}

machine_settings machine_settings_of(const std::vector<std::string>& texts) {
  machine_settings settings;
  for (const std::string& text : texts) {
    const auto [key, value] = halves("--set-machine", text, "SECTION.KEY=VALUE, as coherence.per_read=0");
    if (is_set(settings, key)) throw std::runtime_error("--set-machine: " + key + " is set twice");
    settings.emplace_back(key, value_of(value));
  }
  return settings;
}

std::vector<varied_number> varied_numbers(const std::string& text) {
  const auto [key, values] = halves("--vary", text, "SECTION.KEY=V1,V2,…, as coherence.per_read=0,6");
  std::vector<varied_number> all;
  for (const std::string& v : list_of(values)) {
    if (v.empty()) throw std::runtime_error("--vary: '" + text + "' has an empty value");
    all.push_back({key, value_of(v)});
    for (std::size_t i = 0; i + 1 < all.size(); i++)
      if (all[i].value == all.back().value) throw std::runtime_error("--vary: '" + text + "' has " + v + " twice");
  }
  return all;
}

}  // namespace usher::lab
