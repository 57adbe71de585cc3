// Makes a report from a record: sums, rows, names.
#pragma once

#include <cstdint>
#include <vector>

#include "watch/access/census.hpp"
#include "watch/contract/format.hpp"
#include "watch/contract/live.hpp"
#include "watch/reader/name/symbols.hpp"
#include "watch/reader/read/stat_report.hpp"
#include "watch/reader/read/window_sampler.hpp"

namespace usher::reader {

/// Converts the record's ticks to seconds.
struct time_scale {
  std::uint64_t begin = 0, end = 0;  ///< of the recording, in ticks
  double seconds_a_tick = 1e-9;
  double seconds(std::uint64_t ticks) const { return static_cast<double>(ticks) * seconds_a_tick; }
};

/// Makes a report with the rows sorted by waiting time, without verdicts (rules.hpp adds them). At most `most_rows`
/// rows get stacks and source lines; for the others, files are only opened for names. The record must be a copy that no
/// process changes (record_copy). `ids`: the ids found by the census; null: the record's ids are valid in this
/// process's namespace.
/// `windows`: the waiting by windows, which becomes that of the hottest rows; null: it was not sampled.
report read_report(contract::view record, const time_scale& time, symbols& names, std::size_t most_rows,
                   const access::seen_ids* ids = nullptr, const waiting_windows* windows = nullptr);

/// Finds circles of waiting threads in the present state of the record. A circle is a list of threads' slots; each
/// thread waits for a mutex that the next thread holds. Returns at most some dozens of circles.
std::vector<std::vector<std::uint32_t>> circles(const contract::live& record);

/// Whether the circle's threads are still in the waits that began at `since`, or ended during these waits.
bool still_waits(const contract::live& record, const std::vector<std::uint32_t>& circle,
                 const std::vector<std::uint64_t>& since);

/// Describes a circle by names and stacks from a copy of the record.
deadlock describe(contract::view record, const std::vector<std::uint32_t>& circle, const time_scale& time,
                  symbols& names, const access::seen_ids* ids = nullptr);

}  // namespace usher::reader
