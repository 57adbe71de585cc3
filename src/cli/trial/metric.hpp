// The number in a program's output that the trial compares.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <string_view>

namespace usher::cli {

/// A regular expression whose first group is the number. Searched for line by line.
class metric_pattern {
 public:
  explicit metric_pattern(const std::string& regex) : regex_(regex) {}  ///< throws std::regex_error
  bool has_group() const { return regex_.mark_count() > 0; }

  /// The text of the group in the last match: programs that report their progress print the result last.
  std::optional<std::string> last_in(std::string_view text) const;
  /// Replaces all that the group matches by a fraction, which output_pattern takes for a measurement, not for a difference.
  void mask(std::string& line) const;

 private:
  /// The place of the group in a line, and its length.
  std::map<std::size_t, std::size_t> all_in(std::string_view line) const;

  std::regex regex_;
};

/// The value of a text that is a number as a whole: 12, 1,500.5, -3e+06. Not of 1,5, which may be one and a half or two numbers.
std::optional<double> number_of(std::string text);

}  // namespace usher::cli
