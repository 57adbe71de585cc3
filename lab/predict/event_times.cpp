#include "lab/predict/event_times.hpp"

#include <algorithm>
#include <utility>

namespace usher::predict {

using contract::verb;

recording::event bounded(recording::event e) {
  e.work = std::min(e.work, longest_ns);
  e.away = std::min(e.away, longest_ns);
  e.wait = std::min(e.wait, longest_ns);
  e.aside = std::min(e.aside, longest_ns);
  return e;
}

bool is_known(const recording::recording& r, const recording::event& e) {
  if (e.what == verb::join || e.what == verb::start || e.what == verb::end) return true;
  if (e.object >= r.objects.size() || !recording::fits(e.what, r.objects[e.object].kind)) return false;
  const bool has_mutex = e.what == verb::wait || e.what == verb::wait_timed_out;
  return !has_mutex || (e.other < r.objects.size() && recording::is_mutex(r.objects[e.other].kind));
}

bool is_operation(const recording::event& e) {
  return e.what == verb::lock || e.what == verb::read_lock || e.what == verb::write_lock ||
         e.what == verb::semaphore_wait;
}

std::vector<std::vector<event_time>> times_of(const recording::window& w) {
  std::vector<std::vector<event_time>> all;
  for (const recording::stream& s : w.streams) {
    std::vector<event_time> times;
    times.reserve(s.events.size() + s.unfinished.size());
    std::uint64_t now = std::min(s.begins, longest_ns);
    for (const auto* events : {&s.events, &s.unfinished})
      for (const recording::event& raw : *events) {
        const recording::event e = bounded(raw);
        const std::uint64_t called = now + e.aside + e.work + e.away;
        now = called + e.wait;
        times.push_back({called, now});
      }
    all.push_back(std::move(times));
  }
  return all;
}

}  // namespace usher::predict
