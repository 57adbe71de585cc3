// throw (TWA, extended, §4.3): threads throw and catch exceptions, with no pause. The C++ runtime of that time (libgcc
// before 12, glibc before 2.35) searched five times in each throw for a frame's tables, and took glibc's lock of the
// list of loaded modules each time. An iteration of this program is one search:
//
//     outside   the work of a fifth of a throw, without the lock
//     lock
//     inside    go through the list of modules, find the frame's entry in its module's table
//     cache     find the module in a list whose first element is the one found last, and move it to the head
//     unlock
//
// The lengths were measured on an AMD EPYC of 2024, in cycles of its clock: `outside` is a throw of today's runtime
// without its searches, `inside` a search of today's runtime after dl_iterate_phdr(). The order of the modules is that
// of a throw on that machine: the unwinder, the C++ library and the program to find the handler, and the last two again
// to go to the handler. The cache is that of libgcc (unwind-dw2-fde-dip.c): elements of 48 bytes side by side. Each
// search is for another module than the search before, so each search writes to the list.
#pragma once

#include <array>

#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class throwing {
 public:
  static description about() {
    return {.name = "throwing",
            .summary = "throws and catches in a C++ runtime that takes a lock; an operation is a fifth of a throw",
            .source = "TWA (extended), section 4.3, figure 5",
            .parameters = {{"inside", 129, 0, 1000000, "empty loops or cycles of a search, under the lock"},
                           {"outside", 352, 0, 1000000, "the same between two searches"},
                           {"cache", 1, 0, 1, "0: without the list of modules"}},
            .guards = true};
  }

  explicit throwing(W& w)
      : lock_(w.make_lock()),
        inside_(static_cast<std::size_t>(w.parameter("inside"))),
        outside_(static_cast<std::size_t>(w.parameter("outside"))),
        cached_(w.parameter("cache") != 0),
        modules_(w.template make<list>()),
        next_(w.threads()) {}

  void operator()(typename W::thread& t) {
    t.overhead(0, 4);
    t.delay(outside_);
    unsigned& next = next_[t.index()].search;
    {
      const held guard(lock_);
      t.overhead(0, 4);
      t.delay(inside_);
      if (cached_) find(order[next]);
    }
    next = next + 1 == order.size() ? 0 : next + 1;
    t.count();
  }

 private:
  using word = typename W::platform::template plain<std::uint64_t>;
  static constexpr std::uint64_t elements = 8;
  static constexpr std::array<std::uint64_t, 5> order = {0, 1, 2, 1, 2};

  /// An element of the list of modules. Module n is in element n. A link is the distance to the next element, minus
  /// one, so that zeros mean the elements in order.
  struct element {
    word begin, end, base, tables, dynamic, link;
  };
  struct list {
    std::array<element, elements> all;
    word head;
  };
  struct alignas(128) own {
    unsigned search = 0;
  };

  std::uint64_t after(std::uint64_t e) { return e + 1 + modules_.all[e].link.get(); }
  void link(std::uint64_t e, std::uint64_t to) { modules_.all[e].link.set(to - e - 1); }

  void find(std::uint64_t module) {
    const std::uint64_t head = modules_.head.get();
    std::uint64_t at = head, before = head;
    for (std::uint64_t steps = 0; modules_.all[at].begin.get(), at != module; steps++) {
      before = at;
      at = after(at);
      if (at >= elements || steps == elements) throw std::logic_error("throwing: the list of modules lacks a module");
    }
    if (at == head) return;
    link(before, after(at));
    link(at, head);
    modules_.head.set(at);
  }

  typename W::lock lock_;
  std::size_t inside_, outside_;
  bool cached_;
  list& modules_;
  std::vector<own> next_;
};

}  // namespace usher::workloads
