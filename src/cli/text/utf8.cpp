#include "cli/text/utf8.hpp"

#include <algorithm>

namespace usher::cli {
namespace {

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

/// U+0000 to U+001F, U+007F, and U+0080 to U+009F, among which U+009B begins an escape sequence as ESC [ does.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 2) return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
  return first < ' ' || first == 0x7f;
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xc2 && first < 0xe0   ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || text.size() < length || !std::all_of(text.begin() + 1, text.begin() + length, continues)) return 0;
  // An overlong encoding, a surrogate, or a code above U+10FFFF.
  const auto second = static_cast<unsigned char>(text[1]);
  const bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90);
  return wrong ? 0 : length;
}

std::string printable(std::string_view text, std::size_t most) {
  std::string all;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, length);
    if (length == 0 || character == "\uFFFE" || character == "\uFFFF")  // these two are not allowed in XML
      all += '?';
    else if (is_control(character) && character != "\n")
      all += ' ';
    else
      all += character;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  while (all.size() > most) drop_last_character(all);
  return all;
}

std::string printable_line(std::string_view text) {
  std::string line = printable(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

void drop_last_character(std::string& text) {
  while (!text.empty() && continues(text.back())) text.pop_back();
  if (!text.empty()) text.pop_back();
}

}  // namespace usher::cli
