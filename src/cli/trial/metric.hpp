// The number in a program's output that the trial compares.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace re2 {
class RE2;
}

namespace usher::cli {

/// The text is no regular expression, or one with too many states; the reason, in one line.
struct bad_pattern : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A regular expression of RE2's, whose first group is the number. Searched for line by line, byte by byte. RE2 does not backtrack: a
/// match takes time in proportion to the line, whatever the expression and whatever the program prints, and no recursion.
class metric_pattern {
 public:
  explicit metric_pattern(const std::string& regex);  ///< throws bad_pattern
  bool has_group() const;

  /// The text of the group in the last match: programs that report their progress print the result last.
  std::optional<std::string> last_in(std::string_view text) const;
  /// Replaces all that the group matches by a fraction, which output_pattern takes for a measurement, not for a difference.
  void mask(std::string& line) const;

 private:
  /// The places of the group in a line, each with its length, in order. Those found so far if the user interrupts.
  std::vector<std::pair<std::size_t, std::size_t>> all_in(std::string_view line) const;

  std::shared_ptr<const re2::RE2> regex_;
};

/// The value of a text that is a number as a whole: 12, 1,500.5, -3e+06. Not of 1,5, which may be one and a half or two numbers.
std::optional<double> number_of(std::string text);

}  // namespace usher::cli
