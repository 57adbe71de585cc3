#include "table.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <sstream>
#include <string_view>

namespace usher::cli {
namespace {

constexpr std::size_t gap = 2;

/// Characters, not bytes: continuation bytes of UTF-8 take no place.
std::size_t shown_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

std::vector<std::string> broken(const std::string& text, std::size_t width) {
  std::vector<std::string> lines = {""};
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    if (!lines.back().empty() && shown_width(lines.back()) + 1 + shown_width(word) > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

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

std::string format_table(const std::vector<column>& columns, const std::vector<std::vector<std::string>>& rows,
                         std::size_t width) {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    widths.push_back(shown_width(columns[c].heading));
    for (const auto& row : rows) widths[c] = std::max(widths[c], shown_width(row[c]));
  }
  // Take what is too much from the columns that may break, always from the widest.
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

}  // namespace usher::cli
