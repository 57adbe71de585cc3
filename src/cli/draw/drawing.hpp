// Charts as files. They are drawn by a module, which is loaded with its libraries only if a chart is requested.
#pragma once

#include <string>

#include "cli/draw/chart.hpp"
#include "cli/draw/curves.hpp"
#include "cli/draw/image_format.hpp"

namespace usher::cli {

/// Loads the module. An error message of one line if it cannot be loaded; empty on success.
std::string load_drawing();

/// The file's content. Throws std::runtime_error if the chart cannot be drawn.
std::string drawn(const chart& c, image_format format);
std::string drawn(const curve_chart& c, image_format format);

// ---- the interface between command and module, which must have the same version ----

extern "C" {
/// Draws: returns true with the file's content in `out`, or false with an error message in it.
using draw_chart_function = bool(const chart* c, image_format format, std::string* out);
using draw_curves_function = bool(const curve_chart* c, image_format format, std::string* out);
}

namespace drawing_symbols {
inline constexpr const char* version = "usher_drawing_version";
inline constexpr const char* chart = "usher_draw_chart";
inline constexpr const char* curves = "usher_draw_curves";
}  // namespace drawing_symbols

}  // namespace usher::cli
