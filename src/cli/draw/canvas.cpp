#include "cli/draw/canvas.hpp"

#include <sstream>

#include "cli/draw/png_canvas.hpp"
#include "cli/draw/svg_canvas.hpp"
#include "support/text/utf8.hpp"

namespace usher::cli {
namespace {

constexpr const char* cut = "…";

}  // namespace

void choose_font(cairo_t* context, const font& f) {
  cairo_font_options_t* options = cairo_font_options_create();
  cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
  cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
  cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
  cairo_set_font_options(context, options);
  cairo_font_options_destroy(options);
  cairo_select_font_face(context, f.fixed ? fixed_font : proportional_font, CAIRO_FONT_SLANT_NORMAL,
                         f.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(context, f.size);
}

text_ruler::text_ruler()
    : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, 1, 1)), context_(cairo_create(surface_.get())) {}

double text_ruler::text_width(const std::string& what, const font& f) const {
  choose_font(context_.get(), f);
  cairo_text_extents_t size;
  cairo_text_extents(context_.get(), printable(what).c_str(), &size);
  return size.x_advance;
}

std::string text_ruler::shortened(const std::string& what, const font& f, double room) const {
  std::string text = printable(what);
  if (text_width(text, f) <= room) return text;
  while (!text.empty() && text_width(text + cut, f) > room) drop_last_character(text);
  return text + cut;
}

std::vector<std::string> text_ruler::broken(const std::string& what, const font& f, double room,
                                            std::size_t most) const {
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

void canvas::box(point corner, double width, double height, colour ink) {
  const double right = corner.x + width, bottom = corner.y + height;
  area({corner, {right, corner.y}, {right, bottom}, {corner.x, bottom}}, ink);
}

void canvas::arrow_head(point tip, int direction, double size, colour ink) {
  const double back = tip.x - direction * size;
  area({tip, {back, tip.y - size / 2}, {back, tip.y + size / 2}}, ink);
}

std::unique_ptr<canvas> new_canvas(image_format format, double width, double height, double scale) {
  if (format == image_format::svg) return std::make_unique<svg_canvas>(width, height, scale);
  return std::make_unique<png_canvas>(width, height, scale);
}

}  // namespace usher::cli
