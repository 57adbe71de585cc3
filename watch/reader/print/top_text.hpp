// The text of `usher top`: a page for a report, tables, and a list of processes. All texts of the process are printable
// here.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "watch/reader/look/look_report.hpp"

namespace usher::reader {

inline constexpr std::size_t page_lines = 60, page_columns = 80;

/// At most page_lines lines of at most page_columns columns: findings first, then objects with holders, waiters and their
/// stacks, then what the other threads do.
std::string as_page(const look_report& r);

/// A table of the objects, at most `rows`, the most waited for first.
std::string as_table(const look_report& r, std::size_t rows);

}  // namespace usher::reader
