// An image that is drawn on and then is a file's content: SVG or PNG, by cairo. It knows lines, dots and text; what they
// mean is the charts' business. Lengths are pixels, y grows downwards.
#pragma once

#include <cairo.h>

#include <memory>
#include <string>
#include <vector>

#include "image_format.hpp"

namespace usher::cli {

struct colour {
  double red, green, blue;
};

struct font {
  double size;
  bool bold = false, fixed = false;
};

struct point {
  double x, y;
};

enum class align { left, centre, right };

class canvas {
 public:
  canvas(image_format format, double width, double height);

  void line(point from, point to, colour ink, double width = 1);
  /// From one to the next, with rounded corners.
  void path(const std::vector<point>& points, colour ink, double width);
  /// What these enclose; what lies below shows through, unless `opacity` is 1.
  void area(const std::vector<point>& outline, colour ink, double opacity);
  void box(point corner, double width, double height, colour ink);
  void dot(point centre, double radius, colour ink);
  void ring(point centre, double radius, colour ink);
  void diamond(point centre, double radius, colour ink);
  /// A triangle with its tip there; `direction` is -1 for left and 1 for right.
  void arrow_head(point tip, int direction, double size, colour ink);
  /// `at` is on the base line, at the text's left end, middle or right end.
  void text(point at, const std::string& what, const font& f, colour ink, align how = align::left);

  double text_width(const std::string& what, const font& f);
  /// The text, or as much of its beginning as there is room for.
  std::string shortened(const std::string& what, const font& f, double room);
  /// In lines, broken between words; what is left after `most` lines is cut off.
  std::vector<std::string> broken(const std::string& what, const font& f, double room, std::size_t most);

  /// The file's content. An SVG carries the title and the description as text, for its letters are curves. Throws
  /// std::runtime_error where cairo fails (no memory).
  std::string finish(const std::string& title, const std::string& description);

 private:
  struct closer {
    void operator()(cairo_t* c) const { cairo_destroy(c); }
    void operator()(cairo_surface_t* s) const { cairo_surface_destroy(s); }
  };

  void choose(const font& f);
  void ink(colour c) { cairo_set_source_rgb(context_.get(), c.red, c.green, c.blue); }

  image_format format_;
  std::string bytes_;  // before the surface, which writes here
  std::unique_ptr<cairo_surface_t, closer> surface_;
  std::unique_ptr<cairo_t, closer> context_;
};

}  // namespace usher::cli
