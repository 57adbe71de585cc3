// An execution as a table: a column for each thread, and beside each step its line of the sources.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "check/command/check_results.hpp"

namespace usher::check::command {

/// `steps`: the last steps up to the failure. `before`: the number of earlier steps, which are not shown. Lines are cut
/// to `width`, unless it is 0.
std::string format_interleaving(const std::vector<step>& steps, std::size_t before, unsigned threads,
                                std::size_t width);

}  // namespace usher::check::command
