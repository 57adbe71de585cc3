// Words in the environment, on command lines, and in the output of programs.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace usher::support {

inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The text in single quotes, for a POSIX shell.
inline std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// The text as $'...', which bash, zsh and POSIX of 2024 know: one line, whatever the text contains.
inline std::string shell_escaped(const std::string& text) {
  constexpr std::string_view digits = "01234567";
  std::string quoted = "$'";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\n')
      quoted += "\\n";
    else if (code < ' ' || code == 0x7f)
      quoted += {'\\', digits[code >> 6], digits[(code >> 3) & 7], digits[code & 7]};
    else
      quoted += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  }
  return quoted + "'";
}

/// The words of a command as one line for a shell, in quotes where necessary.
inline std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789_-+=./:,@%") == std::string::npos;
    const bool has_control =
        std::any_of(word.begin(), word.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; });
    line += (line.empty() ? "" : " ") + (plain ? word : has_control ? shell_escaped(word) : shell_quoted(word));
  }
  return line;
}

/// The non-empty parts of the text between characters of `separators`.
inline std::vector<std::string_view> parts_of(std::string_view text, const char* separators) {
  std::vector<std::string_view> parts;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = std::min(text.find_first_of(separators, from), text.size());
    if (to > from) parts.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

/// The last line that is not blank. In a program's output it often says why the program failed.
inline std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return "";
  const std::size_t begin = text.find_last_of('\n', end);
  return text.substr(begin + 1, end - begin);
}

}  // namespace usher::support
