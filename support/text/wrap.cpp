#include "support/text/wrap.hpp"

#include <algorithm>
#include <array>
#include <sstream>

#include "support/text/utf8.hpp"

namespace usher::support {
namespace {

constexpr std::string_view indent = "      ";  // of the second and later lines of an example

/// Whether the word is a unit; a punctuation mark may follow it.
bool is_unit(std::string_view word) {
  static constexpr std::array<std::string_view, 8> units = {"%", "s", "ms", "µs", "ns", "min", "h", "MiB"};
  const std::size_t end = word.find_last_not_of(",.;:)");
  return end != std::string_view::npos && std::find(units.begin(), units.end(), word.substr(0, end + 1)) != units.end();
}

bool ends_with_digit(std::string_view word) {
  return !word.empty() && word.back() >= '0' && word.back() <= '9';
}

/// The last occurrence of `mark` within the first `width` columns of the line, at which the line is broken; npos if
/// there is none.
std::size_t last_break(std::string_view line, std::string_view mark, std::size_t width) {
  const std::size_t begin = line.find_first_not_of(' ');
  std::size_t found = std::string_view::npos;
  for (std::size_t at = line.find(mark, begin); at != std::string_view::npos; at = line.find(mark, at + 1))
    if (shown_width(line.substr(0, at)) <= width) found = at;
  return found;
}

std::string example(std::string_view line, std::size_t width) {
  if (shown_width(line) <= width) return std::string(line) + "\n";
  if (const std::size_t gap = last_break(line, "  ", width); gap != std::string_view::npos) {
    const std::string_view command = line.substr(0, line.find_last_not_of(' ', gap) + 1);
    const std::string_view remark = line.substr(line.find_first_not_of(' ', gap));
    return std::string(command) + "\n" + std::string(indent) + std::string(remark) + "\n";
  }
  const std::size_t option = last_break(line, " -", width - 2);
  if (option == std::string_view::npos) return std::string(line) + "\n";
  const std::string rest = std::string(indent) + std::string(line.substr(option + 1));
  const std::string first = std::string(line.substr(0, option)) + " \\\n";
  return first + (rest.size() < line.size() ? example(rest, width) : rest + "\n");
}

}  // namespace

std::size_t shown_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

std::vector<std::string> words_to_break(std::string_view text) {
  std::vector<std::string> words;
  std::istringstream in{printable(text)};
  for (std::string word; in >> word;) {
    if (!words.empty() && ends_with_digit(words.back()) && is_unit(word))
      words.back() += " " + word;
    else
      words.push_back(word);
  }
  return words;
}

std::vector<std::string> broken(std::string_view text, std::size_t width) {
  std::vector<std::string> lines = {""};
  for (const std::string& word : words_to_break(text)) {
    if (!lines.back().empty() && shown_width(lines.back()) + 1 + shown_width(word) > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

std::string beside(std::string_view left, std::string_view right, std::size_t column, std::size_t width) {
  std::string text(left);
  if (right.empty()) return text + "\n";
  std::size_t at = shown_width(left);
  if (at + 1 > column) {
    text += "\n";
    at = 0;
  }
  for (const std::string& line : broken(right, width > column ? width - column : 1)) {
    text += std::string(column - at, ' ') + line + "\n";
    at = 0;
  }
  return text;
}

std::string filled(std::string_view text, std::size_t width) {
  std::string result, paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty())
      for (const std::string& line : broken(paragraph, width)) result += line + "\n";
    paragraph.clear();
  };
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.front() != ' ') {
      paragraph += line + " ";
      continue;
    }
    end_paragraph();
    result += line.empty() ? "\n" : example(line, width);
  }
  end_paragraph();
  return result;
}

}  // namespace usher::support
