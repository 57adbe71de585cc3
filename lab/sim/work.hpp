// The work of a program: computing, and loads from large arrays that are only read. cache.hpp says how long such a load
// takes.
#pragma once

#include <cstdint>

#include "lab/sim/cache.hpp"
#include "lab/sim/engine.hpp"
#include "lab/sim/machine.hpp"
#include "lab/sim/pipelines.hpp"

namespace usher::sim {

class work {
 public:
  work(const machine& m, engine& e, const pipelines& p) : machine_(m), engine_(e), pipelines_(p), caches_(m) {}

  caches::block make_block(std::uint64_t bytes, std::uint64_t page) { return caches_.make_block(bytes, page); }

  // ---- called by the running thread ----

  /// Computes for n cycles, longer if other hardware threads of the core are busy.
  void compute(cycles n);
  void load(const caches::block& b, std::uint64_t offset);
  void load_at_random(const caches::block& b, std::uint64_t n);

  const caches::counts& cache_counts() const { return caches_.counted(); }
  /// Time in which threads on a CPU could not compute because other hardware threads had the pipelines.
  cycles without_pipeline() const { return without_pipeline_; }

 private:
  const machine& machine_;
  engine& engine_;
  const pipelines& pipelines_;
  caches caches_;
  cycles without_pipeline_ = 0;
};

}  // namespace usher::sim
