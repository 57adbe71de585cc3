// The benchmark of the MCSg paper as the authors' own program has it (foedus_results, 20151209). It differs from the
// paper's description, and from mcsg-loop, in two points. The critical section adds to words of four lines, so that
// each hand-over moves four written lines. Between two acquisitions a thread reads the clock twice and adds the latency
// to its statistics.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class mcsg_artifact {
 public:
  static description about() {
    return {.name = "mcsg-artifact",
            .summary = "acquire, add to words of four lines, release, keep statistics; some threads are guests",
            .source = "MCSg, the authors' program",
            .parameters = {{"guests", 0, 0, 1024, "threads without a queue node"},
                           // Assumed: 25 ns at 2.8 GHz. Measured elsewhere: about 16 ns (hmpcabral.com, "The fastest
                           // Linux timestamps", 2026) and 39 ns with a conversion (Jane Street's Core 112.17).
                           {"clock", 70, 0, 100000, "cycles of a clock read, on a simulated machine"}},
            .where = placement::compact,
            .some = "guests",
            .others = "regulars"};
  }
  static bool is_one_of_some(W& w, unsigned thread) { return thread >= first_guest(w); }

  explicit mcsg_artifact(W& w)
      : lock_(w.make_lock()),
        first_guest_(first_guest(w)),
        clock_(static_cast<std::uint32_t>(w.parameter("clock"))),
        ended_(w.template make<flag>()) {
    auto& lines = w.template make<std::array<line, 4>>();
    for_guests_ = {&lines[0].words[0], &lines[1].words[0], &lines[2].words[0], &lines[3].words[0]};
    for_regulars_ = {&lines[0].words[1], &lines[1].words[0], &lines[2].words[0], &lines[3].words[0]};
    for (unsigned i = 0; i < w.threads(); i++) statistics_.push_back(&w.template make<statistics>());
  }

  void operator()(typename W::thread& t) {
    const bool guest = t.index() >= first_guest_;
    ended_.load(std::memory_order_relaxed);
    const std::uint64_t began = read_clock(t);
    if (guest)
      lock_.lock_as_guest();
    else
      lock_.lock();
    t.increment(guest ? for_guests_ : for_regulars_);
    lock_.unlock();
    statistics_[t.index()]->add(read_clock(t) - began);
    t.count();
    t.overhead(4, 8);  // as in mcsg-loop
  }

 private:
  template <class T>
  using plain = typename W::platform::template plain<T>;
  using number = plain<std::uint64_t>;
  using flag = typename W::platform::template atomic<std::uint32_t>;
  using four = std::array<number*, 4>;

  struct alignas(64) line {
    number words[8];
  };

  /// A thread's latencies: their sum, the sum of their squares in 128 bits, and a histogram.
  struct statistics {
    static constexpr std::size_t buckets = 2048;
    static constexpr std::uint64_t bucket_ns = 1000;  // assumed

    number sum, squares_low, squares_high;
    alignas(64) number histogram[buckets];

    void add(std::uint64_t ns) {
      sum.set(sum.get() + ns);
      const std::uint64_t low = squares_low.get() + ns * ns;  // ns² has 64 bits up to 4 s
      squares_high.set(squares_high.get() + (low < ns * ns ? 1 : 0));
      squares_low.set(low);
      number& bucket = histogram[std::min<std::size_t>(ns / bucket_ns, buckets - 1)];
      bucket.set(bucket.get() + 1);
    }
  };

  static unsigned first_guest(W& w) { return w.threads() - static_cast<unsigned>(w.parameter("guests")); }

  std::uint64_t read_clock(typename W::thread& t) const {
    t.overhead(clock_, 1);
    return W::platform::now();
  }

  typename W::lock lock_;
  unsigned first_guest_;
  std::uint32_t clock_;
  flag& ended_;
  four for_guests_{}, for_regulars_{};
  std::vector<statistics*> statistics_;
};

}  // namespace usher::workloads
