#include "sim/meter.hpp"

#include <algorithm>

namespace usher::sim {

meter::meter(const machine& m, unsigned threads, cycles begin, cycles end)
    : machine_(m), begin_(begin), end_(end), order_known_(m.from_ns(5000)), visitors_(threads) {}

void meter::came(unsigned thread, cycles now) {
  visitor& v = visitors_[thread];
  v = {now, now};
  waiting_++;
  eldest_ = std::min(eldest_, now);
}

void meter::doorway(const void* lock, unsigned thread, cycles now) {
  if (lock == lock_ && thread < visitors_.size() && visitors_[thread].came != nobody) visitors_[thread].order = now;
}

void meter::got_in(unsigned thread, unsigned socket, cycles now) {
  visitor& v = visitors_[thread];
  const visitor mine = v;
  v.came = nobody;
  waiting_--;
  held_since_ = now;
  if (!measured(now)) {
    if (now > end_ && mine.came <= end_) late_.emplace_back(thread, mine.came);
    return;
  }
  history_.push_back(std::uint16_t(thread));
  // Only now all are known who had come by then: a thread says that it comes before others have got as far, where it has only
  // computed since it last met anybody.
  if (mine.came <= free_since_ || anybody_waits_since(free_since_)) hand_overs_.push_back(now - free_since_);
  waits_.push_back(now - mine.came);
  found_free_ += mine.came >= free_since_ ? 1 : 0;
  between_sockets_ += last_socket_ != socket && history_.size() > 1 ? 1 : 0;
  last_socket_ = socket;
  count_bypass(thread, mine.order);
}

void meter::count_bypass(unsigned thread, cycles order) {
  if (eldest_ + order_known_ >= order) return;
  bool any = false, of_my_kind = false;
  const auto is_one_of_some = [this](std::size_t t) { return t < is_one_of_some_.size() && is_one_of_some_[t]; };
  eldest_ = order;
  for (std::size_t t = 0; t < visitors_.size(); t++) {
    if (visitors_[t].came == nobody) continue;
    eldest_ = std::min(eldest_, visitors_[t].order);
    if (visitors_[t].order + order_known_ >= order) continue;
    any = true;
    of_my_kind = of_my_kind || is_one_of_some(t) == is_one_of_some(thread);
  }
  bypasses_ += any ? 1 : 0;
  bypasses_among_[is_one_of_some(thread) ? 1 : 0] += of_my_kind ? 1 : 0;
}

bool meter::anybody_waits_since(cycles time) const {
  return waiting_ != 0 &&
         std::any_of(visitors_.begin(), visitors_.end(), [time](const visitor& v) { return v.came <= time; });
}

void meter::left(cycles now) {
  free_since_ = now;
  if (now > begin_ && held_since_ < end_) held_ += std::min(now, end_) - std::max(held_since_, begin_);
  if (measured(now)) holds_.push_back(now - held_since_);
}

durations meter::of(std::vector<std::uint64_t> values) const {
  durations d;
  d.count = values.size();
  if (values.empty()) return d;
  std::uint64_t sum = 0;
  for (const std::uint64_t v : values) sum += v;
  d.mean = static_cast<double>(sum) / static_cast<double>(values.size()) * 1000 / machine_.mhz;
  d.median = machine_.to_ns(workloads::percentile(values, 0.5));
  d.p99 = machine_.to_ns(workloads::percentile(values, 0.99));
  d.longest = machine_.to_ns(*std::max_element(values.begin(), values.end()));
  return d;
}

durations meter::waits(const std::function<bool(unsigned)>& chosen) const {
  std::vector<std::uint64_t> values;
  for (std::size_t i = 0; i < history_.size(); i++)
    if (chosen(history_[i])) values.push_back(waits_[i]);
  for (const auto& [thread, came] : late_)
    if (chosen(thread)) values.push_back(end_ - came);
  return of(std::move(values));
}

unsigned meter::waiting_at_end(const std::function<bool(unsigned)>& chosen) const {
  return unsigned(std::count_if(late_.begin(), late_.end(), [&](const auto& l) { return chosen(l.first); }));
}

double meter::utilisation() const {
  return static_cast<double>(held_) / static_cast<double>(end_ - begin_);
}

}  // namespace usher::sim
