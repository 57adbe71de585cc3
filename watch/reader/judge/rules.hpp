// Verdicts on rows and on the program. For each, the first rule of a table that applies gives the verdict.
#pragma once

#include <span>
#include <string>

#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

/// A rule as documented. A test compares it with the table in docs/stat.md.
struct rule {
  const char* name;      ///< as in JSON: "long-hold"
  const char* in_table;  ///< at most three words, for the table
  const char* when;      ///< the measurement and the threshold in words
  const char* says;      ///< the beginning of the sentence, for the documentation
};

/// The machine is busy if other programs took more than this share of the CPU time. Chosen, as in `usher try`.
inline constexpr double busy_machine = 0.1;

/// The option in recommended `usher try` commands for a program that does not end by itself. The user replaces LOAD by
/// a command.
inline constexpr const char* until_load = "--until 'LOAD'";
std::span<const rule> rules_of_rows();
std::span<const rule> rules_of_programs();
const rule* find_rule(const std::string& name);

/// Sets the rule, the verdict and the command of each row and of the program.
void judge(report& r);

}  // namespace usher::reader
