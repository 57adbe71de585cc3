#include "predict/event_times.hpp"

#include <algorithm>
#include <utility>

namespace usher::predict {

using recording::action;
using recording::object_kind;

recording::event bounded(recording::event e) {
  e.work = std::min(e.work, longest_ns);
  e.away = std::min(e.away, longest_ns);
  e.wait = std::min(e.wait, longest_ns);
  return e;
}

bool is_known(const recording::recording& r, const recording::event& e) {
  const auto is = [&r](std::uint32_t index, auto... kinds) {
    return index < r.objects.size() && ((r.objects[index].kind == kinds) || ...);
  };
  switch (e.what) {
    case action::lock:
    case action::try_lock_failed:
    case action::unlock:
      return is(e.object, object_kind::mutex, object_kind::recursive_mutex);
    case action::wait:
    case action::wait_timed_out:
      return is(e.object, object_kind::condition) && is(e.other, object_kind::mutex, object_kind::recursive_mutex);
    case action::signal:
    case action::broadcast:
      return is(e.object, object_kind::condition);
    case action::semaphore_wait:
    case action::semaphore_post:
      return is(e.object, object_kind::semaphore);
    case action::read_lock:
    case action::write_lock:
    case action::read_write_unlock:
      return is(e.object, object_kind::read_write_lock);
    case action::barrier_wait:
      return is(e.object, object_kind::barrier);
    case action::join:
    case action::start:
    case action::end:
      return true;
  }
  return false;
}

bool is_operation(const recording::event& e) {
  return e.what == action::lock || e.what == action::read_lock || e.what == action::write_lock ||
         e.what == action::semaphore_wait;
}

namespace {

/// The time that the stream's calls of unknown length took, in sum.
std::uint64_t missing(const recording::window& w, const recording::stream& s) {
  const bool reaches_end = !s.unfinished.empty() || (!s.events.empty() && s.events.back().what == action::end);
  if (!reaches_end) return 0;
  std::uint64_t sum = std::min(s.begins, longest_ns);
  const std::uint64_t length = std::min(w.length, longest_ns);
  for (const auto* events : {&s.events, &s.unfinished})
    for (const recording::event& raw : *events) {
      const recording::event e = bounded(raw);
      sum += e.work + e.away + e.wait;
      if (sum >= length) return 0;
    }
  return length - sum;
}

bool has_unknown_length(const recording::event& e) {
  return e.wait == 0 && e.what != action::end && e.what != action::start;
}

}  // namespace

std::vector<std::vector<event_time>> times_of(const recording::window& w) {
  std::vector<std::vector<event_time>> all;
  for (const recording::stream& s : w.streams) {
    std::vector<event_time> times;
    times.reserve(s.events.size() + s.unfinished.size());
    const std::uint64_t lacks = missing(w, s);
    const auto calls = std::uint64_t(std::count_if(s.events.begin(), s.events.end(), has_unknown_length));
    std::uint64_t now = std::min(s.begins, longest_ns), before = 0, given = 0;
    for (const auto* events : {&s.events, &s.unfinished})
      for (const recording::event& raw : *events) {
        const recording::event e = bounded(raw);
        const std::uint64_t called = now + e.work + e.away;
        now = called + e.wait;
        if (has_unknown_length(raw)) {
          // The part of `lacks` up to this call.
          const auto until = std::uint64_t(static_cast<double>(lacks) * double(++before) / double(calls));
          now += until - std::exchange(given, until);
        }
        times.push_back({called, now});
      }
    all.push_back(std::move(times));
  }
  return all;
}

}  // namespace usher::predict
