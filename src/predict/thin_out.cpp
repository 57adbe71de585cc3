#include "predict/thin_out.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "predict/event_times.hpp"

namespace usher::predict {
namespace {

std::size_t events_of(const recording::window& w) {
  std::size_t n = 0;
  for (const recording::stream& s : w.streams) n += s.events.size();
  return n;
}

/// Keeps the window's beginning, up to this time.
void cut(recording::window& w, std::uint64_t until) {
  const auto times = times_of(w);
  for (std::size_t i = 0; i < w.streams.size(); i++) {
    recording::stream& s = w.streams[i];
    const auto first_left = std::find_if(times[i].begin(), times[i].begin() + std::ptrdiff_t(s.events.size()),
                                         [until](const event_time& t) { return t.returned > until; });
    const auto kept = std::size_t(first_left - times[i].begin());
    const std::uint64_t now = kept == 0 ? std::min(s.begins, until) : times[i][kept - 1].returned;
    s.events.resize(kept);
    s.unfinished.clear();
    recording::event last;
    last.what = recording::action::end;
    last.work = until - now;
    s.events.push_back(last);
  }
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
