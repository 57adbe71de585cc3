// The stacks of a report in the formats of profilers.
#pragma once

#include <string>

#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

/// A gzip-compressed pprof protocol buffer. Each waiter's stack is a sample with "contentions" (count) and "delay"
/// (nanoseconds). The label "kind" is mutex, condition or semaphore; the label "object" is the row's name.
std::string as_pprof(const report& r);
/// Folded stacks, one on each line: the frames, outermost first, and the object, separated by semicolons; a blank; the
/// microseconds waited.
std::string as_folded(const report& r);

}  // namespace usher::reader
