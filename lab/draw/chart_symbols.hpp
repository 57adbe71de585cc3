// The symbols of charts: distinct by shape alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "lab/draw/canvas.hpp"

namespace usher::lab {

inline constexpr std::array<std::string_view, 11> symbol_names{"disc", "square", "up",    "down",      "right",  "left",
                                                               "plus", "star",   "cross", "hourglass", "diamond"};
inline constexpr std::size_t symbol_count = symbol_names.size();

/// The index of a symbol. An unknown name is a compile-time error.
consteval std::size_t symbol_place(std::string_view name) {
  const auto* const at = std::find(symbol_names.begin(), symbol_names.end(), name);
  if (at == symbol_names.end()) throw "no such symbol";
  return static_cast<std::size_t>(at - symbol_names.begin());
}

/// `symbol`: an index into symbol_names. All symbols have about the same area.
void draw_symbol(canvas& on, point at, std::size_t symbol, double radius, colour ink);

/// Its outline, on white.
void draw_hollow_symbol(canvas& on, point at, std::size_t symbol, double radius, colour ink);

}  // namespace usher::lab
