// A chart of curves: what comes of a number, one line a name, its range as a band. Data in, file out.
#pragma once

#include <string>
#include <vector>

#include "image_format.hpp"

namespace usher::cli {

struct curve_point {
  double x, middle, low, high;
  bool settled = true;  ///< else it is drawn hollow
};

struct curve {
  std::string name;
  std::vector<curve_point> points;  ///< by x
};

struct curve_chart {
  std::string title, subtitle;
  std::string x_name, y_name;
  bool log_x = false, log_y = false;  ///< logarithmic, where no value is below 0; 0 lies at the bottom
  std::vector<curve> curves;
  std::vector<std::string> caption;
};

/// The file's content, 800 pixels wide. Of the module that draws: the command calls drawn() of drawing.hpp. The horizontal axis is logarithmic also where it spans more than a factor of 8.
std::string draw(const curve_chart& c, image_format format);

}  // namespace usher::cli
