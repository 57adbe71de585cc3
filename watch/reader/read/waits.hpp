// Reads the waits that a record keeps one by one, for `usher stat --trace`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "watch/access/census.hpp"
#include "watch/access/timeline.hpp"
#include "watch/contract/format.hpp"
#include "watch/reader/name/symbols.hpp"
#include "watch/reader/read/reading.hpp"
#include "watch/reader/read/thread_names.hpp"

namespace usher::reader {

struct kept_waits {
  access::timeline all;
  std::uint64_t lost = 0;  ///< chunks of waits that were used again
  double seconds = 0;      ///< the last seconds of the recording, of which all waits are there
};

/// The record must be a copy that no process changes. `ns`: the nanoseconds of CLOCK_MONOTONIC for ticks. A wait that
/// contradicts the record, or lies outside of the recording, is left out.
kept_waits read_waits(contract::view record, const time_scale& time,
                      const std::function<std::uint64_t(std::uint64_t)>& ns, symbols& names,
                      const access::seen_ids* ids = nullptr, const thread_names* of_threads = nullptr);

}  // namespace usher::reader
