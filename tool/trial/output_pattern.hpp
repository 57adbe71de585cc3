// Compares a program's output with that of earlier runs, except for measurements, which differ from run to run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace usher::tool {

/// The parts of an output that are compared: hashes of each line's words and numbers. The text is not kept, to save
/// memory.
class printed {
 public:
  printed() = default;
  /// `mask` changes a line before it is hashed.
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
  /// Whether the numbers of both lines are the same; a measurement equals any number.
  bool same_numbers(std::size_t i, const printed& other, std::size_t j) const;

  std::vector<line> lines_;
  std::vector<std::uint64_t> numbers_;  ///< hashes of whole numbers; 0 is a measurement
};

/// The pattern of the outputs of some runs. A line that was the same in all of them must be the same again, except for
/// measurements: fractions, powers of ten, times, and numbers with a unit that changes with the size (0.01 s is 9 ms another
/// time). A line that differed in its numbers only may differ in its numbers; a line that differed otherwise may be anything.
/// After a single run, only the words are required. The number of lines may differ if it differed in these runs, or if the difference
/// is in lines with numbers or in repeated lines: a program prints its progress as long as it runs.
class output_pattern {
 public:
  void learn(const printed& output);
  /// The first line (from 1) that does not fit the pattern; 0 if all fit. Once two runs have been learned, an output
  /// that fits also fits after all later ones.
  std::size_t first_difference(const printed& output) const;
  bool is_settled() const { return learned_ > 1; }

 private:
  struct line {
    bool same_words = true, same_numbers = true;
  };
  struct kind {
    std::size_t times = 0, at = 0;  ///< the number of lines with these words, and the last of them
  };
  bool fits(std::size_t i, const printed& output, std::size_t j) const;
  std::size_t first_foreign_line(const printed& output) const;

  printed first_;
  std::vector<line> lines_;
  unsigned learned_ = 0;
  bool lost_ = false;  ///< the number of lines differed, too
};

}  // namespace usher::tool
