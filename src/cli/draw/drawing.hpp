// The charts as files. What draws them, and the library that it needs, is a module that is loaded when a chart is wanted.
#pragma once

#include <string>

#include "cli/draw/chart.hpp"
#include "cli/draw/curves.hpp"
#include "cli/draw/image_format.hpp"

namespace usher::cli {

/// Loads the module. Why there is none, for people, in one line; empty if it is there.
std::string load_drawing();

/// The file's content. Throws std::runtime_error where it cannot be drawn.
std::string drawn(const chart& c, image_format format);
std::string drawn(const curve_chart& c, image_format format);

// ---- the border between command and module: both are of one build, as its version says ----

extern "C" {
/// What draws leaves the file's content in `out` and returns true, or the reason why it could not.
using draw_chart_function = bool(const chart* c, image_format format, std::string* out);
using draw_curves_function = bool(const curve_chart* c, image_format format, std::string* out);
}

namespace drawing_symbols {
inline constexpr const char* version = "usher_drawing_version";
inline constexpr const char* chart = "usher_draw_chart";
inline constexpr const char* curves = "usher_draw_curves";
}  // namespace drawing_symbols

}  // namespace usher::cli
