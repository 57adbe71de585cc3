// Verdicts on rows and on the program. Each has a table of rules, of which the first that applies decides.
#pragma once

#include <span>
#include <string>

#include "stat/stat_report.hpp"

namespace usher::cli::stat {

/// docs/stat.md has the same table; a test compares them.
struct rule {
  const char* name;      ///< as in JSON: "long-hold"
  const char* in_table;  ///< three words at most, for the table
  const char* when;      ///< the measurement and the threshold in words
  const char* says;      ///< the beginning of the sentence, for the documentation
};

/// The option of a recommended `usher try` of a program that does not end by itself. LOAD is a placeholder for the user's own command.
inline constexpr const char* until_load = "--until 'LOAD'";
std::span<const rule> rules_of_rows();
std::span<const rule> rules_of_programs();
const rule* find_rule(const std::string& name);

/// Fills in rule, verdict and command of each row and of the program.
void judge(report& r);

}  // namespace usher::cli::stat
