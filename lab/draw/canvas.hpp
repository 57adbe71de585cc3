// The surface of a chart, for lines, filled outlines and text. It writes SVG, an element for each call. Text is kept as
// text, so that it can be searched and the file is small. Lengths are pixels, y grows downwards.
#pragma once

#include <string>
#include <vector>

#include "lab/draw/text_width.hpp"

namespace usher::lab {

struct colour {
  double red, green, blue;
};

struct point {
  double x, y;
};

enum class align { left, centre, right };

struct stroke {
  colour ink;
  double width = 1;
  std::vector<double> dashes{};  ///< lengths of dashes and gaps, alternating; empty: a solid line
};

class canvas {
 public:
  /// Makes an image of this size. All drawing is shrunk by the factor `scale`.
  canvas(double width, double height, double scale) : width_(width), height_(height), scale_(scale) {}

  /// A line through all points, with rounded corners.
  void path(const std::vector<point>& points, const stroke& s);
  /// Fills the outline. With an opacity below 1 the background shows through.
  void area(const std::vector<point>& outline, colour ink, double opacity = 1);
  void dot(point centre, double radius, colour ink);
  /// `at` is on the base line, at the text's left end, middle or right end.
  void text(point at, const std::string& what, const font& f, colour ink, align how = align::left);
  /// The file's content.
  std::string finish(const std::string& title, const std::string& description) const;

  void line(point from, point to, colour ink, double width = 1) { path({from, to}, {ink, width}); }

 private:
  double width_, height_, scale_;
  std::string elements_;
};

}  // namespace usher::lab
