#include "cli/trial/metric.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace usher::cli {

// std::regex recurses for each character that it matches, so a long line is searched in parts that overlap by half. A match that the
// end of a part cuts is whole in the part before or after.
std::map<std::size_t, std::size_t> metric_pattern::all_in(std::string_view line) const {
  constexpr std::size_t part = 4096;
  std::map<std::size_t, std::size_t> found;
  for (std::size_t begin = 0; begin == 0 || begin + part / 2 < line.size(); begin += part / 2) {
    const std::size_t end = std::min(begin + part, line.size());
    auto flags = std::regex_constants::match_default;
    if (begin > 0) flags |= std::regex_constants::match_prev_avail | std::regex_constants::match_not_bol;
    if (end < line.size()) flags |= std::regex_constants::match_not_eol;
    for (std::cregex_iterator m(line.data() + begin, line.data() + end, regex_, flags), none; m != none; ++m) {
      if (!(*m)[1].matched) continue;
      const auto at = static_cast<std::size_t>(m->position(1)), length = static_cast<std::size_t>(m->length(1));
      if ((begin > 0 && at == 0) || (end < line.size() && begin + at + length == end)) continue;
      std::size_t& known = found[begin + at];
      known = std::max(known, length);
    }
  }
  return found;
}

std::optional<std::string> metric_pattern::last_in(std::string_view text) const {
  for (;;) {
    const std::size_t feed = text.rfind('\n');
    const std::string_view line = text.substr(feed + 1);  // npos + 1 is 0: all of it
    if (const auto found = all_in(line); !found.empty())
      return std::string(line.substr(found.rbegin()->first, found.rbegin()->second));
    if (feed == std::string_view::npos) return std::nullopt;
    text = text.substr(0, feed);
  }
}

void metric_pattern::mask(std::string& line) const {
  const auto found = all_in(line);
  std::size_t before = line.size();
  for (auto f = found.rbegin(); f != found.rend(); ++f) {
    if (f->first + f->second > before) continue;
    line.replace(f->first, f->second, "0.0");
    before = f->first;
  }
}

std::optional<double> number_of(std::string text) {
  static const std::regex whole(R"([+-]?([0-9]{1,3}(,[0-9]{3})+|[0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?)");
  const std::size_t begin = text.find_first_not_of(" \t\r"), end = text.find_last_not_of(" \t\r,.");
  if (end == std::string::npos || begin > end || end - begin > 100) return std::nullopt;
  text = text.substr(begin, end - begin + 1);
  if (!std::regex_match(text, whole)) return std::nullopt;
  std::erase(text, ',');
  char* rest = nullptr;
  const double v = std::strtod(text.c_str(), &rest);
  if (rest == text.c_str() || *rest != '\0' || !std::isfinite(v)) return std::nullopt;
  return v;
}

}  // namespace usher::cli
