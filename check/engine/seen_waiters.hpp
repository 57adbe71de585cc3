// Checks of the waiters of a condition variable, for two scenarios. They read the scenario's record of each waiter. A
// `Waiter` has `at` (null if it has left), `number` (the order of entry), `priority`, `chain` (its number; 0: none),
// `place` in the chain, `is_awake`, and `is_back` (it holds the mutex again). `each(f)` calls f for all waiters; in
// see_selection() it calls f for those in the list.
#pragma once

#include "check/engine/explore.hpp"

namespace usher::check {

/// Called when a signal or a broadcast has selected a waiter. `at_tail`: the probability to append.
template <class Waiter, class Each>
void see_selection(const Waiter& selected, double at_tail, Each each_listed) {
  each_listed([&](const Waiter& o) {
    if (o.priority > selected.priority) fail("a signal passes over a waiter of a higher priority");
    const bool before = at_tail == 1 ? o.number < selected.number : at_tail == 0x1p-32 && o.number > selected.number;
    if (o.priority == selected.priority && before) fail("a signal does not select the waiter whose turn it is");
  });
}

/// Called when a thread of a chain has been woken. Fails if it is not this thread's turn, or if another thread of the
/// chain is awake without the mutex.
template <class Waiter, class Each>
void see_awake_in_chain(const Waiter& woken, Each each) {
  if (woken.chain == 0) return;
  each([&](const Waiter& o) {
    if (&o == &woken || o.at == nullptr || o.chain != woken.chain) return;
    if (o.place < woken.place && !o.is_awake) fail("the threads of a broadcast are not woken in order");
    if (o.is_awake && !o.is_back) fail("two threads of a broadcast are awake without the mutex");
  });
}

}  // namespace usher::check
