// Text from elsewhere (command lines, the output of programs) for terminals and for formats that require UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace usher::cli {

/// The length of the first character, or 0 if the text does not begin with valid UTF-8.
std::size_t utf8_length(std::string_view text);

/// The same text with a question mark for each byte that is not UTF-8 and a blank for each control character but the line feed, so
/// that it contains no escape sequences. A text longer than `most` bytes is cut to whole characters.
std::string printable(std::string_view text, std::size_t most = std::string::npos);

/// The same with blanks for line feeds, too.
std::string printable_line(std::string_view text);

void drop_last_character(std::string& text);

}  // namespace usher::cli
