#include "support/text/duration.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

namespace usher::support {
namespace {

/// The seconds of a unit; 0 if the letter is no unit. In a duration, larger units must precede smaller ones.
constexpr double seconds_in(char unit) {
  return unit == 'h' ? 3600 : unit == 'm' ? 60 : unit == 's' ? 1 : 0;
}

/// The length of digits and points at the beginning. strtod() is not used for this, since it accepts signs, exponents
/// and "inf".
std::size_t length_of_number(std::string_view text) {
  const std::size_t end = text.find_first_not_of("0123456789.");
  return end == std::string_view::npos ? text.size() : end;
}

}  // namespace

std::optional<double> duration_of(std::string_view text) {
  constexpr double most = 1e7;  // a third of a year
  double sum = 0, last_unit = HUGE_VAL;
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    const std::size_t length = length_of_number(text);
    const std::string number(text.substr(0, length));
    char* rest = nullptr;
    const double value = std::strtod(number.c_str(), &rest);
    if (length == 0 || rest != number.c_str() + length) return std::nullopt;
    text.remove_prefix(length);
    const bool is_plain = text.empty() && sum == 0 && last_unit == HUGE_VAL;
    const double unit = is_plain ? 1 : text.empty() ? 0 : seconds_in(text.front());
    if (unit == 0 || unit >= last_unit) return std::nullopt;
    if (!text.empty()) text.remove_prefix(1);
    sum += value * unit;
    last_unit = unit;
  }
  return sum > 0 && sum <= most ? std::optional(sum) : std::nullopt;
}

std::string duration_text(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.{}f} s", seconds, seconds < 0.995 ? 2 : 1);
  const long s = std::lround(seconds);
  if (s < 60) return fmt::format("{} s", s);
  const auto two = [](long large, const char* large_unit, long small, const char* small_unit) {
    return fmt::format("{} {}", large, large_unit) + (small != 0 ? fmt::format(" {} {}", small, small_unit) : "");
  };
  if (s < 3600) return two(s / 60, "min", s % 60, "s");
  const long minutes = (s + 30) / 60;
  return two(minutes / 60, "h", minutes % 60, "min");
}

std::string duration_option(double seconds) {
  const long s = static_cast<long>(std::ceil(seconds));
  if (s < 120) return fmt::format("{}s", s);
  const long minutes = (s + 59) / 60;
  if (minutes < 120) return fmt::format("{}m", minutes);
  return fmt::format("{}h", minutes / 60) + (minutes % 60 != 0 ? fmt::format("{}m", minutes % 60) : "");
}

}  // namespace usher::support
