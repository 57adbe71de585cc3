#include "support/text/messages.hpp"

#include <unistd.h>

#include <cstdio>

#include "support/text/table.hpp"
#include "support/text/utf8.hpp"
#include "support/text/wrap.hpp"

namespace usher::support {

void print_message(std::string_view kind, const std::string& text) {
  const std::string line = printable_line("usher: " + std::string(kind) + text) + "\n";
  std::fputs(line.c_str(), stderr);
}

void print_note(const std::string& sentence) {
  if (isatty(STDERR_FILENO) == 0) {
    print_message("", sentence);
    return;
  }
  constexpr std::string_view indent = "  ";  // of the second and later lines
  std::string text;
  for (const std::string& line : broken(printable_line("usher: " + sentence), text_width() - indent.size())) {
    if (!text.empty()) text += indent;
    text += line + "\n";
  }
  std::fputs(text.c_str(), stderr);
}

}  // namespace usher::support
