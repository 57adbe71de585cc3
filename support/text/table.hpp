// A table as text: columns have the width of their content, rows have one line. On a terminal that is too narrow, cells are broken
// between words in the columns that allow it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace usher::support {

struct column {
  std::string heading;
  bool right = false;      ///< aligned to the right, for numbers
  std::size_t narrow = 0;  ///< the least width to which cells may be broken; 0: never
};

/// Formats a table; its last line ends with a line feed. `width`: the terminal's; 0 for a file or a pipe: no cell is
/// broken. All texts are made printable by printable_line().
std::string format_table(std::vector<column> columns, const std::vector<std::vector<std::string>>& rows,
                         std::size_t width);

/// A table whose rows are added later, with columns as wide as those of given rows. A wider cell shifts the rest of its
/// row, or is broken if the column allows that and the text is for a terminal.
class growing_table {
 public:
  growing_table(std::vector<column> columns, const std::vector<std::vector<std::string>>& like_these,
                std::size_t width);
  std::string heading() const;
  std::string row(std::vector<std::string> cells) const;

 private:
  std::vector<column> columns_;
  std::vector<std::size_t> widths_;
  bool breaks_;
};

/// The width of the terminal on standard output; 0 if it is no terminal.
std::size_t terminal_width();

/// The width of running text: the terminal's, but at least 40; 80 without a terminal.
std::size_t text_width();

}  // namespace usher::support
