// Lists of waiting threads, and in which order they are served: what condition variables and semaphores share.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), §6.10 and §6.11. A waiter is appended at the tail of the list with
// some probability, else put at its head; the head is served first. With probability 1 the order is first in, first out.
// With 1/1000 it is mostly last in, first out: as few threads circulate as there is work for, the others stay asleep,
// and the one at the tail is served, too, in the long run. Probability 0 would let it starve and cannot be expressed.
#pragma once

#include <cstdint>

#include "usher/platform.hpp"

namespace usher {

/// The probability with which a waiter is appended at the tail. All zero bytes, the default, mean 1.
class append_chance {
 public:
  constexpr append_chance() = default;

  /// `p` in (0, 1]. What is smaller than 2⁻³² counts as 2⁻³², what is larger than 1 as 1.
  constexpr explicit append_chance(double p)
      : threshold_(p >= 1                 ? 0
                   : p * 4294967296.0 < 1 ? 1
                                          : std::uint32_t(p * 4294967296.0)) {}

  template <platform P>
  bool at_tail() const {
    return threshold_ == 0 || P::random() < threshold_;
  }

 private:
  std::uint32_t threshold_ = 0;  ///< in units of 2⁻³²; 0: always
};

/// A list through the members next and prev of its elements. Whoever uses it provides for mutual exclusion.
template <platform P, class Waiter>
class waiter_list {
 public:
  void clear() {
    head_.set(nullptr);
    tail_.set(nullptr);
  }
  Waiter* front() const { return head_.get(); }

  void push_front(Waiter& w) {
    Waiter* const first = head_.get();
    w.next.set(first);
    w.prev.set(nullptr);
    (first != nullptr ? first->prev : tail_).set(&w);
    head_.set(&w);
  }
  void push_back(Waiter& w) {
    Waiter* const last = tail_.get();
    w.next.set(nullptr);
    w.prev.set(last);
    (last != nullptr ? last->next : head_).set(&w);
    tail_.set(&w);
  }
  void push(Waiter& w, append_chance chance) {
    if (chance.at_tail<P>())
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
  typename P::template plain<Waiter*> head_, tail_;
};

}  // namespace usher
