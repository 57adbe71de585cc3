// What will happen, in the order of time; of events at the same time a random one comes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/machine.hpp"

namespace usher::sim {

enum class event_kind : std::uint8_t {
  resume,  ///< a thread goes on
  look,    ///< a spinning thread loads its word again
  expire,  ///< a thread's limit of spinning or sleeping is over
  commit,  ///< a buffered store is written
  ready,   ///< a thread that was woken may run
  slice,   ///< a CPU's time slice is over
  call,    ///< somebody who looks on wants to know
};

struct event {
  cycles time;
  std::uint32_t tie;
  std::uint32_t epoch;
  std::uint32_t of;  ///< thread, CPU, or call
  event_kind kind;
};

/// A heap. Behind its end stand events that never happen: four that are compared are always there.
class event_queue {
 public:
  bool empty() const { return size_ == 0; }
  cycles first_time() const { return heap_[0].time; }

  void push(const event& e) {
    if (size_ + arity >= heap_.size()) heap_.resize(2 * heap_.size(), never);
    rise(size_++, e);
  }

  /// False: there is none.
  bool pop(event& to) {
    if (size_ == 0) return false;
    to = heap_[0];
    const event last = heap_[--size_];
    heap_[size_] = never;
    if (size_ != 0) refill(last);
    return true;
  }

  /// The same as to push this one and to pop the first.
  event exchange(const event& e) {
    if (size_ == 0 || before(e, heap_[0])) return e;
    const event first = heap_[0];
    refill(e);
    return first;
  }

 private:
  static constexpr std::size_t arity = 4;
  static constexpr event never{~cycles{0}, ~std::uint32_t{0}, 0, 0, event_kind::resume};

  /// As one number: which of two comes first cannot be foreseen, and a branch would be foretold wrong.
  __extension__ using number = unsigned __int128;
  static number order(const event& e) { return number{e.time} << 64 | std::uint64_t{e.tie} << 32; }
  static bool before(const event& a, const event& b) { return order(a) < order(b); }

  /// To its place, from a free one at the end.
  void rise(std::size_t at, const event& e) {
    while (at != 0) {
      const std::size_t above = (at - 1) / arity;
      if (!before(e, heap_[above])) break;
      heap_[at] = heap_[above];
      at = above;
    }
    heap_[at] = e;
  }

  /// The first place is free: the earlier ones move up, down to the end, where what comes from the end mostly belongs.
  void refill(const event& e) {
    std::size_t at = 0;
    for (std::size_t below = 1; below < size_; below = arity * at + 1) {
      const std::size_t left = below + std::size_t(before(heap_[below + 1], heap_[below]));
      const std::size_t right = below + 2 + std::size_t(before(heap_[below + 3], heap_[below + 2]));
      const std::size_t least = left + (right - left) * std::size_t(before(heap_[right], heap_[left]));
      heap_[at] = heap_[least];
      at = least;
    }
    rise(at, e);
  }

  std::vector<event> heap_ = std::vector<event>(64, never);
  std::size_t size_ = 0;
};

}  // namespace usher::sim
