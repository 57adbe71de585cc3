// The results of a check as text.
#pragma once

#include <string>

#include "cli/checking/results.hpp"

namespace usher::cli::checking {

/// One row for each target, mutant or order. `width`: the terminal's; 0: unlimited.
std::string table_text(const results& r, std::size_t width);

/// Each failure of a target that must pass, with its steps where they were recorded.
std::string failures_text(const results& r, std::size_t width);

/// The numbers of all, in one or two lines.
std::string summary_text(const results& r);

}  // namespace usher::cli::checking
