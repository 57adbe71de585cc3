#include "lab/predict/thin_out.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "lab/predict/event_times.hpp"

namespace usher::predict {
namespace {

std::size_t events_of(const recording::window& w) {
  std::size_t n = 0;
  for (const recording::stream& s : w.streams) n += s.events.size();
  return n;
}

/// Returns the share of `time` that corresponds to the first `part` of a duration `whole`.
std::uint64_t share_of(std::uint64_t time, std::uint64_t part, std::uint64_t whole) {
  const double share = static_cast<double>(part) / static_cast<double>(whole);
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(time) * share));
}

/// Cuts the stream at the time `until`. A call that has not returned by then becomes the stream's unfinished call.
void cut(recording::stream& s, const std::vector<event_time>& times, std::uint64_t until) {
  const auto is_left = [until](const event_time& t) { return t.returned > until; };
  const std::size_t events = s.events.size();
  auto kept = std::size_t(std::find_if(times.begin(), times.begin() + std::ptrdiff_t(events), is_left) - times.begin());
  // If all events are kept, the last one is `end`; it is made anew after an unfinished call.
  if (kept == events && kept != 0) kept--;
  const bool at_end = kept + 1 >= events;
  const std::uint64_t now = kept == 0 ? std::min(s.begins, until) : times[kept - 1].returned;
  recording::event next, last;
  last.what = contract::verb::end;
  const bool has_call = !at_end || !s.unfinished.empty();
  if (has_call)
    next = bounded(at_end ? s.unfinished.front() : s.events[kept]);
  else if (kept < events)
    next = bounded(s.events[kept]);
  const std::uint64_t rest = until - now, before = next.aside + next.work + next.away;
  s.events.resize(kept);
  s.unfinished.clear();
  if (has_call && rest > before) {
    next.wait = std::min(next.wait, rest - before);
    s.unfinished.push_back(next);
  } else if (before != 0) {
    const std::uint64_t part = std::min(rest, before);
    last.away = share_of(next.away, part, before);
    last.aside = std::min(share_of(next.aside, part, before), part - last.away);
    last.work = part - last.away - last.aside;  // so that the sum is exact
  }
  s.events.push_back(last);
}

/// Cuts the window at the time `until`.
void cut(recording::window& w, std::uint64_t until) {
  const auto times = times_of(w);
  for (std::size_t i = 0; i < w.streams.size(); i++) cut(w.streams[i], times[i], until);
  std::erase_if(w.streams, [until](const recording::stream& s) { return s.begins >= until; });
  w.length = until;
}

}  // namespace

thinned_recording thin_out(recording::recording r, std::size_t events) {
  thinned_recording t;
  std::size_t all = 0;
  for (const recording::window& w : r.windows) all += events_of(w);
  if (all > events) {
    const std::size_t every = std::min(r.windows.size(), (all + events - 1) / events);
    std::vector<recording::window> kept;
    for (std::size_t i = every / 2; i < r.windows.size(); i += every) kept.push_back(std::move(r.windows[i]));
    r.windows = std::move(kept);
    all = 0;
    for (const recording::window& w : r.windows) all += events_of(w);
    if (all > events) {
      t.share = static_cast<double>(events) / static_cast<double>(all);
      for (recording::window& w : r.windows)
        cut(w, std::uint64_t(static_cast<double>(std::min(w.length, longest_ns)) * t.share));
    }
  }
  t.windows = r.windows.size();
  t.made = std::move(r);
  return t;
}

}  // namespace usher::predict
