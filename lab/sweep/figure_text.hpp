// A figure as text.
#pragma once

#include <cstddef>
#include <string>

#include "lab/sweep/figure.hpp"

namespace usher::lab {

/// A table of throughputs, with a row for each number of threads, or a row for each series if there are many series.
std::string table_text(const figure& f, std::size_t width);

/// The meaning of the marks in the table; empty if it has none.
std::string legend_text(const figure& f);

/// A plot of characters: a row for each number of threads, with a letter for each series at the position of its median.
/// Empty if there are more series than letters.
std::string plot_text(const figure& f);

/// Returns a table for each number of threads, with the threads' shares and context switches.
std::string details_text(const figure& f, std::size_t width);

/// Warns of points with runs that have not settled, in one line for all.
void warn_of_unsettled(const figure& f);

}  // namespace usher::lab
