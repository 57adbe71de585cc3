// Invalidation diameter (TWA, extended, §4.1): one thread writes a word, all others read it in a loop. An operation is
// a write.
#pragma once

#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class invalidation {
  static constexpr auto relaxed = std::memory_order_relaxed;

 public:
  static description about() {
    return {.name = "invalidation",
            .summary = "one thread writes a word, all others read it",
            .source = "TWA (extended), section 4.1, figure 1",
            .parameters = {},
            .one_lock = false};
  }

  explicit invalidation(W& w) : shared_(w.template make<word>()) {}

  void operator()(typename W::thread& t) {
    if (t.index() == 0) {
      shared_.fetch_add(1, relaxed);
      t.count();
      if (t.over()) shared_.fetch_add(1, relaxed);  // ends the readers' wait
      return;
    }
    const std::uint64_t seen = shared_.load(relaxed);
    W::platform::await(
        shared_, [seen, &t](std::uint64_t v) { return v != seen || t.over(); }, relaxed, pacing::polling);
  }

 private:
  using word = typename W::platform::template atomic<std::uint64_t>;
  word& shared_;
};

}  // namespace usher::workloads
