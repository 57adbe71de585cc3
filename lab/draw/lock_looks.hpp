// The look of a lock in charts. Colour and symbol follow from the lock's place in the catalogue, dashes from its way of waiting: they
// are the same in every chart of every command, whatever other locks it shows.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lab/draw/canvas.hpp"

namespace usher::lab {

/// Indices into the tables of colours, symbols and dashes. A family of locks shares a colour, its members differ by symbol; the forms
/// of a lock share both and differ by dashes.
struct lock_look {
  std::size_t hue, symbol, dashes;

  bool operator==(const lock_look&) const = default;
};

lock_look look_of(const std::string& lock);

struct shown_lock {
  std::string name;  ///< unique in the chart
  std::string lock;
};

/// The looks of all locks in one chart, no two of them equal. Where several locks would have one look, the first by
/// name keeps it and the others get other dashes or symbols; the order of the list does not matter.
std::vector<lock_look> looks_of(const std::vector<shown_lock>& shown);

colour ink_of(const lock_look& look);
const std::vector<double>& dashes_of(const lock_look& look);

/// `size` multiplies symbol_radius. Hollow: the outline only, on white.
void draw_symbol(canvas& on, point at, const lock_look& look, double size = 1, bool hollow = false);

inline constexpr double symbol_radius = 5;

}  // namespace usher::lab
