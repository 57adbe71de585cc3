// Verdicts on rows and on the program. Each has a table of rules, of which the first that applies decides.
#pragma once

#include <span>
#include <string>

#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

/// A rule as documented. docs/stat.md has the same table; a test compares the two.
struct rule {
  const char* name;      ///< as in JSON: "long-hold"
  const char* in_table;  ///< three words at most, for the table
  const char* when;      ///< the measurement and the threshold in words
  const char* says;      ///< the beginning of the sentence, for the documentation
};

/// The machine is busy if others took more than this share of the CPU time. Chosen, as in `usher try`.
inline constexpr double busy_machine = 0.1;

/// The option that a recommended `usher try` needs for a program that does not end by itself. The user replaces LOAD
/// by a command.
inline constexpr const char* until_load = "--until 'LOAD'";
std::span<const rule> rules_of_rows();
std::span<const rule> rules_of_programs();
const rule* find_rule(const std::string& name);

/// Sets the rule, the verdict and the command of each row and of the program.
void judge(report& r);

}  // namespace usher::reader
