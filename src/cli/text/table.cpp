#include "cli/text/table.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "cli/text/utf8.hpp"
#include "cli/text/wrap.hpp"

namespace usher::cli {
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

std::string format_table(std::vector<column> columns, std::vector<std::vector<std::string>> rows, std::size_t width) {
  for (column& c : columns) c.heading = printable_line(c.heading);
  for (auto& row : rows)
    for (std::string& cell : row) cell = printable_line(cell);
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    widths.push_back(shown_width(columns[c].heading));
    for (const auto& row : rows) widths[c] = std::max(widths[c], shown_width(row[c]));
  }
  // Narrow the columns that may be broken, always the widest, until the table fits.
  std::size_t total = std::accumulate(widths.begin(), widths.end(), gap * (columns.size() - 1));
  for (; width != 0 && total > width; --total) {
    std::size_t* widest = nullptr;
    for (std::size_t c = 0; c < columns.size(); ++c)
      if (columns[c].narrow != 0 && widths[c] > columns[c].narrow && (widest == nullptr || widths[c] > *widest))
        widest = &widths[c];
    if (widest == nullptr) break;
    --*widest;
  }

  std::string text;
  std::vector<std::string> headings;
  headings.reserve(columns.size());
  for (const auto& c : columns) headings.push_back(c.heading);
  append_line(text, columns, widths, headings);
  for (const auto& row : rows) {
    std::vector<std::vector<std::string>> lines;
    std::size_t height = 1;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      lines.push_back(columns[c].narrow == 0 ? std::vector{row[c]} : broken(row[c], widths[c]));
      height = std::max(height, lines[c].size());
    }
    for (std::size_t l = 0; l < height; ++l) {
      std::vector<std::string> cells;
      cells.reserve(columns.size());
      for (const auto& cell : lines) cells.push_back(l < cell.size() ? cell[l] : "");
      append_line(text, columns, widths, cells);
    }
  }
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

}  // namespace usher::cli
