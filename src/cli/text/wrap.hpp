// Text broken between words, to fit a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace usher::cli {

/// Characters, not bytes: continuation bytes of UTF-8 take no place.
std::size_t shown_width(std::string_view text);

/// The words of a text. A number and the unit behind it ("0.3 %", "1.5 s") are one word, so that no line ends between them.
std::vector<std::string> words_to_break(std::string_view text);

/// The words of a text in lines of at most that width. A longer word has a line of its own. At least one line.
std::vector<std::string> broken(std::string_view text, std::size_t width);

/// `left`, and `right` beginning at a column: on the same line if there is room for it. Ends with a line feed.
std::string beside(std::string_view left, std::string_view right, std::size_t column, std::size_t width);

/// Paragraphs are filled anew. Lines that begin with a blank are examples: one that is too long is broken where a remark begins (after two
/// blanks), else, with a backslash as for a shell, before an option.
std::string filled(std::string_view text, std::size_t width);

}  // namespace usher::cli
