#include "support/text/utf8.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace usher::support {
namespace {

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

/// The code point of a character in valid UTF-8.
std::uint32_t code_of(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  std::uint32_t code = character.size() == 1 ? first : first & (0x7fu >> character.size());
  for (const char c : character.substr(1)) code = (code << 6) | (static_cast<unsigned char>(c) & 0x3fu);
  return code;
}

/// U+0000 to U+001F, U+007F, and U+0080 to U+009F (U+009B begins an escape sequence, like ESC [). Also characters that
/// make a terminal show a line in another order, or as two lines.
bool is_control(std::uint32_t code) {
  const auto is_in = [code](std::uint32_t from, std::uint32_t to) { return code >= from && code <= to; };
  return code < ' ' || is_in(0x7f, 0x9f) || code == 0x61c || code == 0x200e || code == 0x200f ||
         is_in(0x2028, 0x202e) || is_in(0x2066, 0x2069);
}

std::string shown(std::string_view character) {
  const std::uint32_t code = code_of(character);
  if (code == '\t') return " ";
  if (code == 0xfffe || code == 0xffff) return "?";  // not allowed in XML
  if (code == '\n' || !is_control(code)) return std::string(character);
  return code < 0x80 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{:04x}", code);
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
  // These are no valid UTF-8: an overlong encoding, a surrogate, or a code above U+10FFFF.
  const auto second = static_cast<unsigned char>(text[1]);
  const bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90);
  return wrong ? 0 : length;
}

std::string printable(std::string_view text, std::size_t most) {
  std::string all;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    all += length == 0 ? "?" : shown(text.substr(0, length));
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  while (all.size() > most) drop_last_character(all);
  return all;
}

std::string printable_line(std::string_view text) {
  std::string line;
  for (const char c : printable(text)) line += c == '\n' ? std::string("\\x0a") : std::string(1, c);
  return line;
}

void drop_last_character(std::string& text) {
  while (!text.empty() && continues(text.back())) text.pop_back();
  if (!text.empty()) text.pop_back();
}

}  // namespace usher::support
