// A report for people: a table of at most 80 columns, and under its hottest rows their stacks and verdicts.
#pragma once

#include <cstddef>
#include <string>

#include "stat/report.hpp"

namespace usher::cli::stat {

struct text_options {
  std::size_t top = 10;  ///< rows
  bool details = false;  ///< everything of each row, and its objects
};
std::string as_text(const report& r, const text_options& o);
/// One line, for stderr, while the program hangs; and both stacks, for the table.
std::string as_line(const deadlock& d);
std::string as_text(const deadlock& d);

}  // namespace usher::cli::stat
