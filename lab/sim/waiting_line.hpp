// A list of threads, each with a time (such as its arrival). The list is sorted by these times, so that the earliest is
// found without a scan.
#pragma once

#include <cstdint>
#include <vector>

namespace usher::sim {

/// A doubly linked list in an array. An arriving thread usually has the latest time and is added at the end. Since the
/// threads' clocks differ, its place may be a little before the end.
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

  /// Removes a thread, which must be in the list.
  void remove(unsigned thread) {
    const place p = places_[thread];
    (p.before == none ? first_ : places_[p.before].after) = p.after;
    (p.after == none ? last_ : places_[p.after].before) = p.before;
  }

  /// Changes the thread's time, usually to a later one.
  void move(unsigned thread, std::uint64_t time) {
    if (thread == last_ && time >= places_[thread].time) {
      places_[thread].time = time;
      return;
    }
    remove(thread);
    add(thread, time);
  }

  /// Returns the earliest time; if the list is empty, `nobody`, which is later than any time.
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
