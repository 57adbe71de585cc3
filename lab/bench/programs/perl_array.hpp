// RandArray in perl (Malthusian Locks §6.10). A perl lock is a mutex, a condition variable and an owner; a thread that
// finds the lock taken waits on the condition variable. The order of the waiters decides how many threads circulate,
// and so how many private arrays compete for the last-level cache.
//
// An element of a perl array is a pointer of 8 bytes to a scalar of 24 bytes, which contains an integer (perlguts).
// `interpreter` is the time in which perl interprets the loop once, without the loads. The default was measured on an
// AMD EPYC at 2.6 GHz: with an array that is in the cache, one iteration of the loop of lab/programs/rand_array.pl
// takes 141 ns (Debian's perl 5.36), which are 367 cycles.
#pragma once

#include <algorithm>

#include "lab/bench/programs/listed_condition.hpp"
#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class perl_array {
 public:
  static description about() {
    return {.name = "perl-array",
            .summary = "randarray in perl: threads wait for a lock on a condition variable",
            .source = "Malthusian Locks, section 6.10, figure 13",
            .parameters = {{"cs", 100, 0, 1000000, "elements read inside"},
                           {"ncs", 400, 0, 1000000, "elements read outside"},
                           {"elements", 50000, 1, 10000000, "in an array"},
                           {"append", 1000, 0, 1000, "of 1000 waiters are appended, the others go to the head"},
                           {"interpreter", 370, 0, 1000000, "empty loops or cycles for an element"},
                           {"park", 0, 0, 1, "waiters on the condition variable poll; 1: they sleep"}},
            .arrays = true,
            .one_lock = false,
            .guards = true};
  }

  explicit perl_array(W& w)
      : mutex_(w.make_lock()),
        free_(w.template make<listed_condition<typename W::platform>>()),
        owner_(w.template make<word>()),
        cs_(static_cast<std::size_t>(w.parameter("cs"))),
        ncs_(static_cast<std::size_t>(w.parameter("ncs"))),
        interpreter_(static_cast<std::size_t>(w.parameter("interpreter"))) {
    free_.set(w.parameter("append"), w.parameter("park") != 0);
    const auto elements = static_cast<std::size_t>(w.parameter("elements"));
    for (unsigned i = 0; i <= w.threads(); i++)
      arrays_.push_back({w.make_block(elements * 8, large_page), w.make_block(elements * 24, large_page)});
  }

  void operator()(typename W::thread& t) {
    if (!lock(t)) return;
    read(t, arrays_.back(), cs_);
    unlock();
    t.count();
    read(t, arrays_[t.index()], ncs_);
  }

  /// Wakes the threads that wait when the measured time is over.
  void finish(typename W::thread&) {
    const held guard(mutex_);
    free_.notify_all();
  }

 private:
  using word = typename W::platform::template plain<std::uint32_t>;
  static constexpr std::size_t large_page = std::size_t{2} << 20;

  struct array {
    typename W::block pointers, scalars;
  };

  /// Returns false if the measured time ended before.
  bool lock(typename W::thread& t) {
    const held guard(mutex_);
    while (owner_.get() != 0) {
      if (t.over()) return false;
      free_.wait(mutex_);
    }
    owner_.set(t.index() + 1);
    return true;
  }
  void unlock() {
    const held guard(mutex_);
    owner_.set(0);
    free_.notify_one();
  }

  void read(typename W::thread& t, const array& from, std::size_t n) {
    constexpr std::size_t at_once = 50;  // so that loads of other threads come between
    for (; n != 0; n -= std::min(n, at_once)) {
      const std::size_t now = std::min(n, at_once);
      t.delay(now * interpreter_);
      t.fetch_at_random(from.pointers, now);
      t.fetch_at_random(from.scalars, now);
    }
  }

  typename W::lock mutex_;
  listed_condition<typename W::platform>& free_;
  word& owner_;
  std::size_t cs_, ncs_, interpreter_;
  std::vector<array> arrays_;
};

}  // namespace usher::workloads
