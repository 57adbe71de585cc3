// Text from elsewhere (command lines, names in programs and in result files, the output of programs) for terminals and
// for formats that require UTF-8.
//
// The attacker chooses such a text: an escape sequence would move the cursor, set the title, or answer in the name of
// the user. Tables, paragraphs and messages (table.hpp, wrap.hpp, messages.hpp) pass their texts through printable();
// code that prints other lines calls printable() itself.
#pragma once

#include <string>
#include <string_view>

namespace usher::support {

/// The length of the first character, or 0 if the text does not begin with valid UTF-8.
std::size_t utf8_length(std::string_view text);

/// The same text without escape sequences. A byte that is not UTF-8 becomes a question mark; a control character
/// becomes a text such as \x1b or \u202e; a tabulator becomes a blank; line feeds remain. A text longer than `most`
/// bytes is cut to whole characters.
std::string printable(std::string_view text, std::size_t most = std::string::npos);

/// The same as printable(), but a line feed becomes \x0a, so that a name cannot make another line.
std::string printable_line(std::string_view text);

void drop_last_character(std::string& text);

}  // namespace usher::support
