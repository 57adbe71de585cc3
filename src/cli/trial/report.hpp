// A trial's results for people: table, details, bars, Markdown, chart.
#pragma once

#include <string>

#include "cli/draw/chart.hpp"
#include "cli/trial/results.hpp"

namespace usher::cli::trial {

/// Within 80 columns, or the terminal's width (0: none), best first. `colours`: the winner's row and failures have one.
std::string table_text(const trial_seen& t, std::size_t width, bool colours);
/// The same as Markdown.
std::string markdown_table(const trial_seen& t);
/// What went wrong, a line each; empty: nothing did.
std::string notes_text(const trial_seen& t);
/// Ranges, CPU time, context switches, memory and lock calls.
std::string details_text(const trial_seen& t, std::size_t width);
/// The speed-ups as bars.
std::string bars_text(const trial_seen& t, std::size_t width);
/// How many rounds, how long, and who else was there.
std::string summary_text(const trial_seen& t);
/// The conclusion, with its command in a line of its own.
std::string conclusion_text(const trial_seen& t, std::size_t width);

chart chart_of(const trial_seen& t);

}  // namespace usher::cli::trial
