#include "lab/sim/world.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "lab/sim/trace.hpp"

namespace usher::sim {

world::measured_lock::measured_lock(const simulated_lock& table, arena& a, meter* watched_by)
    : table_(&table), state_(a.allocate(table.size, std::max(table.align, sector_bytes))), meter_(watched_by) {
  table.make(state_);
}

void world::measured_lock::be_named(arena& a, unsigned number) const {
  a.name(state_, table_->size, arena::plus(number == 1 ? "lock" : "lock " + std::to_string(number)));
}

void world::measured_lock::acquire(void (*how)(void*)) {
  simulation& s = simulation::current();
  s.stores_privately();  // the call writes its return address
  if (s.traced() != nullptr) [[unlikely]]
    return acquire_traced(how);
  if (meter_ == nullptr) return how(state_);
  meter_->arrived(s.thread(), s.now());
  how(state_);
  meter_->admitted(s.thread(), s.socket(), s.now());
}

void world::measured_lock::acquire_traced(void (*how)(void*)) {
  simulation& s = simulation::current();
  const cycles arrived = s.now();
  s.traced()->notes(trace::what::arrives, s.thread(), arrived, state_);
  if (meter_ != nullptr) meter_->arrived(s.thread(), arrived);
  how(state_);
  if (meter_ != nullptr) meter_->admitted(s.thread(), s.socket(), s.now());
  since_ = s.now();
  s.traced()->notes(trace::what::enters, s.thread(), since_, state_, since_ - arrived);
}

void world::measured_lock::unlock() {
  simulation& s = simulation::current();
  s.stores_privately();
  const cycles began = s.now();
  if (s.traced() != nullptr) [[unlikely]]
    s.traced()->notes(trace::what::leaves, s.thread(), began, state_, began - since_);
  if (meter_ == nullptr) return table_->unlock(state_);
  meter_->released(began);
  table_->unlock(state_);
  meter_->has_unlocked(began, s.now());
}

void world::thread::increment(std::span<simulated_plain<std::uint64_t>* const> words) {
  std::vector<const void*> places;
  for (const auto* w : words) places.push_back(w->place());
  simulation::current().load_to_store(places, sizeof(std::uint64_t));
  for (auto* w : words) w->set(w->peek() + 1);
}

void world::generator::step(std::uint64_t n) {
  for (; n != 0; n--) {
    std::uint64_t at = index_.get();
    if (at == words) {
      for (unsigned i = 0; i < words; i += words_a_line) state_[i].set(state_[i].get() + 1);  // the twist
      at = 0;
    }
    state_[at].get();
    index_.set(at + 1);
    simulation::current().compute(simulation::current().on().step / 1024);
  }
}

world::world(machine m, std::uint64_t seed, unsigned threads, unsigned others, const simulated_lock& table,
             std::map<std::string, long> parameters, times t, bool watch)
    : table_(table),
      parameters_(std::move(parameters)),
      simulation_(std::move(m), seed),
      runtime_(simulation_, threads + others),
      begin_(simulation_.on().from_ns(t.warm_up_ns)),
      end_(begin_ + simulation_.on().from_ns(t.run_ns)),
      operations_(threads),
      settling_(end_ - begin_, threads),
      meter_(simulation_.on(), threads, begin_, end_),
      watch_(watch) {
  if (watch) runtime_.watched_by = &meter_;
}

world::lock world::make_lock() {
  const bool first = std::exchange(watch_, false);
  lock l(table_, simulation_.shared(), first ? &meter_ : nullptr);
  l.be_named(simulation_.shared(), ++locks_);
  if (first) meter_.watch(l.state());
  return l;
}

static_assert(workloads::world<world>);

}  // namespace usher::sim
