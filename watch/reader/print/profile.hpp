// The stacks of a report in the formats of profilers.
#pragma once

#include <string>

#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

/// A gzip-compressed protocol buffer of pprof with a sample for each waiter's stack: "contentions" (count) and "delay"
/// (nanoseconds). The label "kind" is mutex, condition or semaphore; the label "object" is the row's name.
std::string as_pprof(const report& r);
/// Folded stacks, one a line: frames from the outermost and then the object, separated by semicolons; a blank;
/// microseconds waited.
std::string as_folded(const report& r);

}  // namespace usher::reader
