// Lists of waiting threads and their order: the common part of condition variables and semaphores.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), §6.10 and §6.11. A waiter is appended at the tail of the list with a
// given probability, otherwise inserted at its head; the head is served first. With probability 1 the order is first
// in, first out. With 1/1000 it is mostly last in, first out: only as many threads circulate as there is work for, the
// others stay asleep, and the waiter at the tail is served in the long run. With probability 0 that waiter could
// starve, so 0 cannot be expressed.
//
// POSIX (sem_post, pthread_cond_signal) requires that waiters with a real-time priority are served by priority, and
// among equals the one that has waited longest. So a list is sorted by priority, highest first, and the order described
// above holds within a class of equal priorities. With one class an insertion takes constant time; otherwise it walks
// past the other classes. A waiter's priority is determined once per wait, when the waiter is first compared with
// another waiter: by its own thread, or, if it was alone in the list, by the second waiter's thread. So a thread that
// waits alone does not pay for the system call.
#pragma once

#include <cstdint>

#include "usher/core/platform.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

/// The probability with which a waiter is appended at the tail. All zero bytes, the default, mean 1.
class append_probability {
 public:
  constexpr append_probability() = default;

  /// `p` must be in (0, 1]. Values below 2⁻³² count as 2⁻³², values above 1 as 1.
  constexpr explicit append_probability(double p)
      : threshold_(p >= 1                 ? 0
                   : p * 4294967296.0 < 1 ? 1
                                          : std::uint32_t(p * 4294967296.0)) {}

  template <platform P>
  bool at_tail() const {
    return threshold_ == 0 || P::random() < threshold_;
  }

 private:
  std::uint32_t threshold_ = 0;  ///< the probability in units of 2⁻³²; 0: certain
};

/// The priority by which a waiter is placed in a list or chain.
template <platform_with_priorities P>
struct waiter_rank {
  using id = decltype(P::thread_id());
  typename P::template plain<id> thread;
  typename P::template plain<std::uint32_t> value;  ///< 1 more than the thread's priority; 0: not yet determined

  /// Called by the waiter before it joins a list. `others_wait`: the list is not empty.
  void begin(bool others_wait) {
    thread.set(P::thread_id());
    if (others_wait) value.set(P::priority() + 1);
  }
  std::uint32_t get() {
    if (value.get() == 0) value.set(P::priority(thread.get()) + 1);
    return value.get();
  }
  bool is_urgent() { return get() > 1; }
};

/// A list linked by the members `next` and `prev` of its elements, sorted by their member `rank` (waiter_rank). The
/// caller provides mutual exclusion.
template <platform_with_priorities P, class Waiter>
class waiter_list {
 public:
  void clear() {
    head_.set(nullptr);
    tail_.set(nullptr);
  }
  Waiter* front() const { return head_.get(); }

  /// Inserts the waiter before those of equal priority.
  void push_front(Waiter& w) {
    Waiter* after = head_.get();
    while (after != nullptr && after->rank.get() > w.rank.get()) [[unlikely]]
      after = after->next.get();
    insert(after != nullptr ? after->prev.get() : tail_.get(), w, after);
  }
  /// Inserts the waiter behind those of equal priority.
  void push_back(Waiter& w) {
    Waiter* before = tail_.get();
    while (before != nullptr && before->rank.get() < w.rank.get()) [[unlikely]]
      before = before->prev.get();
    insert(before, w, before != nullptr ? before->next.get() : head_.get());
  }
  void push(Waiter& w, append_probability probability) {
    if (probability.at_tail<P>())
      push_back(w);
    else
      push_front(w);
  }

  void remove(Waiter& w) {
    Waiter* const after = w.next.get();
    Waiter* const before = w.prev.get();
    (before != nullptr ? before->next : head_).set(after);
    (after != nullptr ? after->prev : tail_).set(before);
  }

 private:
  void insert(Waiter* before, Waiter& w, Waiter* after) {
    w.prev.set(before);
    w.next.set(after);
    (before != nullptr ? before->next : head_).set(&w);
    (after != nullptr ? after->prev : tail_).set(&w);
  }

  typename P::template plain<Waiter*> head_, tail_;
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
