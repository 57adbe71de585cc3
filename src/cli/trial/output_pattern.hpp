// Whether a program printed the same as before, where much of what programs print is a measurement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace usher::cli {

/// What of an output is compared: of each line its words, and its numbers. Not the text itself, so that the outputs of many
/// runs can be kept.
class printed {
 public:
  printed() = default;
  /// `mask` may take parts of a line away before it is looked at.
  explicit printed(std::string_view text, const std::function<void(std::string&)>& mask = {});

  std::size_t size() const { return lines_.size(); }
  bool operator==(const printed&) const = default;

 private:
  friend class output_pattern;
  struct line {
    std::uint64_t words;  ///< a hash of all but numbers, blank space and units
    std::size_t end;      ///< of its numbers
    bool operator==(const line&) const = default;
  };
  std::size_t begin_of(std::size_t i) const { return i == 0 ? 0 : lines_[i - 1].end; }
  bool has_numbers(std::size_t i) const { return begin_of(i) != lines_[i].end; }
  /// Whether the numbers of both lines are the same; a measurement is the same as any number.
  bool same_numbers(std::size_t i, const printed& other, std::size_t j) const;

  std::vector<line> lines_;
  std::vector<std::uint64_t> numbers_;  ///< hashes of whole numbers; 0 is a measurement
};

/// Made from what a program printed in some runs. A line that was the same in all of them must be the same again, but for
/// measurements: fractions, powers of ten, times, and what has a unit that changes with its size (0.01 s is 9 ms another
/// time). One that differed in its numbers only may differ in its numbers; one that differed otherwise may be anything.
/// Of a single run, only the words are required. There may be more or fewer lines if there were in these runs, or if lines
/// with numbers, or such as there are several of, are there more or less often: progress is printed as long as it takes.
class output_pattern {
 public:
  void learn(const printed& output);
  /// The first line (from 1) that does not fit; 0: all do. What has once fitted after the second run that was learned will
  /// always fit.
  std::size_t first_difference(const printed& output) const;
  bool is_settled() const { return learned_ > 1; }

 private:
  struct line {
    bool same_words = true, same_numbers = true;
  };
  struct kind {
    std::size_t times = 0, at = 0;  ///< how many lines have these words, and the last of them
  };
  bool fits(std::size_t i, const printed& output, std::size_t j) const;
  std::size_t first_foreign_line(const printed& output) const;

  printed first_;
  std::vector<line> lines_;
  unsigned learned_ = 0;
  bool lost_ = false;  ///< not even the number of lines was the same
};

}  // namespace usher::cli
