#include "cli/text/messages.hpp"

#include <unistd.h>

#include "cli/text/table.hpp"
#include "cli/text/wrap.hpp"

namespace usher::cli {

void print_note(const std::string& sentence) {
  const std::string note = "usher: " + sentence;
  std::string text;
  if (isatty(STDERR_FILENO) == 0) {
    text = note + "\n";
  } else {
    constexpr std::string_view indent = "  ";  // of the second and later lines
    for (const std::string& line : broken(note, text_width() - indent.size())) {
      if (!text.empty()) text += indent;
      text += line + "\n";
    }
  }
  std::fputs(text.c_str(), stderr);
}

}  // namespace usher::cli
