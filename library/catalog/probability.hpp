// Parses a probability such as "1", "0.001" or ".5", independent of the locale and of the C library.
#pragma once

#include <string_view>

namespace usher::inline v2 {

/// The value of a text of digits and at most one point; 0 if the text has another form or the value is above 1.
constexpr double parse_probability(std::string_view text) {
  double value = 0, digit = 1;
  bool point = false, digits = false;
  for (const char c : text) {
    if (c == '.' && !point) {
      point = true;
    } else if (c >= '0' && c <= '9') {
      digits = true;
      if (point)
        value += (digit /= 10) * (c - '0');
      else
        value = value * 10 + (c - '0');
    } else {
      return 0;
    }
  }
  return digits && value <= 1 ? value : 0;
}

}  // namespace usher::inline v2
