// The functions that the drawing module exports. No exception leaves it.
#include <exception>
#include <string>
#include <type_traits>

#include "cli/draw/chart.hpp"
#include "cli/draw/curves.hpp"
#include "cli/draw/drawing.hpp"

namespace usher::cli {
namespace {

template <class Chart>
bool draw_into(const Chart& c, image_format format, std::string& out) {
  try {
    out = draw(c, format);
    return true;
  } catch (const std::exception& e) {
    out = e.what();
    return false;
  }
}

}  // namespace
}  // namespace usher::cli

extern "C" {

[[gnu::visibility("default")]] extern const char usher_drawing_version[];
const char usher_drawing_version[] = USHER_VERSION;

[[gnu::visibility("default")]] bool usher_draw_chart(const usher::cli::chart* c, usher::cli::image_format format,
                                                     std::string* out) {
  return usher::cli::draw_into(*c, format, *out);
}

[[gnu::visibility("default")]] bool usher_draw_curves(const usher::cli::curve_chart* c, usher::cli::image_format format,
                                                      std::string* out) {
  return usher::cli::draw_into(*c, format, *out);
}
}

static_assert(std::is_same_v<decltype(usher_draw_chart), usher::cli::draw_chart_function>);
static_assert(std::is_same_v<decltype(usher_draw_curves), usher::cli::draw_curves_function>);
