#include "lab/sim/time_sharing.hpp"

namespace usher::sim {

time_sharing::level time_sharing::of(int p) {
  constexpr int last = levels - 1;
  level l{};
  l.quantum_ms = p == last ? 20 : p >= 40 ? 40 : unsigned(200 - p / 10 * 40);
  l.after_quantum = p < 10 ? 0 : p - 10;
  l.after_sleep = p < 35 ? 50 + p / 10 : p < 45 ? 54 + (p - 35) / 5 : p < 47 ? p + 11 : p < last ? 58 : last;
  l.most_waits = p == last ? 32000 : 0;
  l.after_waiting = p < 49 ? l.after_sleep : last;
  return l;
}

time_sharing::time_sharing(const machine& m)
    : tick_(m.os->clock_tick), ms_(m.from_ns(1000000)), first_(int(m.os->first_priority)) {}

int time_sharing::quantum(int priority) const {
  return int((of(priority).quantum_ms * ms_ + tick_ - 1) / tick_);
}

void time_sharing::begin(time_share& s, bool urgent) const {
  s = {};
  s.in_class = !urgent;
  s.priority = urgent ? above : first_;
  if (!urgent) s.left = quantum(first_);
}

bool time_sharing::tick(time_share& s, int best) const {
  if (!s.in_class) return false;
  if (--s.left <= 0) {
    s.priority = of(s.priority).after_quantum;
    s.waited = 0;
  } else if (best <= s.priority) {
    return false;
  }
  s.to_back = true;
  return true;
}

bool time_sharing::give_way(time_share& s) const {
  if (!s.to_back) return false;
  s.to_back = false;
  s.left = quantum(s.priority);
  s.waited = 0;
  return true;
}

void time_sharing::lift(time_share& s, int priority) const {
  s.priority = priority;
  s.waited = 0;
}

void time_sharing::wake(time_share& s) const {
  s.to_back = false;
  if (!s.in_class || s.waited <= of(s.priority).most_waits) return;
  lift(s, of(s.priority).after_sleep);
  s.left = quantum(s.priority);
}

bool time_sharing::update(time_share& s, place at) const {
  if (!s.in_class) return false;
  const level l = of(s.priority);
  if (++s.waited <= l.most_waits) return false;
  const int before = s.priority;
  lift(s, at == place::has_cpu ? l.after_sleep : l.after_waiting);
  if (at == place::has_cpu || (at == place::queued && s.priority != before)) s.left = quantum(s.priority);
  return s.priority != before;
}

}  // namespace usher::sim
