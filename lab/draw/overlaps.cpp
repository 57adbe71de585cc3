#include "lab/draw/overlaps.hpp"

#include <algorithm>
#include <cmath>

namespace usher::lab {
namespace {

using path = std::vector<point>;

constexpr double near = 2.5;  // pixels

/// Whether the line passes within a distance of `near` above or below the point.
bool passes(const path& line, const point& at) {
  const auto right = std::lower_bound(line.begin(), line.end(), at.x, [](const point& p, double x) { return p.x < x; });
  if (right == line.end()) return false;
  if (right->x == at.x) return std::fabs(right->y - at.y) <= near;
  if (right == line.begin()) return false;
  const point& left = *(right - 1);
  const double y = left.y + (right->y - left.y) * (at.x - left.x) / (right->x - left.x);
  return std::fabs(y - at.y) <= near;
}

}  // namespace

overlaps::overlaps(const std::vector<path>& paths) {
  for (std::size_t i = 0; i < paths.size(); i++) {
    auto& points = points_.emplace_back(paths[i].size(), 0);
    auto& segments = segments_.emplace_back(paths[i].size(), 0);
    for (std::size_t above = 0; above < i; above++) {
      bool before = false;
      for (std::size_t k = 0; k < paths[i].size(); k++) {
        const bool here = passes(paths[above], paths[i][k]);
        if (here) points[k] = std::min(points[k] + 1, most);
        if (here && before) segments[k - 1] = std::min(segments[k - 1] + 1, most);
        before = here;
      }
    }
  }
}

}  // namespace usher::lab
