// Finds the places where lines of a chart coincide, so that none hides another.
#pragma once

#include <cstddef>
#include <vector>

#include "lab/draw/canvas.hpp"

namespace usher::lab {

class overlaps {
 public:
  static constexpr std::size_t most = 4;  ///< the highest count

  overlaps() = default;
  /// `paths`: the points of each line, sorted by x. The first line is drawn on top.
  explicit overlaps(const std::vector<std::vector<point>>& paths);

  /// The number of lines that cover this line at its point k, and along the segment from there to the next point.
  std::size_t at_point(std::size_t line, std::size_t k) const { return points_[line][k]; }
  std::size_t along_segment(std::size_t line, std::size_t k) const { return segments_[line][k]; }

 private:
  std::vector<std::vector<std::size_t>> points_, segments_;
};

}  // namespace usher::lab
