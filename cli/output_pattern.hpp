// Whether a program printed the same as before, where much of what programs print is a measurement.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace usher::cli {

/// Made from what a program printed in some runs. A line that was the same in all of them must be the same again, but for
/// fractions (0.01 s is 0.02 s another time); one that differed in its numbers only may differ in its numbers; one that differed otherwise may be anything. If not even
/// the number of lines was the same, nothing is required. Of a single run, only the words are.
class output_pattern {
 public:
  void learn(std::string_view text);
  /// The first line (from 1) that does not fit; 0: all do.
  std::size_t first_difference(std::string_view text) const;
  bool says_anything() const { return learned_ > 0 && !lost_; }

 private:
  struct line {
    std::string exact, words;
    bool same = true, same_words = true;
  };
  std::vector<line> lines_;
  unsigned learned_ = 0;
  bool lost_ = false;
};

}  // namespace usher::cli
