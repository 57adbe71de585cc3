// The stacks of a report in the formats of profilers.
#pragma once

#include <cstdint>
#include <string>

#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

/// A gzip-compressed pprof protocol buffer. Each waiter's stack is a sample with "contentions" (count) and "delay"
/// (nanoseconds). The label "kind" is mutex, condition or semaphore; the label "object" is the row's name.
std::string as_pprof(const report& r);
/// The same as OpenTelemetry's ProfilesData (opentelemetry-proto 1.11.0, profiles.v1development): a profile of "delay" and one of
/// "contentions". `began_ns`: when the recording began, in nanoseconds since 1970.
std::string as_otlp(const report& r, std::uint64_t began_ns);
/// Folded stacks, one on each line: the frames, outermost first, and the object, separated by semicolons; a blank; the
/// microseconds waited.
std::string as_folded(const report& r);

}  // namespace usher::reader
