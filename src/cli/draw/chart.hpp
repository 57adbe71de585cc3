// A chart of values with intervals: one row a value, a symbol with whiskers, beside a reference line. Data in, file out.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/draw/axis.hpp"
#include "cli/draw/image_format.hpp"

namespace usher::cli {

/// The verdict on a row. The symbol is the lock's, hollow if unclear; the numbers of good and bad rows have a coloured ground.
enum class mark { reference, good, bad, unclear };

struct chart_row {
  std::string label;
  std::string lock{};                       ///< decides the look; empty: the label does
  std::optional<double> value{};            ///< nullopt: there is none, and the remark says why
  double low = -HUGE_VAL, high = HUGE_VAL;  ///< the whiskers; an infinite one is open, two are not drawn
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
  std::vector<std::pair<mark, std::string>> legend;  ///< what is not in the rows is left out
  std::vector<std::string> caption;
};

/// The file's content. Of the module that draws: the command calls drawn() of drawing.hpp.
std::string draw(const chart& c, image_format format);

}  // namespace usher::cli
