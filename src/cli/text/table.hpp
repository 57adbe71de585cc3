// A table for people: columns as wide as they must be, one line a row; on a terminal that is too narrow, the
// cells of the columns that may break are broken between words.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace usher::cli {

struct column {
  std::string heading;
  bool right = false;      ///< numbers stand at the right
  std::size_t narrow = 0;  ///< how narrow it may become by breaking; 0: never breaks
};

/// `width` is the terminal's, or 0 where nothing is to be broken (a file, a pipe). Ends with a line feed.
std::string format_table(const std::vector<column>& columns, const std::vector<std::vector<std::string>>& rows,
                         std::size_t width);

/// The width of the terminal that standard output is, or 0 if it is none.
std::size_t terminal_width();

/// How wide running text is: as the terminal, but not less than 40; 80 where there is none.
std::size_t text_width();

}  // namespace usher::cli
