// An execution as a table: a column for each thread, and beside each step its line of the sources.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/checking/check_results.hpp"

namespace usher::cli::checking {

/// The last step has the failure. `before`: steps that precede these. Lines are cut to `width`, unless that is 0.
std::string format_interleaving(const std::vector<step>& steps, std::size_t before, unsigned threads,
                                std::size_t width);

}  // namespace usher::cli::checking
