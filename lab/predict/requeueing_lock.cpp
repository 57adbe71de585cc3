#include "lab/predict/requeueing_lock.hpp"

#include <algorithm>
#include <cstddef>
#include <new>

#include "lab/sim/simulation.hpp"
#include "lab/sim/world.hpp"

namespace usher::predict {

struct requeueing_lock::erased {
  const sim::simulated_lock* table;
  void* state;
  void lock() { table->lock(state); }
  bool try_lock() { return table->try_lock(state); }
  void unlock() { table->unlock(state); }
};

struct requeueing_lock::view {
  using waiter = requeued_waiter<P>;
  erased it;
  requeue_words<P>* words;

  erased lock() const { return it; }
  auto& owner_tag() const { return words->owner_tag; }
  auto& timed() const { return words->timed; }
  waiter* requeued() const { return words->requeued(); }
  void requeue_first(waiter* w) const { words->requeue_first(w); }
  bool may_requeue() const { return true; }
};

requeueing_lock::view requeueing_lock::seen() const {
  return {{table_, state_}, words_};
}

requeueing_lock::requeueing_lock(sim::arena& a, const sim::simulated_lock& table, bool has_condition) : table_(&table) {
  using words = requeue_words<P>;
  const std::size_t behind = (table.size + alignof(words) - 1) / alignof(words) * alignof(words);
  auto* const at =
      static_cast<std::byte*>(a.allocate(behind + sizeof(words), std::max(table.align, sim::world::sector_bytes)));
  state_ = at;
  table.make(state_);
  if (has_condition) words_ = ::new (at + behind) words();
}

void requeueing_lock::lock() {
  sim::simulation::current().stores_privately();  // the call writes its return address
  words_ != nullptr ? operations::lock(seen()) : table_->lock(state_);
}

bool requeueing_lock::try_lock() {
  sim::simulation::current().stores_privately();
  return words_ != nullptr ? operations::try_lock(seen()) : table_->try_lock(state_);
}

void requeueing_lock::unlock() {
  sim::simulation::current().stores_privately();
  words_ != nullptr ? operations::unlock(seen()) : table_->unlock(state_);
}

}  // namespace usher::predict
