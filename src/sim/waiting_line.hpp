// Threads in the order of a time of each: who has waited longest is known without a look at all.
#pragma once

#include <cstdint>
#include <vector>

namespace usher::sim {

/// A doubly linked list in an array. Most who come are the latest, and belong at the end; where clocks of threads differ, a little before.
class waiting_line {
 public:
  explicit waiting_line(unsigned threads) : places_(threads) {}

  void add(unsigned thread, std::uint64_t time) {
    unsigned after = none, before = last_;
    while (before != none && places_[before].time > time) {
      after = before;
      before = places_[before].before;
    }
    places_[thread] = {time, before, after};
    (before == none ? first_ : places_[before].after) = thread;
    (after == none ? last_ : places_[after].before) = thread;
  }

  /// It must be in the line.
  void remove(unsigned thread) {
    const place p = places_[thread];
    (p.before == none ? first_ : places_[p.before].after) = p.after;
    (p.after == none ? last_ : places_[p.after].before) = p.before;
  }

  /// The thread's time is that now, most often a later one.
  void move(unsigned thread, std::uint64_t time) {
    if (thread == last_ && time >= places_[thread].time) {
      places_[thread].time = time;
      return;
    }
    remove(thread);
    add(thread, time);
  }

  /// The earliest time; later than all others where nobody is in the line.
  std::uint64_t first() const { return first_ == none ? nobody : places_[first_].time; }

  static constexpr std::uint64_t nobody = ~std::uint64_t{0};

 private:
  static constexpr unsigned none = ~0u;

  struct place {
    std::uint64_t time = nobody;
    unsigned before = none, after = none;
  };

  std::vector<place> places_;
  unsigned first_ = none, last_ = none;
};

}  // namespace usher::sim
