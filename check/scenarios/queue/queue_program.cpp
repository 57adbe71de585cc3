#include "check/scenarios/queue/queue_program.hpp"

namespace usher::check {

queue_program::queue_program(unsigned threads) : threads(threads) {
  the_queue->make(queue());
  world.watch(the_queues_life, {bytes.data(), the_queue->size, "the queue ends while another thread may touch it",
                                "the queue is touched after its end"});
  world.watch(the_mutexs_life,
              {&m, sizeof m, "the mutex ends while another thread may touch it", "the mutex is touched after its end"});
  world.name(bytes.data(), the_queue->size, "queue");
  world.name(m, "mutex");
  world.name(tokens, "tokens");
  world.name(to_post, "to_post");
  world.name(users, "users");
  world.name(flag, "flag");
  unsigned takers = 0;
  for (unsigned t = 0; t < threads; t++) {
    roles[t] = t == 0 ? poster : t == 1 ? taker : std::array{taker, taker, victim, victim, poster}[rl::rand(5)];
    // With these roles, two takers and one victim that may forward a signal, close_refused() can be certain that a
    // taker waits.
    if (the_scenario->busy && threads == 4 && t > 1 && rl::rand(4) != 0) roles[t] = t == 2 ? taker : victim;
    if (the_scenario->ranks && t > 1 && rl::rand(2) == 0) roles[t] = taker;  // longer chains
    takers += roles[t] == taker ? 1 : 0;
    if (the_scenario->ranks) world.set_priority(t, rl::rand(3));
    // If a thread may be cancelled, each signal must be forwardable, as in preload/cond.cpp.
    manners[t] = rl::rand(2) == 0 ? manner::timed : manner::cancelled;
    if (roles[t] == victim && manners[t] == manner::cancelled) cancels = true;
  }
  to_post.set(takers);
  users.set(the_scenario->users != 0 ? the_scenario->users : threads);
  deliveries = {[](void* self, void* w) { static_cast<queue_program*>(self)->see_delivered(w); },
                [](void* self, void* w) { static_cast<queue_program*>(self)->see_back(w); },
                [](void* self, const chain_seen& chain, const chain_seen& then) {
                  static_cast<queue_program*>(self)->see_requeued(chain, then);
                },
                this};
  world.observe(
      {[](void* self, const void* word) { static_cast<queue_program*>(self)->see_written(word); }, nullptr, this});
  if (the_scenario->undoes) {
    cancels = true;  // so each signal must be forwardable
    m.requeues = false;
  } else if (!the_scenario->forked && rl::rand(2) == 0) {
    m.users_elsewhere = mutex_bytes::most_users - rl::rand(3);
    m.timed.fetch_add(m.users_elsewhere * mutex_bytes::one_user, std::memory_order_relaxed);
  }
}

bool queue_program::wait(manner how, unsigned rounds) {
  const unsigned me = rl::thread_index(), forks = world.forks();
  record& r = begin_waiter({.number = ++arrivals,
                            .waits_for_ever = how == manner::for_ever || rounds == without_end,
                            .priority = world.priority_of(me)});
  void* const w = r.at;
  the_queue->enter(w, queue(), m, chance());
  r.listed = true;
  unlock();
  const bool granted = the_queue->await_grant(w, how, rounds, gave_up[me]);
  if (granted && !r.was_selected) fail("a wait says that a signal has reached it, and none has");
  // A thread that forks in its wait may miss a signal that was not delivered before the fork.
  if (!granted && r.was_selected && world.forks() == forks)
    fail("a wait says that no signal has reached it, and one has");
  if (how == manner::forks && granted && rl::rand(2) == 0)
    forks_in_wait.fork(forks_in_wait.context, w);  // before it owns the mutex again
  the_queue->come_back(w, granted, rl::rand(8) == 0 ? 1 : 0);
  see_lock();
  r.waits_for_ever = false;
  if (granted && r.is_signalled && signals_out != 0) signals_out--;
  end_waiter(r);
  return granted;
}

queue_program::record& queue_program::begin_waiter(record begun) {
  void* const w = world.begin_local(the_queue->waiter_size, place::current(), the_queue->end_waiter);
  the_queue->make_waiter(w);
  const unsigned slot = world.slot_of_local(w);
  slots[waiters++] = std::uint8_t(slot);
  begun.at = w;
  return records[slot] = begun;
}
void queue_program::end_waiter(record& r) {
  void* const w = std::exchange(r.at, nullptr);
  *std::ranges::find(present(), world.slot_of_local(w)) = slots[waiters - 1];
  waiters--;
  world.end_local(w, place::current());
  the_queue->end_waiter(w);
}

void queue_program::lock(unsigned rounds) {
  if (rounds != 0 || rl::rand(4) != 0 || !the_queue->try_lock(m)) the_queue->lock(m, rounds);
  see_locked();
  see_lock();
}

void queue_program::unlock() {
  // After a fork, the mutex has the parent's words until the child renews it.
  if (has_from_parent || m.unlocked_by_others) return the_queue->unlock(m);
  using replies = mutex_bytes::replies;
  const unsigned me = rl::thread_index();
  void* const first = m.chain.get();
  const record* const r = first != nullptr ? &record_of(first) : nullptr;
  const std::uint32_t priority = r != nullptr ? r->priority : 0;
  const std::uint64_t waited = r != nullptr ? world.clock() - r->requeued_since : 0;
  // Only an owner changes these bits, so their values hold until this thread unlocks.
  const bool is_full = (m.timed.newest() / mutex_bytes::one_in_a_row & 7) == 7;
  const bool was_served = (m.timed.newest() & mutex_bytes::served) != 0;
  const bool urgent = r != nullptr && m.lock.urgent_wait != nullptr && m.lock.urgent_wait(m.state());
  m.said[me] = {};
  woken_by[me] = nullptr;
  hands_over[me] = false;
  the_queue->unlock(m);
  if (hands_over[me] && urgent)
    fail("the mutex is handed to a requeued thread, and a thread with a real-time priority waits for it");
  if (m.said[me].due == replies::yes && !is_full)
    fail("a requeued thread is passed over, and fewer than seven were handed the mutex in a row");
  if (waited >= 4000000 && was_served && !hands_over[me] && !urgent && m.said[me].urgent != replies::yes &&
      m.said[me].due != replies::yes)
    fail("a requeued thread that has waited for 4 ms is not handed the mutex");
  if (first == nullptr || woken_by[me] == r || m.said[me].urgent == replies::yes || m.said[me].due == replies::yes)
    return;
  if (waited >= 1000000) fail("a requeued thread is left asleep for more than 1 ms");
  if (priority != 0) fail("a requeued thread with a priority is left asleep");
  if (m.said[me].has_certain_successor != replies::yes)
    fail("a requeued thread is left asleep, and no other thread is certain to unlock");
}

void queue_program::leave_and_unlock() {
  const std::uint32_t left = users.get() - 1;
  users.set(left);
  if (left == 0 && the_scenario->ends) {
    if (!the_queue->close(queue())) fail("close() says that threads wait, and all have left");
    world.end_of(the_queues_life);
  }
  if (left == 0 && the_queue->has_users(m) != (m.users_elsewhere != 0)) fail("the mutex still counts a user");
  unlock();
  if (left != 0) return;
  if (!the_scenario->forked && rl::rand(2) == 0) unlock_free();
  world.end_of(the_mutexs_life);
}

void queue_program::unlock_free() {
  the_queue->unlock(m);
  if (!the_queue->lock_in_time(m)) fail("a free mutex was unlocked, and cannot be locked any more");
  if (the_queue->lock_in_time(m)) fail("a free mutex was unlocked, and then locked twice");
  unlock();
}

}  // namespace usher::check
