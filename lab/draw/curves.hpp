// A chart of curves: a line for each name, with its range as bars and a band.
#pragma once

#include <string>
#include <vector>

#include "lab/draw/axis.hpp"
#include "lab/draw/image_size.hpp"

namespace usher::lab {

struct curve_point {
  double x, middle, low, high;
  bool settled = true;  ///< else it is drawn hollow
};

struct curve {
  std::string name;
  std::string lock;                 ///< decides the look; empty: the name does
  std::vector<curve_point> points;  ///< by x
};

struct curve_chart {
  std::string title, subtitle;
  std::string x_name, y_name;
  /// Automatic: the horizontal axis is logarithmic if it spans more than a factor of 8, the vertical one is not. A horizontal axis with
  /// values of 0 or below stays linear; on a logarithmic vertical axis they lie at the bottom.
  scale x_scale = scale::automatic, y_scale = scale::automatic;
  image_size size;  ///< 0: 800 pixels wide, with the height of the content
  std::vector<curve> curves;
  std::vector<std::string> caption;
};

/// The content of an SVG file.
std::string draw(const curve_chart& c);

}  // namespace usher::lab
