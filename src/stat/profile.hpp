// The stacks of a report in the formats of profilers.
#pragma once

#include <string>

#include "stat/stat_report.hpp"

namespace usher::cli::stat {

/// pprof's protocol buffer, gzip: samples of "contentions"/count and "delay"/nanoseconds, one for each waiter's stack;
/// with a label "kind" (mutex, condition, semaphore) and "object" (the row's name).
std::string as_pprof(const report& r);
/// A line a stack: frames from the outermost, separated by semicolons, then the object, a blank, and microseconds waited.
std::string as_folded(const report& r);

}  // namespace usher::cli::stat
