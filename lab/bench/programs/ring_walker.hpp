// RingWalker (Malthusian Locks §6.2): threads walk a shared ring of list elements in the critical section and a private
// ring outside. Each element is on a page of its own. The rings compete for the core's TLB.
#pragma once

#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class ring_walker {
 public:
  static description about() {
    return {.name = "ringwalker",
            .summary = "walks a shared ring inside, a private one outside, one element a page",
            .source = "Malthusian Locks, section 6.2, figure 5",
            .parameters = {{"elements", 50, 1, 100000, "in a ring"},
                           {"cs", 10, 0, 1000000, "elements inside"},
                           {"ncs", 50, 0, 1000000, "elements outside"},
                           {"page", 8192, 4096, 524288, "bytes between elements, a multiple of 64"}},
            .arrays = true};
  }

  explicit ring_walker(W& w)
      : lock_(w.make_lock()),
        elements_(static_cast<std::size_t>(w.parameter("elements"))),
        cs_(static_cast<std::size_t>(w.parameter("cs"))),
        ncs_(static_cast<std::size_t>(w.parameter("ncs"))),
        page_(static_cast<std::size_t>(w.parameter("page"))),
        at_(w.threads() + 1) {
    if (page_ % 64 != 0) throw bad_program("ringwalker: page must be a multiple of 64");
    for (unsigned i = 0; i <= w.threads(); i++) rings_.push_back(w.make_block(elements_ * page_, page_));
  }

  void operator()(typename W::thread& t) {
    const auto shared = static_cast<unsigned>(at_.size() - 1);
    lock_.lock();
    walk(t, shared, cs_);
    lock_.unlock();
    t.count();
    walk(t, t.index(), ncs_);
  }

 private:
  /// The element at which the last walk of a ring ended and the next one begins.
  struct alignas(128) position {
    std::size_t element = 0;
  };

  void walk(typename W::thread& t, unsigned ring, std::size_t steps) {
    std::size_t& e = at_[ring].element;
    for (std::size_t i = 0; i < steps; i++) {
      // The element's line within its page depends on the page's number, so that the elements are spread over the sets
      // of the cache.
      const std::size_t colour = (e * 0x9e3779b1u + ring * 0x85ebca6bu) / 64 % (page_ / 64) * 64;
      t.fetch(rings_[ring], e * page_ + colour);
      e = e + 1 == elements_ ? 0 : e + 1;
    }
  }

  typename W::lock lock_;
  std::size_t elements_, cs_, ncs_, page_;
  std::vector<typename W::block> rings_;
  std::vector<position> at_;
};

}  // namespace usher::workloads
