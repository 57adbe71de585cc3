// The style of all charts. Lengths are pixels.
#pragma once

#include <cstddef>

#include "lab/draw/canvas.hpp"

namespace usher::lab::style {

inline constexpr double usual_width = 800, margin = 24, gap = 14;
inline constexpr double line_height = 15;  // of small text
inline constexpr std::size_t most_ticks = 8;

inline constexpr font title_font{17, true}, number_font{12}, small_font{11};
inline constexpr colour black{0.13, 0.13, 0.13}, grey{0.42, 0.42, 0.42}, pale{0.88, 0.88, 0.88}, white{1, 1, 1};

}  // namespace usher::lab::style
