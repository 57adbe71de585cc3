// Implements the forks of checked_fork.hpp.
#include "check/engine/checked_fork.hpp"

#include "check/engine/checked_platform.hpp"
#include "check/engine/checker_scheduler.hpp"

namespace usher::check {

// ---- threads ----------------------------------------------------------------------------------------------------

generations::generations() {
  for (unsigned t = 0; t < most_threads; t++) record_[t] = t;
}

bool generations::begins() {
  const unsigned me = rl::thread_index();
  while (born_[me] > started_ && !over_) {
    waits_[me] = true;
    rl::ctx().park_current_thread(false, false, false, info(place::current()));
  }
  info_[me] = rl::ctx().threadx_;
  return runs_[me] = !gone_[me] && born_[me] <= started_;
}

jmp_buf& generations::way_out() {
  return ways_out_[rl::thread_index()];
}

void generations::ends() {
  ended_[rl::thread_index()] = true;
  if (anyone_lives()) return;
  over_ = true;
  for (unsigned t = 0; t < most_threads; t++)
    if (!ended_[t] && (gone_[t] || waits_[t])) return release(t);
}

bool generations::anyone_lives() const {
  for (unsigned t = 0; t < unsigned(rl::ctx().get_thread_count()); t++)
    if (!ended_[t] && !gone_[t] && born_[t] <= started_) return true;
  return false;
}

/// Lets a blocked thread end. A thread that had begun continues at its way_out().
void generations::release(unsigned thread) {
  if (runs_[thread]) std::memcpy(&info_[thread]->fiber_.jmp, &ways_out_[thread], sizeof(jmp_buf));
  waits_[thread] = false;
  rl::ctx().unpark_thread(rl::thread_id_t(thread), false, info(place::current()));
}

std::array<bool, generations::most_threads> generations::vanish() {
  forks_++;
  std::array<bool, most_threads> parents{};
  for (unsigned t = 0; t < unsigned(rl::ctx().get_thread_count()); t++) {
    if (t == rl::thread_index() || gone_[t] || born_[t] >= forks_) continue;
    parents[t] = gone_[t] = the_search.take_away(t);
  }
  return parents;
}

bool generations::stop(unsigned thread) {
  return !gone_[thread] && !ended_[thread] && (gone_[thread] = the_search.take_away(thread));
}

void generations::start_threads() {
  started_ = forks_;
  for (unsigned t = 0; t < unsigned(rl::ctx().get_thread_count()); t++) {
    if (born_[t] != forks_) continue;
    // In half of the cases, a new thread gets the record of a vanished thread.
    if (rl::rand(2) == 0)
      for (unsigned other = 0; other < most_threads; other++)
        if (gone_[other] && record_[other] == other) {
          std::swap(record_[t], record_[other]);
          break;
        }
    if (!waits_[t]) continue;
    waits_[t] = false;
    rl::ctx().unpark_thread(rl::thread_id_t(t), false, info(place::current()));
  }
}

// ---- the execution ----------------------------------------------------------------------------------------------

void execution::fork_at_once(node_pool pool, place p) {
  note("forks", nullptr, every_sleeper, p);
  // Makes the newest value of each word visible: the child's memory contains it.
  rl::systemwide_fence(info(p));
  epoch_++;
  const auto vanished = process_.vanish();
  for (unsigned t = 0; t < most_threads; t++)
    if (vanished[t]) forget_thread(t);
  for (unsigned i = 0; i < locals_begun_; i++)
    if (vanished[local_owner_[i]]) local_lives_[i]->end_for_good("", p);
  if (pool == node_pool::anew) forget_nodes();
  for (auto& word : table(table_kind::chains))
    if (word.newest() != 0) word.store(0, std::memory_order_relaxed);
  lose_inflated();
}

void execution::start_threads(place p) {
  rl::systemwide_fence(info(p));
  process_.start_threads();
}

bool execution::stop(unsigned t) {
  if (!wants_[t] || !process_.stop(t)) return false;
  forget_thread(t);
  return true;
}

/// Removes a vanished thread from all data that other threads read.
void execution::forget_thread(unsigned t) {
  sleepers_[t].key = nullptr;
  asleep_since_[t] = slept_at_unlock_[t] = awaited_sleepers_[t] = 0;
  if (polls_[t] != nullptr) {
    polls_[t] = nullptr;
    pollers_--;
  }
  arrived_[t] = door_[t] = waits_[t] = 0;
  overtaken_[t] = 0;
  wants_[t] = waited_[t] = false;
  gone_home_[t] = true;
  gathers_[t] = {};
  naps_[t] = {};
}

/// Makes all nodes free. Their handles in the child begin after all handles of the parent.
void execution::forget_nodes() {
  first_node_ += node_handle(nodes_.size());
  kept_ = {};
  for (node_slot& s : nodes_)
    if (s.used.newest() != 0) s.used.store(0, std::memory_order_relaxed);
}

/// In some executions, an inflated state that is in use at the time of the fork stays in use for ever, whatever the
/// child does with its lock. The child's lock may then get another state.
void execution::lose_inflated() {
  if (inflated_taken_.newest() == 0 || inflated_lost_ + 1 == most_inflated || rl::rand(4) == 0) return;
  inflated_lost_++;
  inflated_taken_.store(0, std::memory_order_relaxed);
}

void execution::end_vanished_locals() {
  for (unsigned i = 0; i < locals_begun_; i++)
    if (destroy_local_[i] != nullptr) destroy_local_[i](locals_ + std::size_t{i} * local_size);
}

}  // namespace usher::check
