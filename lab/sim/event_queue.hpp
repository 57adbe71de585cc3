// The pending events, in order of time. Events at the same time are in random order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "lab/sim/machine.hpp"

namespace usher::sim {

enum class event_kind : std::uint8_t {
  resume,  ///< a thread continues
  poll,    ///< a spinning thread loads its word again
  expire,  ///< a thread's time limit for spinning or sleeping ends
  commit,  ///< a buffered store's request arrives, or the store is written
  ready,   ///< a woken thread may run
  slice,   ///< a CPU's time slice ends
  tick,    ///< the timer interrupts a CPU
  daemon,  ///< another process interrupts a CPU
  clock,   ///< the clock of the time-sharing class ticks
  call,    ///< a function given to simulation::at()
};

struct event {
  cycles time;
  std::uint32_t tie;    ///< random; its upper 23 bits order events at the same time
  std::uint32_t epoch;  ///< of the thread; for `commit`, the number of the store
  std::uint32_t of;     ///< thread, CPU, or call
  event_kind kind;
};

/// A 4-ary heap. Time and the upper bits of `tie` form one integer, so that two events are compared in one step,
/// without a branch to mispredict. The array behind the heap's end is filled with events later than any other, so that
/// a node always has four children to compare.
class event_queue {
 public:
  bool empty() const { return size_ == 0; }
  cycles first_time() const { return heap_[0].order >> tie_bits; }

  void push(const event& e) {
    if (size_ + arity >= heap_.size()) heap_.resize(2 * heap_.size(), never);
    rise(size_++, packed(e));
  }

  /// False: the queue is empty.
  bool pop(event& to) {
    if (size_ == 0) return false;
    to = unpacked(heap_[0]);
    const entry last = heap_[--size_];
    heap_[size_] = never;
    if (size_ != 0) refill(last);
    return true;
  }

  /// Equivalent to pushing e and popping the first event.
  event exchange(const event& e) {
    const entry mine = packed(e);
    if (size_ == 0 || mine.order < heap_[0].order) return e;
    const event first = unpacked(heap_[0]);
    refill(mine);
    return first;
  }

 private:
  struct entry {
    std::uint64_t order;
    std::uint32_t epoch, what;
  };
  static constexpr std::size_t arity = 4;
  static constexpr unsigned tie_bits = 23, kind_bits = 4;
  static constexpr entry never{~std::uint64_t{0} >> 1, 0, 0};

  static entry packed(const event& e) {
    if (e.time >> (63 - tie_bits) != 0) [[unlikely]]
      throw std::length_error("the simulated time is longer than 2^40 cycles");
    return {e.time << tie_bits | e.tie >> (32 - tie_bits), e.epoch, e.of << kind_bits | std::uint32_t(e.kind)};
  }
  static event unpacked(const entry& e) {
    return {e.order >> tie_bits, 0, e.epoch, e.what >> kind_bits, event_kind(e.what & ((1u << kind_bits) - 1))};
  }

  /// Inserts e: moves it up from the free place `at` to its place in the heap.
  void rise(std::size_t at, const entry& e) {
    while (at != 0) {
      const std::size_t above = (at - 1) / arity;
      if (heap_[above].order <= e.order) break;
      heap_[at] = heap_[above];
      at = above;
    }
    heap_[at] = e;
  }

  /// Puts e into the heap, whose first place is free. At each level the earliest child moves up into the free place;
  /// then e rises from the free leaf, usually not far, since most events taken from the end of the heap belong there.
  void refill(const entry& e) {
    const auto earlier = [this](std::size_t a, std::size_t b) {
      return a + (b - a) *
                     std::size_t((heap_[b].order - heap_[a].order) >> 63);  // arithmetic: compilers make a branch of ?:
    };
    std::size_t at = 0;
    for (std::size_t below = 1; below < size_; below = arity * at + 1) {
      const std::size_t least = earlier(earlier(below, below + 1), earlier(below + 2, below + 3));
      heap_[at] = heap_[least];
      at = least;
    }
    rise(at, e);
  }

  std::vector<entry> heap_ = std::vector<entry>(64, never);
  std::size_t size_ = 0;
};

}  // namespace usher::sim
