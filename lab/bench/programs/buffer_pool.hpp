// Buffer Pool (Malthusian Locks §6.11): threads share fewer buffers than there are threads. A thread takes a buffer,
// perhaps after a wait on a condition variable, exchanges random words of it with words of a private buffer, returns
// it, and updates random words of the private buffer. The order of the waiters decides how many private buffers
// circulate through the caches.
//
// Buffers are taken at the front of the queue and returned at its back. As in keymap, the program only reads.
#pragma once

#include <algorithm>

#include "lab/bench/programs/listed_condition.hpp"
#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class buffer_pool {
 public:
  static description about() {
    return {.name = "buffer-pool",
            .summary = "threads wait on a condition variable for one of a few buffers",
            .source = "Malthusian Locks, section 6.11, figure 14",
            .parameters = {{"buffers", 5, 1, 1000, "in the pool"},
                           {"kib", 1024, 1, 1048576, "of a buffer"},
                           {"exchanges", 500, 0, 1000000, "words exchanged with a buffer of the pool"},
                           {"updates", 5000, 0, 1000000, "words of the private buffer updated"},
                           {"append", 1000, 0, 1000, "of 1000 waiters are appended, the others go to the head"},
                           {"park", 0, 0, 1, "waiters on the condition variable poll; 1: they sleep"}},
            .arrays = true,
            .one_lock = false,
            .guards = true};
  }

  explicit buffer_pool(W& w)
      : mutex_(w.make_lock()),
        not_empty_(w.template make<listed_condition<typename W::platform>>()),
        exchanges_(static_cast<std::size_t>(w.parameter("exchanges"))),
        updates_(static_cast<std::size_t>(w.parameter("updates"))),
        buffers_(static_cast<std::uint32_t>(w.parameter("buffers"))),
        state_(w.template make<pool>()),
        queue_(w.template make_array<word>(buffers_)) {
    not_empty_.set(w.parameter("append"), w.parameter("park") != 0);
    const auto bytes = static_cast<std::size_t>(w.parameter("kib")) << 10;
    for (unsigned i = 0; i < w.threads() + buffers_; i++) memory_.push_back(w.make_block(bytes, large_page));
  }

  void operator()(typename W::thread& t) {
    const std::uint32_t taken = take(t);
    if (taken == none) return;
    const typename W::block &own = memory_[buffers_ + t.index()], &shared = memory_[taken];
    for (std::size_t n = exchanges_, now; n != 0; n -= now) {
      now = std::min(n, at_once);
      t.fetch_at_random(shared, now);
      t.fetch_at_random(own, now);
    }
    give_back(taken);
    t.fetch_at_random(own, updates_);
    t.count();
  }

  /// Wakes the threads that wait when the measured time is over.
  void finish(typename W::thread&) {
    const held guard(mutex_);
    not_empty_.notify_all();
  }

 private:
  using word = typename W::platform::template plain<std::uint32_t>;
  static constexpr std::size_t large_page = std::size_t{2} << 20, at_once = 50;
  static constexpr std::uint32_t none = ~0u;

  /// The free buffers are the queue's entries from `first` on, modulo the number of buffers.
  struct pool {
    word begun, first, free;
  };

  void fill() {
    for (std::uint32_t i = 0; i < buffers_; i++) queue_[i].set(i);
    state_.free.set(buffers_);
    state_.begun.set(1);
  }

  /// Returns `none` if the measured time ended before.
  std::uint32_t take(typename W::thread& t) {
    const held guard(mutex_);
    if (state_.begun.get() == 0) fill();
    while (state_.free.get() == 0) {
      if (t.over()) return none;
      not_empty_.wait(mutex_);
    }
    const std::uint32_t at = state_.first.get();
    state_.first.set((at + 1) % buffers_);
    state_.free.set(state_.free.get() - 1);
    return queue_[at].get();
  }

  void give_back(std::uint32_t buffer) {
    const held guard(mutex_);
    const std::uint32_t free = state_.free.get();
    if (free == buffers_) throw std::logic_error("buffer-pool: more buffers were returned than taken");
    queue_[(state_.first.get() + free) % buffers_].set(buffer);
    state_.free.set(free + 1);
    not_empty_.notify_one();
  }

  typename W::lock mutex_;
  listed_condition<typename W::platform>& not_empty_;
  std::size_t exchanges_, updates_;
  std::uint32_t buffers_;
  pool& state_;
  word* queue_;
  std::vector<typename W::block> memory_;
};

}  // namespace usher::workloads
