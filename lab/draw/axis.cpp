#include "lab/draw/axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace usher::lab {
namespace {

std::vector<tick> linear_ticks(const axis& a, std::size_t most) {
  const double least = (a.high - a.low) / static_cast<double>(most);
  const double unit = std::pow(10, std::floor(std::log10(least)));
  double step = 10 * unit;
  for (const double s : {5 * unit, 2 * unit, unit})
    if (s >= least) step = s;
  const int digits = std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
  std::vector<tick> all;
  for (double n = std::ceil(a.low / step - 1e-9); n * step <= a.high + 1e-9 * step; ++n)
    all.push_back({n * step, std::fabs(n * step) < 1e6 ? fmt::format("{:.{}f}", n * step + 0.0, digits)
                                                       : fmt::format("{:g}", n * step)});
  return all;
}

/// Places several ticks in each decade, or one in each decade, or one in every few decades: the densest choice with at
/// most `most` ticks.
std::vector<tick> logarithmic_ticks(const axis& a, std::size_t most) {
  const int first = static_cast<int>(std::floor(std::log10(a.low)));
  const int last = static_cast<int>(std::ceil(std::log10(a.high)));
  const auto with = [&](const std::vector<int>& digits, int every) {
    std::vector<tick> all;
    for (int decade = first; decade <= last; ++decade)
      for (const int d : digits) {
        const double v = d * std::pow(10, decade);
        if (decade % every == 0 && v >= a.low && v <= a.high) all.push_back({v, fmt::format("{:g}", v)});
      }
    return all;
  };
  for (const auto& digits : {std::vector<int>{1, 2, 3, 5, 7}, {1, 2, 5}, {1, 3}})
    if (auto all = with(digits, 1); all.size() <= most) return all;
  int every = 1;
  while (with({1}, every).size() > most) ++every;
  return with({1}, every);
}

}  // namespace

double axis::at(double value) const {
  const double part = logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return begin + part * (end - begin);
}

bool is_logarithmic(scale chosen, bool positive, double factor) {
  constexpr double from = 8;
  return positive && (chosen == scale::logarithmic || (chosen == scale::automatic && factor > from));
}

std::vector<tick> ticks(const axis& a, std::size_t most) {
  constexpr std::size_t fewest = 3;
  if (a.logarithmic)
    if (auto all = logarithmic_ticks(a, most); all.size() >= fewest) return all;
  return linear_ticks(a, most);  // also for a logarithmic axis with a small span
}

}  // namespace usher::lab
