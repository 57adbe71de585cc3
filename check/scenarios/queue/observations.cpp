// Sends signals, and checks the signals, the waiters and the mutex.
#include <algorithm>
#include <utility>

#include "check/engine/seen_waiters.hpp"
#include "check/scenarios/queue/queue_program.hpp"

namespace usher::check {

void queue_program::announce(bool holding) {
  if (rl::rand(4) == 0) return announce_at_once();
  void* const chain = rl::rand(4) == 0 ? select(true) : select(false, cancels || rl::rand(2) == 0);
  if (chain == nullptr) return;
  if (holding)
    for (void* w = chain; w != nullptr; w = the_queue->next(w)) see_signalled(w);
  the_queue->deliver(chain);
}

/// Selects and delivers by the functions that libusher.so calls. In the scenario `busy` it sends no broadcast, because
/// close_refused() must know all selected waiters.
void queue_program::announce_at_once() {
  const bool all = !the_scenario->busy && rl::rand(4) == 0;
  see_selection_of(all, [&] {
    (all ? the_queue->broadcast : the_queue->signal)(queue());
    return nullptr;
  });
}

void* queue_program::select(bool all, bool armed) {
  void* const chain = see_selection_of(
      all, [&] { return all ? the_queue->select_all(queue()) : the_queue->select_one(queue(), armed); });
  unsigned length = 0;
  for (void* w = chain; w != nullptr; w = the_queue->next(w)) length++;
  if (length != selected_by[rl::thread_index()]) fail("a chain does not consist of the selected waiters");
  return chain;
}

template <class Select>
void* queue_program::see_selection_of(bool all, Select selects) {
  const unsigned me = rl::thread_index();
  std::array<bool, execution::most_locals> waited{};
  for (const unsigned s : present()) waited[s] = records[s].is_listed() && records[s].number <= arrived_after[me];
  selected_by[me] = 0;
  chain_of[me] = ++chains;
  void* const chain = selects();
  chain_of[me] = 0;
  if (!all && selected_by[me] > 1) fail("a signal selects several waiters");
  for (const unsigned s : present())
    if (waited[s] && records[s].is_listed() && (all || selected_by[me] == 0))
      fail(all ? "a broadcast leaves out a waiter" : "a signal selects no thread, and one waits");
  return chain;
}

void queue_program::see_signalled(void* w) {
  record_of(w).is_signalled = true;
  signals_out++;
}

void queue_program::see_delivered(void* w) {
  record& r = record_of(w);
  if (r.is_signalled) return;
  r.is_signalled = true;
  signals_out++;
}

void queue_program::see_written(const void* word) {
  if (word == &m.timed) {
    if (m.counted_timed() == 0) passed_by = false;
    if (m.counted_timed() > world.count_limit(mutex_bytes::most_timed))
      fail("more threads with a deadline are counted than the count has room for");
    timed_at_write[rl::thread_index()] = m.counted_timed();
    if ((m.timed.newest() & mutex_bytes::requeued) == 0)  // the whole chain is removed with its first waiter
      for (const unsigned s : present()) records[s].requeued = false;
    return;
  }
  if (!world.is_local(word)) return;
  record& r = record_of(word);
  if (r.at == nullptr) return;
  const std::uint32_t was = std::exchange(r.state, the_queue->state(r.at));
  if (was == record::waiting && r.state == record::selected) see_selected(r);
  if (was < record::granted && r.state >= record::granted) see_awake(r);
}

void queue_program::see_selected(record& r) {
  const unsigned me = rl::thread_index();
  r.was_selected = true;
  r.chain = chain_of[me];
  r.place = ++selected_by[me];
  if (!r.ordered) return;
  see_selection(r, at_tail, [this](auto visit) {
    for (const unsigned s : present())
      if (records[s].is_listed()) visit(records[s]);
  });
}

void queue_program::see_awake(record& r) {
  const unsigned me = rl::thread_index();
  r.is_awake = true;
  woken_by[me] = &r;
  if (r.state == record::handed_over) {
    r.is_back = true;
    if (passed_by) fail("two hand-overs in a row pass over a thread with a deadline");
    passed_by = timed_at_write[me] != 0;
    if (in_a_row >= 7 && m.said[me].due != mutex_bytes::replies::no)
      fail("the mutex is handed over eight times in a row, and a thread at the lock has waited long");
    in_a_row++;
    hands_over[me] = true;
  }
  see_awake_in_chain(r, [this](auto visit) {
    for (const unsigned s : present()) visit(records[s]);
  });
}

void queue_program::see_back(void* w) {
  record_of(w).is_back = true;
  see_locked();
}
void queue_program::see_locked() {
  passed_by = false;
  in_a_row = 0;
  has_from_parent = false;
}

void queue_program::see_requeued(const chain_seen& chain, const chain_seen& then) {
  for (unsigned i = 0; i < chain.size; i++) {
    record& r = record_of(chain.waiters[i]);
    r.place_at_mutex = ++requeues;
    if (r.requeued_since == 0) r.requeued_since = world.clock();
    r.requeued = true;
  }
  if (then.size != std::size_t(std::ranges::count_if(present(), [this](unsigned s) { return records[s].requeued; })))
    fail("a requeue loses a waiter");
  for (unsigned i = 0; i + 1 < then.size; i++) {
    const record &a = record_of(then.waiters[i]), &b = record_of(then.waiters[i + 1]);
    if (a.priority < b.priority || (a.priority == b.priority && a.place_at_mutex > b.place_at_mutex))
      fail("requeued threads are not in order");
  }
}

void queue_program::see_lock() {
  arrived_after[rl::thread_index()] = arrivals;
  if (m.is_valid() && !the_scenario->undoes && m.counted_users() != m.users_elsewhere + m.users)
    fail("the mutex does not count its users");
}

void queue_program::forget_parent(void* own_waiter) {
  for (const unsigned s : present()) {
    record& r = records[s];
    if (r.at != own_waiter) {
      r = {};
      continue;
    }
    r.listed = r.requeued = false;
    r.chain = 0;
    slots[0] = std::uint8_t(s);
  }
  waiters = own_waiter != nullptr ? 1 : 0;
  m.users = signals_out = in_a_row = 0;
  passed_by = false;
  chain_of = timed_at_write = {};
  woken_by = {};
}

}  // namespace usher::check
