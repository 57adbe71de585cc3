// A chart of values with intervals: a row for each value, with a symbol, whiskers, and a reference line.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/draw/axis.hpp"
#include "lab/draw/image_size.hpp"

namespace usher::cli {

/// The verdict on a row. The symbol is the lock's, hollow for `unclear`. The numbers of `good` and `bad` rows have a
/// coloured background.
enum class mark { reference, good, bad, unclear };

struct chart_row {
  std::string label;
  std::string lock{};                       ///< decides the look; empty: the label does
  std::optional<double> value{};            ///< nullopt: none, for the reason in the remark
  double low = -HUGE_VAL, high = HUGE_VAL;  ///< the limits; an infinite one is an arrow, two are not drawn
  mark kind = mark::unclear;
  std::string remark{};
};

struct chart {
  std::string title, subtitle;
  std::string quantity;  ///< what the axis shows
  std::string value_heading, interval_heading;
  bool less_is_better = false;
  double reference = 1;
  scale values = scale::automatic;  ///< automatic: logarithmic if they span more than a factor of 8
  image_size size;                  ///< 0: 800 pixels wide, with the height of the content
  std::vector<chart_row> rows;
  std::vector<std::pair<mark, std::string>> legend;  ///< marks that no row has are left out
  std::vector<std::string> caption;
};

/// The content of an SVG file.
std::string draw(const chart& c);

}  // namespace usher::cli
