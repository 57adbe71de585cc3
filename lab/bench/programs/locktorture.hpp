// Linux's locktorture of spinlocks (kernel/locking/locktorture.c of Linux 5.7 to 5.12). A thread acquires the lock,
// writes into a shared note that the lock is held, counts, draws three random numbers of its own generator that decide
// on delays, clears the note, and releases the lock. The delays depend on the number of threads. In one of 4 × threads
// acquisitions the lock is held for 2 µs longer. In one of 200 000 × threads it is held for 100 ms; this delay is left
// out, because a simulated run is too short for it. It would add 0.5 µs / threads to the mean of an acquisition.
//
// The note and the counters of all threads are memory that the threads share. The note has a line of its own, and a
// line has the counters of four threads.
#pragma once

#include <array>

#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class locktorture {
 public:
  static description about() {
    return {.name = "locktorture",
            .summary = "rare delays inside, and nothing outside: Linux's test of its spinlocks",
            .source = "Linux 5.12, kernel/locking/locktorture.c",
            .parameters = {{"delay", 5200, 0, 1000000, "cycles of the delay, 2 µs in Linux"},
                           // Assumed: most of it is the division of 64 bits by the number of threads times a constant.
                           {"random", 45, 0, 100000, "cycles of one decision on a delay, on a simulated machine"}}};
  }

  explicit locktorture(W& w)
      : lock_(w.make_lock()),
        held_(w.template make<number>()),
        counters_(w.template make_array<counters>(w.threads())),
        delay_(static_cast<std::size_t>(w.parameter("delay"))),
        random_(static_cast<std::size_t>(w.parameter("random"))),
        one_of_(4 * w.threads()) {}

  void operator()(typename W::thread& t) {
    const std::array<number*, 2> both{&held_, &counters_[t.index()].acquired};
    lock_.lock();
    t.increment(both);
    t.overhead(3 * random_, 4);
    if (t.uniform(one_of_) == 0) t.delay(delay_);
    held_.set(0);
    lock_.unlock();
    t.count();
    t.overhead(25, 10);  // assumed: a random number without a division, and whether to pause or to stop
  }

 private:
  using number = typename W::platform::template plain<std::uint64_t>;

  /// A thread's counters, as struct lock_stress_stats: 16 bytes.
  struct counters {
    number failed, acquired;
  };

  typename W::lock lock_;
  number& held_;
  counters* counters_;
  std::size_t delay_, random_;
  std::uint32_t one_of_;
};

}  // namespace usher::workloads
