#include "lab/sim/work.hpp"

#include <algorithm>

namespace usher::sim {

void work::compute(cycles n) {
  simulated_thread& t = engine_.me();
  // A thread that only computes must not run far ahead of the others, because it may be preempted.
  constexpr cycles far = 20000;
  if (machine_.os && t.now - t.synced > far) engine_.sync();
  const cycles slowed = pipelines_.slowed(t.core, n);
  if (slowed > n) without_pipeline_ += slowed - n;
  t.now += slowed;
}

void work::load(const caches::block& b, std::uint64_t offset) {
  engine_.sync();
  const caches::cost c = caches_.load(b, offset, engine_.me().cpu, engine_.me().now);
  compute(c.busy);
  engine_.me().now += c.stall;
}

void work::load_at_random(const caches::block& b, std::uint64_t n) {
  constexpr std::uint64_t at_once = 100;  // so that loads of other threads come between
  for (; n != 0; n -= std::min(n, at_once)) {
    engine_.sync();
    const caches::cost c =
        caches_.load_at_random(b, std::min(n, at_once), engine_.me().cpu, engine_.me().now, engine_.me().chance);
    compute(c.busy);
    engine_.me().now += c.stall;
  }
}

}  // namespace usher::sim
