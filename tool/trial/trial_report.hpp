// A trial's results as text.
#pragma once

#include <string>

#include "tool/trial/trial_results.hpp"

namespace usher::tool::trial {

/// The table, best candidate first, for a terminal of this width (0: 80 columns). `colours`: colours the winner's row
/// and those with failures.
std::string table_text(const trial_results& t, std::size_t width, bool colours);
/// The same as Markdown.
std::string markdown_table(const trial_results& t);
/// The failures of the candidates, one line each; empty if there are none.
std::string notes_text(const trial_results& t);
/// Ranges, CPU time, context switches, memory and lock calls.
std::string details_text(const trial_results& t, std::size_t width);
/// The speed-ups as bars.
std::string bars_text(const trial_results& t, std::size_t width);
/// The number of rounds, the duration, and the CPU time that other processes took.
std::string summary_text(const trial_results& t, std::size_t width);
/// The conclusion, followed by its command on a line of its own.
std::string conclusion_text(const trial_results& t, std::size_t width);

}  // namespace usher::tool::trial
