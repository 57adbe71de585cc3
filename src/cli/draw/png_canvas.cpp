#include "cli/draw/png_canvas.hpp"

#include <numbers>
#include <stdexcept>

#include "support/text/utf8.hpp"

namespace usher::cli {
namespace {

cairo_status_t append(void* bytes, const unsigned char* data, unsigned length) {
  static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

}  // namespace

png_canvas::png_canvas(double width, double height, double scale)
    : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(width), static_cast<int>(height))),
      context_(cairo_create(surface_.get())) {
  cairo_scale(context_.get(), 1 / scale, 1 / scale);
  ink({1, 1, 1});
  cairo_paint(context_.get());
}

void png_canvas::outline(const std::vector<point>& points) {
  cairo_new_path(context_.get());  // cairo_show_text() leaves a current point
  for (const point& p : points) cairo_line_to(context_.get(), p.x, p.y);
}

void png_canvas::path(const std::vector<point>& points, const stroke& s) {
  ink(s.ink);
  cairo_set_line_width(context_.get(), s.width);
  cairo_set_line_join(context_.get(), CAIRO_LINE_JOIN_ROUND);
  cairo_set_dash(context_.get(), s.dashes.data(), static_cast<int>(s.dashes.size()), 0);
  outline(points);
  cairo_stroke(context_.get());
}

void png_canvas::area(const std::vector<point>& points, colour c, double opacity) {
  cairo_set_source_rgba(context_.get(), c.red, c.green, c.blue, opacity);
  outline(points);
  cairo_close_path(context_.get());
  cairo_fill(context_.get());
}

void png_canvas::dot(point centre, double radius, colour c) {
  ink(c);
  cairo_new_path(context_.get());
  cairo_arc(context_.get(), centre.x, centre.y, radius, 0, 2 * std::numbers::pi);
  cairo_fill(context_.get());
}

void png_canvas::text(point at, const std::string& what, const font& f, colour c, align how) {
  const double width = how == align::left ? 0 : text_width(what, f);
  choose_font(context_.get(), f);
  ink(c);
  cairo_move_to(context_.get(), at.x - (how == align::right ? width : width / 2), at.y);
  cairo_show_text(context_.get(), printable(what).c_str());
}

std::string png_canvas::finish(const std::string&, const std::string&) {
  std::string bytes;
  cairo_status_t status = cairo_status(context_.get());
  if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_write_to_png_stream(surface_.get(), append, &bytes);
  if (status != CAIRO_STATUS_SUCCESS) throw std::runtime_error(cairo_status_to_string(status));
  return bytes;
}

}  // namespace usher::cli
