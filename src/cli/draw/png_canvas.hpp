// The canvas for PNG: cairo draws.
#pragma once

#include <string>
#include <vector>

#include "cli/draw/canvas.hpp"

namespace usher::cli {

class png_canvas : public canvas {
 public:
  png_canvas(double width, double height, double scale);

  void path(const std::vector<point>& points, const stroke& s) override;
  void area(const std::vector<point>& outline, colour ink, double opacity) override;
  void dot(point centre, double radius, colour ink) override;
  void text(point at, const std::string& what, const font& f, colour ink, align how) override;
  std::string finish(const std::string& title, const std::string& description) override;

 private:
  void ink(colour c) { cairo_set_source_rgb(context_.get(), c.red, c.green, c.blue); }
  void outline(const std::vector<point>& points);

  cairo_surface surface_;
  cairo_context context_;
};

}  // namespace usher::cli
