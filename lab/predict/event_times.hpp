// The times of a recorded window's events, and whether each event is valid: a recording comes from a file, whose
// numbers may be wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lab/recordings/recording.hpp"

namespace usher::predict {

/// Times since the beginning of the window.
struct event_time {
  std::uint64_t called = 0, returned = 0;
};

/// A longer duration in a recording counts as 1000 s, so that sums of durations do not overflow.
inline constexpr std::uint64_t longest_ns = 1'000'000'000'000;

/// Returns the event with each of its durations limited to longest_ns.
recording::event bounded(recording::event e);

/// Whether the event's objects exist and are of the kind that its verb needs.
bool is_known(const recording::recording& r, const recording::event& e);

/// Whether the verb acquires a mutex.
inline bool locks_mutex(const recording::event& e) {
  return e.what == contract::verb::lock;
}

/// Whether the verb waits on a condition.
inline bool waits(const recording::event& e) {
  return e.what == contract::verb::wait || e.what == contract::verb::wait_timed_out;
}

/// Whether the verb is an operation in whose unit throughput is given: it acquires a mutex, a read-write lock or a semaphore.
bool is_operation(const recording::event& e);

/// Returns the times of each stream's events; the last element of a stream is its unfinished call, if there is one.
std::vector<std::vector<event_time>> times_of(const recording::window& w);

}  // namespace usher::predict
