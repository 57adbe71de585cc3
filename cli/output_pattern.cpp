#include "output_pattern.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace usher::cli {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

enum class masked { all_numbers, fractions };

/// With numbers as '#' and all blank space as one blank: columns move with the length of numbers.
std::string masked_line(std::string_view line, masked what) {
  std::string words;
  for (std::size_t i = 0; i < line.size();) {
    const auto is = [&](std::size_t at, int (*kind)(int)) {
      return at < line.size() && kind(static_cast<unsigned char>(line[at])) != 0;
    };
    if (is(i, std::isdigit)) {
      const std::size_t begin = i;
      bool fraction = false;
      while (is(i, std::isdigit) ||
             (i < line.size() && (line[i] == '.' || line[i] == ',') && is(i + 1, std::isdigit))) {
        fraction = fraction || line[i] == '.';
        ++i;
      }
      words += what == masked::all_numbers || fraction ? "#" : line.substr(begin, i - begin);
    } else if (is(i, std::isspace)) {
      while (is(i, std::isspace)) ++i;
      words += ' ';
    } else {
      words += line[i++];
    }
  }
  return words;
}

}  // namespace

void output_pattern::learn(std::string_view text) {
  const auto lines = lines_of(text);
  if (learned_++ == 0) {
    for (const auto l : lines)
      lines_.push_back({masked_line(l, masked::fractions), masked_line(l, masked::all_numbers)});
    return;
  }
  if (lines.size() != lines_.size()) lost_ = true;
  if (lost_) return;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    line& known = lines_[i];
    known.same = known.same && masked_line(lines[i], masked::fractions) == known.exact;
    known.same_words = known.same_words && masked_line(lines[i], masked::all_numbers) == known.words;
  }
}

std::size_t output_pattern::first_difference(std::string_view text) const {
  if (!says_anything()) return 0;
  const auto lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size() && i < lines_.size(); ++i) {
    const line& known = lines_[i];
    const bool exact = known.same && learned_ > 1;
    if (exact ? masked_line(lines[i], masked::fractions) != known.exact
              : known.same_words && masked_line(lines[i], masked::all_numbers) != known.words)
      return i + 1;
  }
  return lines.size() == lines_.size() ? 0 : std::min(lines.size(), lines_.size()) + 1;
}

}  // namespace usher::cli
