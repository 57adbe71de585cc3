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

namespace usher::tool {

/// Thrown for a text that is no regular expression, or one with too many states. what() is the reason in one line.
struct bad_pattern : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A regular expression in RE2's syntax, whose first group is the number. It is searched for in each line, byte by
/// byte. RE2 neither backtracks nor recurses: a match takes time in proportion to the length of the line.
class metric_pattern {
 public:
  explicit metric_pattern(const std::string& regex);  ///< throws bad_pattern
  bool has_group() const;

  /// The text of the group in the last match. The last one counts because programs that report their progress print the
  /// result last.
  std::optional<std::string> last_in(std::string_view text) const;
  /// Replaces each text that the group matches by a fraction, because output_pattern treats fractions as measurements,
  /// which may differ.
  void mask(std::string& line) const;

 private:
  /// The offset and length of each text that the group matches in a line. If the user interrupts, only those found so
  /// far.
  std::vector<std::pair<std::size_t, std::size_t>> all_in(std::string_view line) const;

  std::shared_ptr<const re2::RE2> regex_;
};

/// The value of a text that is a number and nothing else: 12, 1,500.5, -3e+06. Nullopt for 1,5, which may mean 1.5 or
/// two numbers.
std::optional<double> number_of(std::string text);

}  // namespace usher::tool
