#include "lab/sim/meter.hpp"

#include <algorithm>

namespace usher::sim {

meter::meter(const machine& m, unsigned threads, cycles begin, cycles end)
    : machine_(m),
      begin_(begin),
      end_(end),
      order_known_(m.from_ns(5000)),
      visitors_(threads),
      by_arrival_(threads),
      by_order_{waiting_line(threads), waiting_line(threads)} {}

void meter::arrived(unsigned thread, cycles now) {
  visitors_[thread] = {now, now};
  by_arrival_.add(thread, now);
  by_order_[kind_of(thread)].add(thread, now);
}

void meter::doorway(const void* lock, unsigned thread, cycles now) {
  if (lock != lock_ || thread >= visitors_.size() || visitors_[thread].arrived == nobody) return;
  visitors_[thread].order = now;
  by_order_[kind_of(thread)].move(thread, now);
}

void meter::admitted(unsigned thread, unsigned socket, cycles now) {
  visitor& v = visitors_[thread];
  const visitor mine = v;
  v.arrived = nobody;
  by_arrival_.remove(thread);
  by_order_[kind_of(thread)].remove(thread);
  held_since_ = now;
  if (!measured(now)) {
    if (now > end_ && mine.arrived <= end_) late_.emplace_back(thread, mine.arrived);
    return;
  }
  history_.push_back(std::uint16_t(thread));
  // Counts a hand-over if a thread was waiting when the lock was released. This is decided only now, at the next
  // admission: arrivals are reported out of order, because a thread that only computes runs ahead of the others.
  if (mine.arrived <= free_since_ || by_arrival_.first() <= free_since_) hand_overs_.push_back(now - free_since_);
  waits_.push_back(now - mine.arrived);
  found_free_ += mine.arrived >= free_since_ ? 1 : 0;
  between_sockets_ += last_socket_ != socket && history_.size() > 1 ? 1 : 0;
  last_socket_ = socket;
  count_bypass(thread, mine.order);
}

void meter::count_bypass(unsigned thread, cycles order) {
  if (order <= order_known_) return;
  const cycles early = order - order_known_;  // a waiter that arrived before this is bypassed
  const unsigned kind = kind_of(thread);
  const bool of_my_kind = by_order_[kind].first() < early;
  bypasses_ += of_my_kind || by_order_[1 - kind].first() < early ? 1 : 0;
  bypasses_among_[kind] += of_my_kind ? 1 : 0;
}

void meter::released(cycles now) {
  free_since_ = now;
  if (now > begin_ && held_since_ < end_) held_ += std::min(now, end_) - std::max(held_since_, begin_);
  if (measured(now)) holds_.push_back(now - held_since_);
}

support::durations meter::of(std::vector<std::uint64_t> values) const {
  support::durations d;
  d.count = values.size();
  if (values.empty()) return d;
  std::uint64_t sum = 0;
  for (const std::uint64_t v : values) sum += v;
  d.mean = static_cast<double>(sum) / static_cast<double>(values.size()) * 1000 / machine_.mhz;
  d.median = machine_.to_ns(support::percentile(values, 0.5));
  d.p99 = machine_.to_ns(support::percentile(values, 0.99));
  d.longest = machine_.to_ns(*std::max_element(values.begin(), values.end()));
  return d;
}

support::durations meter::waits(const std::function<bool(unsigned)>& chosen) const {
  std::vector<std::uint64_t> values;
  for (std::size_t i = 0; i < history_.size(); i++)
    if (chosen(history_[i])) values.push_back(waits_[i]);
  for (const auto& [thread, arrived] : late_)
    if (chosen(thread)) values.push_back(end_ - arrived);
  return of(std::move(values));
}

unsigned meter::waiting_at_end(const std::function<bool(unsigned)>& chosen) const {
  return unsigned(std::count_if(late_.begin(), late_.end(), [&](const auto& l) { return chosen(l.first); }));
}

double meter::utilisation() const {
  return static_cast<double>(held_) / static_cast<double>(end_ - begin_);
}

}  // namespace usher::sim
