#include "check/scenarios/lock/lock_program.hpp"

namespace usher::check {

void lock_program::set_up() {
  the_lock->make(state());
  world.name(state(), the_lock->size, "lock");
  world.name(it.timed_waiters, "gate");
  world.name(acquired, "acquired");
  world.name(is_in, "is_in");
  draw_state();
  the_search.held_back = rl::rand(threads);
  crowd = choose_crowd();
  choose_course();
  // In a quarter of the programs the NUMA nodes are numbered from 15. Locks whose table has entries for a few nodes only
  // are left out.
  const bool any_node = the_lock->unlock_is_due != nullptr && the_lock->has_certain_successor != nullptr &&
                        !the_lock->entry_for_each_node;
  if (any_node && rl::rand(4) == 0) world.number_nodes_from(15);
  choose_roles();
  promise();
  world.watch(0, {&it, sizeof it, "the lock's last owner ends it while another thread may still touch it",
                  "the lock is touched after the end of its life"});
}

/// Draws the state in which the lock's life begins.
void lock_program::draw_state() {
  // In half of the executions, the lock's numbers wrap, at one of several widths.
  if (the_lock->count_from != nullptr)
    if (const std::uint32_t n = std::array{0u, 0u, 0u, 0u - 1 - rl::rand(8), 0x7ffffffeu, 0x7ffeu}[rl::rand(6)]; n != 0)
      the_lock->count_from(state(), n);
  // In half of the executions, the lock's waiters expect holds for which polling does not pay.
  if (the_lock->expect_holds != nullptr && rl::rand(2) == 0) the_lock->expect_holds(state(), 4000);
  // A lock begins its search for a slot at the thread's index. In half of the executions the threads have the indices
  // of the last slots, so that the search wraps to the first slot.
  if (const int slots = the_lock->traits->bypass + 1; slots > int(threads) && rl::rand(2) == 0)
    world.number_threads_from(std::uint32_t(slots) - threads);
}

void lock_program::promise() {
  const lock_traits& traits = *the_lock->traits;
  // A lock that announces its doorway calls P::doorway() itself, so no exchange on its word counts as the doorway: size 0.
  // (While an inflatable lock is inflated, the first exchange on the large lock's state may be the doorway.)
  const bool announces = the_lock->announces_doorway;
  world.promise({.lock = state(),
                 .size = announces ? 0 : the_lock->size,
                 .most_overtaking = most_overtaking(),
                 .first_exchange_is_doorway = traits.fifo && (announces || traits.bounded_doorway),
                 .says_doorway = !traits.fifo && !traits.bounded_doorway,
                 .fifo_leaders = traits.fifo_leaders});
}

int lock_program::most_overtaking() {
  const lock_traits& t = *the_lock->traits;
  if (t.fifo || t.fifo_leaders) return 0;
  // In a lock with a slot for each waiter, the thread of each other slot may bypass a waiter once. count_limit() may
  // leave only a few slots.
  const int slots = t.bypass + 1;
  return slots > int(execution::most_threads) ? int(world.count_limit(std::uint32_t(slots))) - 1 : t.bypass;
}

void lock_program::after() {
  check_end();
  if (node_lost) return;
  if (!world.all_nodes_free()) fail("a node was not given back", rl::test_result_resource_leak, place::current());
  if (!world.inflated_is_free() && !inflated_lost)
    fail("a large lock did not go back to the pool", rl::test_result_resource_leak, place::current());
}

void lock_program::expect_free() {
  if (the_lock->unlock_is_due == nullptr) return;
  if (!the_lock->try_lock(state())) fail("no thread has the lock, and it is not free");
  the_lock->unlock(state());
}

void lock_program::acquire() {
  world.wants(true);
  acquire_somehow();
  world.wants(false);
}

void lock_program::acquire_somehow() {
  if (the_locks_scenario->tries && rl::rand(2) == 0)
    for (int i = 0; i < 2; i++)
      if (the_lock->try_lock(state())) return;
  if (the_locks_scenario->timed && rl::rand(2) == 0) {
    const lock_handle l{the_lock, state()};
    // The time runs out at once or in the first sleep. Then the thread leaves, so that a lost wake-up is not hidden
    // by a later attempt.
    unsigned left = rl::rand(2);
    if (timed_waiters::lock(l, it.timed_waiters, [&]() -> std::uint64_t { return left == 0 ? 0 : left--; })) return;
  }
  if (the_locks_scenario->guests && the_lock->lock_as_guest != nullptr && rl::rand(2) == 0)
    return the_lock->lock_as_guest(state());
  the_lock->lock(state());
}

void lock_program::release() {
  before_unlock();
  if (!the_locks_scenario->timed || !timed_waiters::has_waiters(it.timed_waiters)) return the_lock->unlock(state());
  const lock_handle l{the_lock, state()};
  timed_waiters::unlock(l, it.timed_waiters);
}

}  // namespace usher::check
