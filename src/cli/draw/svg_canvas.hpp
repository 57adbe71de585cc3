// The canvas for SVG: each call appends an element. Text is kept as text, so that it can be searched and the file is small.
#pragma once

#include <string>
#include <vector>

#include "cli/draw/canvas.hpp"

namespace usher::cli {

class svg_canvas : public canvas {
 public:
  svg_canvas(double width, double height, double scale) : width_(width), height_(height), scale_(scale) {}

  void path(const std::vector<point>& points, const stroke& s) override;
  void area(const std::vector<point>& outline, colour ink, double opacity) override;
  void dot(point centre, double radius, colour ink) override;
  void text(point at, const std::string& what, const font& f, colour ink, align how) override;
  std::string finish(const std::string& title, const std::string& description) override;

 private:
  double width_, height_, scale_;
  std::string elements_;
};

}  // namespace usher::cli
