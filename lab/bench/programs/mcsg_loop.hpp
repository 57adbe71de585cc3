// The benchmark program of the MCSg paper (§5): acquire, read four lines, release. The last threads acquire as guests,
// without a queue node.
#pragma once

#include <array>

#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class mcsg_loop {
 public:
  static description about() {
    return {.name = "mcsg-loop",
            .summary = "acquire, read four lines, release; some threads are guests",
            .source = "MCSg, section 5, figures 3 to 9",
            .parameters = {{"guests", 0, 0, 1024, "threads without a queue node"}},
            .where = placement::compact,
            .some = "guests",
            .others = "regulars"};
  }
  static bool is_one_of_some(W& w, unsigned thread) { return thread >= first_guest(w); }

  explicit mcsg_loop(W& w) : lock_(w.make_lock()), first_guest_(first_guest(w)) {
    for (word*& d : data_) d = &w.template make<word>();
  }

  void operator()(typename W::thread& t) {
    if (t.index() >= first_guest_)
      lock_.lock_as_guest();
    else
      lock_.lock();
    for (word* d : data_) d->load(std::memory_order_relaxed);
    lock_.unlock();
    t.count();
    t.overhead(4, 8);
  }

 private:
  using word = typename W::platform::template atomic<std::uint64_t>;
  static unsigned first_guest(W& w) { return w.threads() - static_cast<unsigned>(w.parameter("guests")); }

  typename W::lock lock_;
  unsigned first_guest_;
  std::array<word*, 4> data_{};
};

}  // namespace usher::workloads
