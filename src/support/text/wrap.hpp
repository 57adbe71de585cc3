// Breaks text between words to fit a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace usher::cli {

/// The number of characters: continuation bytes of UTF-8 are not counted.
std::size_t shown_width(std::string_view text);

/// The words of a text, by printable(). A number and the unit behind it ("0.3 %", "1.5 s") are one word, so that no line ends between them.
std::vector<std::string> words_to_break(std::string_view text);

/// The words of a text in lines of at most that width. A longer word has a line of its own. At least one line.
std::vector<std::string> broken(std::string_view text, std::size_t width);

/// `left`, followed by `right` at a column: on the same line if it fits. Ends with a line feed.
std::string beside(std::string_view left, std::string_view right, std::size_t column, std::size_t width);

/// Fills paragraphs to the width. Lines that begin with a blank are examples: a line that is too long is broken before its remark (after
/// two blanks), or else before an option, with a backslash as in a shell.
std::string filled(std::string_view text, std::size_t width);

}  // namespace usher::cli
