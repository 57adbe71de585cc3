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

class event_queue {
 public:
  bool empty() const { return heap_.empty(); }
  cycles first_time() const { return heap_.front().time; }

  void push(const event& e) {
    std::size_t at = heap_.size();
    heap_.push_back(e);
    while (at != 0) {
      const std::size_t above = (at - 1) / 2;
      if (!before(e, heap_[above])) break;
      heap_[at] = heap_[above];
      at = above;
    }
    heap_[at] = e;
  }

  event pop() {
    const event first = heap_.front(), last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last);
    return first;
  }

 private:
  static bool before(const event& a, const event& b) { return a.time != b.time ? a.time < b.time : a.tie < b.tie; }

  void sink(const event& e) {
    const std::size_t size = heap_.size();
    std::size_t at = 0;
    for (;;) {
      std::size_t below = 2 * at + 1;
      if (below >= size) break;
      if (below + 1 < size && before(heap_[below + 1], heap_[below])) below++;
      if (!before(heap_[below], e)) break;
      heap_[at] = heap_[below];
      at = below;
    }
    heap_[at] = e;
  }

  std::vector<event> heap_;
};

}  // namespace usher::sim
