#include "support/text/table.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "support/text/utf8.hpp"
#include "support/text/wrap.hpp"

namespace usher::support {
namespace {

constexpr std::size_t gap = 2;

void append_line(std::string& to, const std::vector<column>& columns, const std::vector<std::size_t>& widths,
                 const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const std::string blanks(widths[c] - std::min(widths[c], shown_width(cells[c])), ' ');
    line += columns[c].right ? blanks + cells[c] : cells[c] + blanks;
    line.append(gap, ' ');
  }
  line.erase(line.find_last_not_of(' ') + 1);
  to += line + "\n";
}

}  // namespace

growing_table::growing_table(std::vector<column> columns, const std::vector<std::vector<std::string>>& like_these,
                             std::size_t width)
    : columns_(std::move(columns)), breaks_(width != 0) {
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    columns_[c].heading = printable_line(columns_[c].heading);
    widths_.push_back(shown_width(columns_[c].heading));
    for (const auto& row : like_these) widths_[c] = std::max(widths_[c], shown_width(printable_line(row[c])));
  }
  // The widest column that may be broken is narrowed by one character at a time, until the table fits.
  std::size_t total = std::accumulate(widths_.begin(), widths_.end(), gap * (columns_.size() - 1));
  for (; width != 0 && total > width; --total) {
    std::size_t* widest = nullptr;
    for (std::size_t c = 0; c < columns_.size(); ++c)
      if (columns_[c].narrow != 0 && widths_[c] > columns_[c].narrow && (widest == nullptr || widths_[c] > *widest))
        widest = &widths_[c];
    if (widest == nullptr) break;
    --*widest;
  }
}

std::string growing_table::heading() const {
  std::vector<std::string> headings;
  headings.reserve(columns_.size());
  for (const auto& c : columns_) headings.push_back(c.heading);
  std::string text;
  append_line(text, columns_, widths_, headings);
  return text;
}

std::string growing_table::row(std::vector<std::string> cells) const {
  std::string text;
  std::vector<std::vector<std::string>> lines;
  std::size_t height = 1;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::string cell = printable_line(cells[c]);
    lines.push_back(columns_[c].narrow == 0 || !breaks_ ? std::vector{std::move(cell)} : broken(cell, widths_[c]));
    height = std::max(height, lines[c].size());
  }
  for (std::size_t l = 0; l < height; ++l) {
    for (std::size_t c = 0; c < columns_.size(); ++c) cells[c] = l < lines[c].size() ? lines[c][l] : "";
    append_line(text, columns_, widths_, cells);
  }
  return text;
}

std::string format_table(std::vector<column> columns, const std::vector<std::vector<std::string>>& rows,
                         std::size_t width) {
  const growing_table table(std::move(columns), rows, width);
  std::string text = table.heading();
  for (const auto& row : rows) text += table.row(row);
  return text;
}

std::size_t terminal_width() {
  winsize size{};
  return isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::size_t text_width() {
  constexpr std::size_t usual = 80, least = 40;
  const std::size_t width = terminal_width();
  return width == 0 ? usual : std::max(width, least);
}

}  // namespace usher::support
