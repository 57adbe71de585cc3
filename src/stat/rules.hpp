// What to do about a row, and about the program: one table of rules, the first that fits says it.
#pragma once

#include <span>
#include <string>

#include "stat/report.hpp"

namespace usher::cli::stat {

/// Of docs/stat.md, which has the same table: a test compares them.
struct rule {
  const char* name;      ///< as in JSON: "long-hold"
  const char* in_table;  ///< three words at most, for the table
  const char* when;      ///< for people: what is measured, and the threshold
  const char* says;      ///< the sentence's beginning, for the documentation
};
std::span<const rule> rules_of_rows();
std::span<const rule> rules_of_programs();
const rule* find_rule(const std::string& name);

/// Fills in rule, verdict and command of each row and of the program.
void judge(report& r);

}  // namespace usher::cli::stat
