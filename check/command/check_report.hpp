// The results of a check as text.
#pragma once

#include <cstddef>
#include <string>

#include "check/command/check_results.hpp"
#include "support/text/table.hpp"

namespace usher::check::command {

/// One row for each target, mutant or order. `width`: the terminal's; 0: unlimited.
std::string table_text(const results& r, std::size_t width);

/// Makes the table of table_text() row by row while the check runs, since a check may take hours.
class result_table {
 public:
  /// `planned`: all rows that will be shown; their outcomes are ignored.
  result_table(const results& planned, std::size_t width);
  std::string heading() const { return table_.heading(); }
  std::string rows(const results& some) const;

 private:
  support::growing_table table_;
};

/// Describes each failure of a target that must pass, with the steps if they were recorded.
std::string failures_text(const results& r, std::size_t width);

/// The numbers of targets, mutants or orders that passed, failed or were caught, in one or two lines.
std::string summary_text(const results& r);

}  // namespace usher::check::command
