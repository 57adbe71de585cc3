// Breaks text between words to fit a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace usher::support {

/// The number of characters of a text in UTF-8 (bytes that continue a character are not counted).
std::size_t shown_width(std::string_view text);

/// The printable words of a text. A number and the unit behind it ("0.3 %", "1.5 s") are one word: a line never ends
/// between them.
std::vector<std::string> words_to_break(std::string_view text);

/// Breaks a text into lines of at most `width` characters, at least one line. A word that is longer has a line of its
/// own.
std::vector<std::string> broken(std::string_view text, std::size_t width);

/// `left`, followed by `right` at a column, on the same line if `left` ends before that column. Ends with a line feed.
std::string beside(std::string_view left, std::string_view right, std::size_t column, std::size_t width);

/// Breaks paragraphs at `width`. Lines that begin with a blank are examples. An example that is too long is broken
/// before its remark, which follows two blanks, or else before an option, with a backslash as in a shell.
std::string filled(std::string_view text, std::size_t width);

}  // namespace usher::support
