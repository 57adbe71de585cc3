// From a record to a report: sums, rows, names.
#pragma once

#include <cstdint>
#include <vector>

#include "record/layout.hpp"
#include "stat/report.hpp"
#include "stat/symbols.hpp"

namespace usher::cli::stat {

/// How the record's ticks are to be read.
struct time_scale {
  std::uint64_t begin = 0, end = 0;  ///< ticks between which was recorded
  double seconds_a_tick = 1e-9;
  double seconds(std::uint64_t ticks) const { return static_cast<double>(ticks) * seconds_a_tick; }
};

/// Rows, most waited first, without verdicts: rules.hpp. `most_rows` are given stacks and names of source lines; of the
/// others no file is opened for more than their names.
report read_report(record::view record, const time_scale& time, symbols& names, std::size_t most_rows);

/// Threads that wait for each other in a circle, as the record has it at this moment: thread slots, each waiting for a
/// mutex that the next one holds.
std::vector<std::vector<std::uint32_t>> circles(record::view record);

/// What a circle looks like to people.
deadlock describe(record::view record, const std::vector<std::uint32_t>& circle, const time_scale& time,
                  symbols& names);

}  // namespace usher::cli::stat
