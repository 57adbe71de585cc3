// Text that came from elsewhere (command lines, what programs print) for those who insist on UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace usher::cli {

/// The length of the character that begins there, or 0 if that is not UTF-8.
std::size_t utf8_length(std::string_view text);

/// The same text; what is not UTF-8 is a question mark, and what controls terminals is a blank, except line feeds. Of
/// more than `most` bytes the rest is dropped, by whole characters.
std::string printable(std::string_view text, std::size_t most = std::string::npos);

void drop_last_character(std::string& text);

}  // namespace usher::cli
