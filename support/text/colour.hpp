// Colours of a terminal: whether they are used, and text in colours.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "support/text/words.hpp"

namespace usher::support {

enum class colour_when { automatic, always, never };

inline std::optional<colour_when> colour_when_of(std::string_view word) {
  if (word == "auto") return colour_when::automatic;
  if (word == "always") return colour_when::always;
  if (word == "never") return colour_when::never;
  return std::nullopt;
}

/// Whether output to this stream has colours. `automatic`: on a terminal with colours, unless NO_COLOR (no-color.org)
/// is set.
inline bool has_colours(colour_when when, std::FILE* stream) {
  if (when != colour_when::automatic) return when == colour_when::always;
  return environment("NO_COLOR").empty() && environment("TERM") != "dumb" && isatty(fileno(stream)) != 0;
}

enum class text_colour { none, good, bad, faint };

inline std::string coloured(const std::string& text, text_colour c) {
  const char* const code = c == text_colour::good    ? "1;32"
                           : c == text_colour::bad   ? "31"
                           : c == text_colour::faint ? "2"
                                                     : nullptr;
  return code == nullptr ? text : std::string("\033[") + code + "m" + text + "\033[0m";
}

}  // namespace usher::support
