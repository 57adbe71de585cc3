// Fits a chart into the size of its image.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "lab/draw/canvas.hpp"
#include "lab/draw/chart_style.hpp"
#include "lab/draw/image_size.hpp"

namespace usher::lab {

/// The size of a layout before the drawing is shrunk by `scale`.
struct page {
  double width = style::usual_width;
  double height = 0;  ///< 0: as much as the layout takes
  double scale = 1;
};

/// Returns the first layout that fits its page, and this page. If a layout does not fit the image's size, the page and
/// the scale are enlarged: the drawing shrinks, and nothing is cut off.
template <class Make>
auto fitted(const image_size& size, Make make) {
  constexpr double step = 1.08, most = 64;
  page p;
  if (size.width != 0) p = {static_cast<double>(size.width), static_cast<double>(size.height), 1};
  for (;;) {
    auto layout = make(p);
    if (layout.fits(p) || p.scale > most) {
      if (p.height == 0) p.height = layout.height;
      return std::pair(std::move(layout), p);
    }
    p = {p.width * step, p.height * step, p.scale * step};
  }
}

/// Writes the name of a horizontal axis below the middle of its plot, or beside it if the name would leave the page.
inline void write_axis_name(canvas& on, const std::string& name, double middle, double y, double width) {
  const std::string text = shortened(name, style::small_font, width - 2 * style::margin);
  const double room = style::margin + text_width(text, style::small_font) / 2;
  on.text({std::clamp(middle, room, std::max(room, width - room)), y}, text, style::small_font, style::grey,
          align::centre);
}

/// The image of a chart `c`: Drawing draws the layout that fits its size.
template <class Drawing, class Chart, class Make>
std::string drawn(const Chart& c, Make layout, const std::string& description) {
  const auto [l, p] = fitted(c.size, layout);
  canvas on(p.width / p.scale, p.height / p.scale, p.scale);
  Drawing(c, l, on).all();
  return on.finish(c.title + ": " + c.subtitle, description);
}

}  // namespace usher::lab
