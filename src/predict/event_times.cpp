#include "predict/event_times.hpp"

#include <algorithm>

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

std::vector<std::vector<event_time>> times_of(const recording::window& w) {
  std::vector<std::vector<event_time>> all;
  for (const recording::stream& s : w.streams) {
    std::vector<event_time> times;
    times.reserve(s.events.size());
    std::uint64_t now = std::min(s.begins, longest_ns);
    for (const recording::event& raw : s.events) {
      const recording::event e = bounded(raw);
      const std::uint64_t called = now + e.work + e.away;
      now = called + e.wait;
      times.push_back({called, now});
    }
    all.push_back(std::move(times));
  }
  return all;
}

}  // namespace usher::predict
