// The surface of a chart, for lines, filled outlines and text. Its result is the content of a file. The SVG canvas writes elements and
// keeps text as text; the PNG canvas draws with cairo. Cairo measures text for both. Lengths are pixels, y grows downwards.
#pragma once

#include <cairo.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/draw/image_format.hpp"

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

struct stroke {
  colour ink;
  double width = 1;
  std::vector<double> dashes{};  ///< lengths of dashes and gaps, alternating; empty: a solid line
};

struct cairo_deleter {
  void operator()(cairo_t* c) const { cairo_destroy(c); }
  void operator()(cairo_surface_t* s) const { cairo_surface_destroy(s); }
};

using cairo_context = std::unique_ptr<cairo_t, cairo_deleter>;
using cairo_surface = std::unique_ptr<cairo_surface_t, cairo_deleter>;

/// Both formats ask for these fonts.
inline constexpr const char *proportional_font = "DejaVu Sans", *fixed_font = "DejaVu Sans Mono";

/// Without hints: they depend on the size in device pixels, and text would not have the same width in all images.
void choose_font(cairo_t* context, const font& f);

/// Measures text, and cuts or breaks it.
class text_ruler {
 public:
  text_ruler();

  double text_width(const std::string& what, const font& f) const;
  /// The text, or as much of its beginning as fits.
  std::string shortened(const std::string& what, const font& f, double room) const;
  /// The text in lines, broken between words. Text after `most` lines is cut off.
  std::vector<std::string> broken(const std::string& what, const font& f, double room, std::size_t most) const;

 private:
  cairo_surface surface_;
  cairo_context context_;
};

class canvas : public text_ruler {
 public:
  virtual ~canvas() = default;

  /// A line through all points, with rounded corners.
  virtual void path(const std::vector<point>& points, const stroke& s) = 0;
  /// Filled. With an opacity below 1 the ground shows through.
  virtual void area(const std::vector<point>& outline, colour ink, double opacity = 1) = 0;
  virtual void dot(point centre, double radius, colour ink) = 0;
  /// `at` is on the base line, at the text's left end, middle or right end.
  virtual void text(point at, const std::string& what, const font& f, colour ink, align how = align::left) = 0;
  /// The file's content. Only an SVG contains title and description. Throws std::runtime_error if cairo fails (no memory).
  virtual std::string finish(const std::string& title, const std::string& description) = 0;

  void line(point from, point to, colour ink, double width = 1) { path({from, to}, {ink, width}); }
  void box(point corner, double width, double height, colour ink);
  /// A triangle; `direction` is -1 for left and 1 for right.
  void arrow_head(point tip, int direction, double size, colour ink);
};

/// An image of this size. A scale above 1 shrinks all drawing by that factor.
std::unique_ptr<canvas> new_canvas(image_format format, double width, double height, double scale);

}  // namespace usher::cli
