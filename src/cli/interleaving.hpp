// An execution as people read it: a column for each thread, beside it the lines of the source.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "checker.hpp"

namespace usher::cli {

/// The last `most` steps; the last of them says what is wrong. Lines are cut to `width`, unless that is 0.
std::string format_interleaving(const std::vector<step>& steps, std::size_t width, std::size_t most);

}  // namespace usher::cli
