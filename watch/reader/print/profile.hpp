// The stacks of a report in the formats of profilers.
#pragma once

#include <cstdint>
#include <string>

#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

/// A gzip-compressed protocol buffer of pprof with a sample for each waiter's stack: "contentions" (count) and "delay"
/// (nanoseconds). The label "kind" is mutex, condition or semaphore; the label "object" is the row's name.
std::string as_pprof(const report& r);
/// The same as OpenTelemetry's ProfilesData (opentelemetry-proto 1.11.0, profiles.v1development): a profile of "delay" and one of
/// "contentions". `began_ns`: when the recording began, in nanoseconds since 1970.
std::string as_otlp(const report& r, std::uint64_t began_ns);
/// Folded stacks, one a line: frames from the outermost and then the object, separated by semicolons; a blank;
/// microseconds waited.
std::string as_folded(const report& r);

}  // namespace usher::reader
