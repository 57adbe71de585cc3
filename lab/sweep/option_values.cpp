// Evaluates the options that `usher sim` and `usher bench` have in common, after they have been parsed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <variant>

#include "lab/sweep/sweep_options.hpp"

namespace usher::lab {
namespace {

/// The value of an option that is a duration; nullopt for "auto".
std::optional<std::uint64_t> duration_of(const point_key& k, const CLI::Option& given) {
  if (k.option.unit_ns != 1) {
    const auto value = given.as<double>();
    if (std::isnan(value)) throw std::runtime_error(std::string(k.option.name) + ": nan is no time");
    return static_cast<std::uint64_t>(std::llround(value * k.option.unit_ns));
  }
  const auto text = given.as<std::string>();
  if (text.empty() || text == "auto") return std::nullopt;
  const bool digits = text.size() <= 10 && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoull(text) < k.least || std::stoull(text) > k.most)
    throw std::runtime_error(fmt::format("{}: '{}' is neither nanoseconds, {} to {}, nor auto, {}", k.option.name, text,
                                         k.least, k.most, k.option.automatic));
  return std::stoull(text);
}

/// NAME=NUMBER. Throws std::runtime_error.
std::map<std::string, long> parameters_of(const std::vector<std::string>& settings) {
  std::map<std::string, long> parameters;
  for (const std::string& s : settings) {
    const std::size_t at = s.find('=');
    char* end = nullptr;
    const long value = at == std::string::npos ? 0 : std::strtol(s.c_str() + at + 1, &end, 10);
    if (at == std::string::npos || at + 1 == s.size() || *end != '\0')
      throw std::runtime_error("--set: '" + s + "' is not NAME=NUMBER");
    parameters[s.substr(0, at)] = value;
  }
  return parameters;
}

}  // namespace

sweep_point common_point(const figure_options& o, const std::vector<std::string>& machine_settings) {
  sweep_point p = o.point;
  p.workload = o.workload;
  p.parameters = parameters_of(o.settings);
  p.settings = machine_settings_of(machine_settings);
  for (const point_key& k : point_keys) {
    const auto* const duration = std::get_if<std::optional<std::uint64_t> sweep_point::*>(&k.member);
    if (duration == nullptr || k.option.name == nullptr) continue;
    const CLI::Option* const given = o.parser->get_option_no_throw(k.option.name);
    if (given != nullptr && given->count() != 0) p.*(*duration) = duration_of(k, *given);
  }
  return p;
}

std::vector<unsigned> thread_counts(const std::vector<std::string>& texts) {
  std::vector<unsigned> counts;
  const auto number = [](const std::string& text) {
    if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos || text.size() > 4 ||
        std::stoul(text) == 0)
      throw std::runtime_error("--threads: '" + text + "' is not a number of threads from 1 to 9999");
    return static_cast<unsigned>(std::stoul(text));
  };
  for (const std::string& text : texts) {
    const std::size_t dots = text.find("..");
    if (dots == std::string::npos) {
      counts.push_back(number(text));
      continue;
    }
    const unsigned from = number(text.substr(0, dots)), to = number(text.substr(dots + 2));
    if (from > to) throw std::runtime_error("--threads: " + text + " goes backwards");
    for (unsigned n = from; n <= to; n++) counts.push_back(n);
  }
  return counts;
}

std::vector<unsigned> default_counts(unsigned cpus) {
  std::vector<unsigned> counts;
  for (const unsigned n :
       {1u, 2u, 3u, 4u, 5u, 6u, 8u, 10u, 12u, 16u, 20u, 24u, 28u, 36u, 48u, 60u, 72u, 96u, 128u, 192u, 256u})
    if (n < cpus) counts.push_back(n);
  counts.push_back(cpus);
  return counts;
}

std::vector<std::string> chosen_locks(const std::vector<std::string>& names, const std::vector<std::string>& all) {
  std::vector<std::string> chosen;
  for (const std::string& name : names)
    if (name == "all")
      chosen.insert(chosen.end(), all.begin(), all.end());
    else
      chosen.push_back(name);
  return chosen;
}

}  // namespace usher::lab
