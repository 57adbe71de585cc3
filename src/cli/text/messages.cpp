#include "cli/text/messages.hpp"

#include <cstdio>

#include "cli/text/utf8.hpp"

namespace usher::cli {

void print_message(std::string_view kind, const std::string& text) {
  const std::string line = printable_line("usher: " + std::string(kind) + text) + "\n";
  std::fputs(line.c_str(), stderr);
}

}  // namespace usher::cli
