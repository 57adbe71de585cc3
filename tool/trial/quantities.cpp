#include "tool/trial/quantities.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace usher::tool::trial {
namespace {

/// The number with four significant digits, without trailing zeros.
std::string small_quantity(double v) {
  if (std::fabs(v) < 1e-9) return fmt::format("{:.4g}", v);
  std::string text = fmt::format("{:.{}f}", v, 3 - static_cast<int>(std::floor(std::log10(std::fabs(v)))));
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

std::string quantity(double v) {
  if (std::isnan(v)) return "-";
  const double size = std::fabs(v);
  // One digit after the point suffices for halves, which medians of counts may be.
  const int digits = v == std::floor(v) || size >= 100 ? 0 : size >= 10 || 2 * v == std::floor(2 * v) ? 1 : 2;
  if (size > 0 && size < 1) return small_quantity(v);
  if (size >= 1e15) return fmt::format("{:.4g}", v);
  std::string text = fmt::format("{:.{}f}", v, digits);
  const std::size_t point = std::min(text.find('.'), text.size());
  for (std::size_t i = point; i > 3 + (v < 0 ? 1 : 0) && size >= 1000; i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string percent(double share) {
  if (share > 0 && share < 0.0001) return "less than 0.01 %";
  return fmt::format("{:.{}f} %", 100 * share, share == 0 || share >= 0.001 ? 1 : 2);
}

std::string factor(double v) {
  if (v >= 100) return quantity(std::round(v));
  return v >= 0.095 || v <= 0 ? fmt::format("{:.2f}", v) : fmt::format("{:.2g}", v);
}

std::string signed_quantity(double v) {
  return (v > 0 ? "+" : "") + quantity(v);
}

std::string limits_text(const support::interval& l, bool has_ratios) {
  const auto text = [&](double v) { return has_ratios ? factor(v) : signed_quantity(v); };
  if (std::isfinite(l.low) && std::isfinite(l.high)) return text(l.low) + (has_ratios ? "–" : " to ") + text(l.high);
  if (std::isfinite(l.low)) return "from " + text(l.low);
  return std::isfinite(l.high) ? "up to " + text(l.high) : "";
}

std::string with_noun(std::size_t n, const std::string& noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

}  // namespace usher::tool::trial
