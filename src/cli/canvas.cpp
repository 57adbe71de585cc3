#include "canvas.hpp"

#include <cairo-svg.h>

#include <numbers>
#include <sstream>
#include <stdexcept>

#include "utf8.hpp"

namespace usher::cli {
namespace {

constexpr const char* cut = "…";

cairo_status_t append(void* bytes, const unsigned char* data, unsigned length) {
  static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

cairo_surface_t* new_surface(image_format format, std::string& bytes, double width, double height) {
  if (format == image_format::png)
    return cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(width), static_cast<int>(height));
  cairo_surface_t* s = cairo_svg_surface_create_for_stream(append, &bytes, width, height);
  cairo_svg_surface_set_document_unit(s, CAIRO_SVG_UNIT_PX);
  return s;
}

std::string escaped(const std::string& text) {
  std::string all;
  for (const char c : text) {
    if (c == '&')
      all += "&amp;";
    else if (c == '<')
      all += "&lt;";
    else if (c == '>')
      all += "&gt;";
    else
      all += c;
  }
  return all;
}

}  // namespace

canvas::canvas(image_format format, double width, double height)
    : format_(format), surface_(new_surface(format, bytes_, width, height)), context_(cairo_create(surface_.get())) {
  ink({1, 1, 1});
  cairo_paint(context_.get());
  // Text is as wide in a PNG as it is in an SVG.
  cairo_font_options_t* options = cairo_font_options_create();
  cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
  cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
  cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
  cairo_set_font_options(context_.get(), options);
  cairo_font_options_destroy(options);
}

void canvas::line(point from, point to, colour c, double width) {
  ink(c);
  cairo_set_line_width(context_.get(), width);
  cairo_move_to(context_.get(), from.x, from.y);
  cairo_line_to(context_.get(), to.x, to.y);
  cairo_stroke(context_.get());
}

void canvas::path(const std::vector<point>& points, colour c, double width) {
  ink(c);
  cairo_set_line_width(context_.get(), width);
  cairo_set_line_join(context_.get(), CAIRO_LINE_JOIN_ROUND);
  cairo_new_path(context_.get());  // text leaves a point behind
  for (const point& p : points) cairo_line_to(context_.get(), p.x, p.y);
  cairo_stroke(context_.get());
}

void canvas::area(const std::vector<point>& outline, colour c, double opacity) {
  cairo_set_source_rgba(context_.get(), c.red, c.green, c.blue, opacity);
  cairo_new_path(context_.get());
  for (const point& p : outline) cairo_line_to(context_.get(), p.x, p.y);
  cairo_close_path(context_.get());
  cairo_fill(context_.get());
}

void canvas::box(point corner, double width, double height, colour c) {
  ink(c);
  cairo_rectangle(context_.get(), corner.x, corner.y, width, height);
  cairo_fill(context_.get());
}

void canvas::dot(point centre, double radius, colour c) {
  ink(c);
  cairo_arc(context_.get(), centre.x, centre.y, radius, 0, 2 * std::numbers::pi);
  cairo_fill(context_.get());
}

void canvas::ring(point centre, double radius, colour c) {
  dot(centre, radius, c);
  dot(centre, radius - 1.5, {1, 1, 1});
}

void canvas::diamond(point centre, double radius, colour c) {
  ink(c);
  cairo_move_to(context_.get(), centre.x - radius, centre.y);
  cairo_line_to(context_.get(), centre.x, centre.y - radius);
  cairo_line_to(context_.get(), centre.x + radius, centre.y);
  cairo_line_to(context_.get(), centre.x, centre.y + radius);
  cairo_fill(context_.get());
}

void canvas::arrow_head(point tip, int direction, double size, colour c) {
  ink(c);
  cairo_move_to(context_.get(), tip.x, tip.y);
  cairo_line_to(context_.get(), tip.x - direction * size, tip.y - size / 2);
  cairo_line_to(context_.get(), tip.x - direction * size, tip.y + size / 2);
  cairo_fill(context_.get());
}

void canvas::choose(const font& f) {
  cairo_select_font_face(context_.get(), f.fixed ? "monospace" : "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                         f.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(context_.get(), f.size);
}

void canvas::text(point at, const std::string& what, const font& f, colour c, align how) {
  const double width = how == align::left ? 0 : text_width(what, f);
  choose(f);
  ink(c);
  cairo_move_to(context_.get(), at.x - (how == align::right ? width : width / 2), at.y);
  cairo_show_text(context_.get(), printable(what).c_str());
}

double canvas::text_width(const std::string& what, const font& f) {
  choose(f);
  cairo_text_extents_t size;
  cairo_text_extents(context_.get(), printable(what).c_str(), &size);
  return size.x_advance;
}

std::string canvas::shortened(const std::string& what, const font& f, double room) {
  std::string text = printable(what);
  if (text_width(text, f) <= room) return text;
  while (!text.empty() && text_width(text + cut, f) > room) drop_last_character(text);
  return text + cut;
}

std::vector<std::string> canvas::broken(const std::string& what, const font& f, double room, std::size_t most) {
  std::vector<std::string> lines = {""};
  std::istringstream in(printable(what));
  for (std::string word; in >> word;) {
    const std::string longer = lines.back().empty() ? word : lines.back() + " " + word;
    // The last line takes all the rest, and is cut.
    if (lines.back().empty() || lines.size() == most || text_width(longer, f) <= room)
      lines.back() = longer;
    else
      lines.push_back(word);
  }
  for (std::string& l : lines) l = shortened(l, f, room);
  return lines;
}

std::string canvas::finish(const std::string& title, const std::string& description) {
  cairo_status_t status = cairo_status(context_.get());
  if (format_ == image_format::png && status == CAIRO_STATUS_SUCCESS)
    status = cairo_surface_write_to_png_stream(surface_.get(), append, &bytes_);
  cairo_surface_finish(surface_.get());
  if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_status(surface_.get());
  if (status != CAIRO_STATUS_SUCCESS) throw std::runtime_error(cairo_status_to_string(status));
  if (format_ == image_format::svg) {
    const std::size_t tag = bytes_.find("<svg");
    bytes_.insert(bytes_.find('>', tag) + 1, "\n<title>" + escaped(printable(title)) + "</title>\n<desc>" +
                                                 escaped(printable(description)) + "</desc>");
  }
  return bytes_;
}

}  // namespace usher::cli
