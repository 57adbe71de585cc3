// Figures of a trial as people read them.
#pragma once

#include <string>
#include <vector>

#include "cli/trial/results.hpp"

namespace usher::cli::trial {

/// Three digits or more, with commas.
std::string quantity(double v);
/// Of little there are as many digits as say something.
std::string percent(double share);
/// Of a speed-up: two decimals, of little two digits.
std::string factor(double v);
/// As in brackets behind a speed-up: "1.32–1.71", "from 1.32", "up to 1.71"; empty if nothing is known.
std::string limits_text(const limits_seen& l, bool has_ratios);
/// A difference with its sign.
std::string signed_quantity(double v);

/// As one line that a shell reads back.
std::string command_line(const std::vector<std::string>& words);

/// "1 round", "3 rounds".
std::string with_noun(std::size_t n, const std::string& noun);

}  // namespace usher::cli::trial
