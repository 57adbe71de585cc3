#include "lab/draw/chart_symbols.hpp"

#include <cmath>
#include <numbers>
#include <vector>

namespace usher::lab {
namespace {

using outline = std::vector<point>;

outline turned(const outline& points, double degrees) {
  const double a = degrees * std::numbers::pi / 180;
  outline all;
  all.reserve(points.size());
  for (const point& p : points)
    all.push_back({p.x * std::cos(a) - p.y * std::sin(a), p.x * std::sin(a) + p.y * std::cos(a)});
  return all;
}

outline star() {
  constexpr double inner = 0.5, outer = 1.2;
  outline all;
  for (int corner = 0; corner < 10; ++corner) {
    const double radius = corner % 2 == 0 ? outer : inner, a = std::numbers::pi * corner / 5;
    all.push_back({radius * std::sin(a), -radius * std::cos(a)});
  }
  return all;
}

/// The outlines of all symbols, for a radius of 1. An empty outline stands for a disc.
std::array<outline, symbol_count> all_outlines() {
  const outline square{{-0.72, -0.72}, {0.72, -0.72}, {0.72, 0.72}, {-0.72, 0.72}};
  const outline up{{0, -1.05}, {1, 0.75}, {-1, 0.75}};
  const double arm = 0.34, reach = 1.05;
  const outline plus{{-arm, -reach}, {arm, -reach}, {arm, -arm}, {reach, -arm}, {reach, arm},   {arm, arm},
                     {arm, reach},   {-arm, reach}, {-arm, arm}, {-reach, arm}, {-reach, -arm}, {-arm, -arm}};
  const outline hourglass{{-0.85, -0.95}, {0.85, -0.95}, {-0.85, 0.95}, {0.85, 0.95}};
  std::array<outline, symbol_count> all;
  all[symbol_place("square")] = square;
  all[symbol_place("up")] = up;
  all[symbol_place("down")] = turned(up, 180);
  all[symbol_place("right")] = turned(up, 90);
  all[symbol_place("left")] = turned(up, -90);
  all[symbol_place("plus")] = plus;
  all[symbol_place("star")] = star();
  all[symbol_place("cross")] = turned(plus, 45);
  all[symbol_place("hourglass")] = hourglass;
  all[symbol_place("diamond")] = {{0, -1.15}, {1.15, 0}, {0, 1.15}, {-1.15, 0}};
  return all;
}

constexpr double disc_radius = 0.85, rim = 1.5;

/// Empty: a disc.
outline placed(std::size_t symbol, point at, double radius) {
  static const std::array<outline, symbol_count> outlines = all_outlines();
  outline all;
  all.reserve(outlines[symbol].size() + 2);
  for (const point& p : outlines[symbol]) all.push_back({at.x + radius * p.x, at.y + radius * p.y});
  return all;
}

}  // namespace

void draw_symbol(canvas& on, point at, std::size_t symbol, double radius, colour ink) {
  const outline shape = placed(symbol, at, radius);
  if (shape.empty()) return on.dot(at, disc_radius * radius, ink);
  on.area(shape, ink);
}

void draw_hollow_symbol(canvas& on, point at, std::size_t symbol, double radius, colour ink) {
  constexpr colour white{1, 1, 1};
  outline shape = placed(symbol, at, radius);
  if (shape.empty()) {
    on.dot(at, disc_radius * radius, ink);
    return on.dot(at, disc_radius * radius - rim, white);
  }
  on.area(shape, white);
  // The closed line is continued to its second point, so that its first corner is joined like the others.
  shape.insert(shape.end(), {shape[0], shape[1]});
  on.path(shape, {ink, rim});
}

}  // namespace usher::lab
