// Numbers of a trial as text.
#pragma once

#include <string>
#include <vector>

#include "tool/trial/trial_results.hpp"

namespace usher::tool::trial {

/// A number with three significant digits or more, and commas between thousands.
std::string quantity(double v);
/// A share in percent. Small shares have more decimals.
std::string percent(double share);
/// A speed-up with two decimals, or with two significant digits if it is small.
std::string factor(double v);
/// An interval as text: "1.32–1.71", "from 1.32", "up to 1.71"; empty if both limits are infinite.
std::string limits_text(const support::interval& l, bool has_ratios);
/// A difference with its sign.
std::string signed_quantity(double v);

/// "1 round", "3 rounds".
std::string with_noun(std::size_t n, const std::string& noun);

}  // namespace usher::tool::trial
