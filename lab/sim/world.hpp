// The simulated machine as a benchmark program sees it: a `world` of lab/bench/programs/program.hpp.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "lab/bench/programs/program.hpp"
#include "lab/sim/meter.hpp"
#include "lab/sim/runtime.hpp"
#include "lab/sim/settling.hpp"
#include "lab/sim/simulated_lock.hpp"
#include "lab/sim/simulated_platform.hpp"
#include "lab/sim/simulation.hpp"

namespace usher::sim {

class world {
 public:
  using platform = simulated;
  using block = caches::block;

  /// A lock of the catalogue in the simulated memory, aligned to two cache lines.
  class measured_lock {
   public:
    measured_lock(const simulated_lock& table, arena& a, meter* watched_by);
    void lock() { acquire(table_->lock); }
    void lock_as_guest() { acquire(table_->lock_as_guest); }
    void unlock();
    const void* state() const { return state_; }
    void be_named(arena& a, unsigned number) const;

   private:
    void acquire(void (*how)(void* state));
    void acquire_traced(void (*how)(void* state));

    const simulated_lock* table_;
    void* state_;
    meter* meter_;
    cycles since_ = 0;  ///< admission of the owner; only with a trace
  };
  using lock = measured_lock;

  /// Objects at a distance from each other. Each object is on a cache line of its own, which moves between cores. The
  /// cache capacity is used by the lines of the whole block, at the distances that the program asked for.
  template <class T>
  struct spaced {
    struct alignas(64) apart {
      T value;
    };
    apart* first = nullptr;
    block occupies;
    T& operator[](std::size_t i) const { return first[i].value; }
  };

  /// A std::mt19937 in simulated shared memory, laid out as in libstdc++: 624 words of 8 bytes and an index.
  class generator {
   public:
    void step(std::uint64_t n);

   private:
    static constexpr unsigned words = 624, words_a_line = 8;
    simulated_plain<std::uint64_t> state_[words];
    simulated_plain<std::uint64_t> index_;
  };

  class thread {
   public:
    thread(world& w, unsigned index) : world_(w), index_(index) {}
    unsigned index() const { return index_; }
    bool over() const { return world_.simulation_.now() >= world_.end_; }
    void count() {
      const cycles now = world_.simulation_.now();
      if (now <= world_.begin_ || now > world_.end_) return;
      world_.operations_[index_]++;
      world_.settling_.note(now - world_.begin_);
    }
    std::uint32_t uniform(std::uint32_t below) { return below == 0 ? 0 : world_.simulation_.chance().below(below); }
    void steps(std::uint64_t n) { world_.simulation_.compute(n * world_.simulation_.on().step / 1024); }
    void steps(generator& g, std::uint64_t n) { g.step(n); }
    void delay(std::uint64_t n) { world_.simulation_.compute(n); }
    void overhead(std::uint32_t at_least, std::uint32_t spread) {
      world_.simulation_.compute(at_least + world_.simulation_.chance().below(spread));
    }
    void increment(std::span<simulated_plain<std::uint64_t>* const> words);
    void fetch(const block& b, std::uint64_t offset) { world_.simulation_.load(b, offset); }
    void fetch_at_random(const block& b, std::uint64_t n) { world_.simulation_.load_at_random(b, n); }
    template <class T>
    void touch(const spaced<T>& s, std::uint64_t offset) {
      fetch(s.occupies, offset);
    }
    template <class T>
    void clear(const spaced<T>& s, std::uint64_t offset, std::uint64_t n) {
      const std::uint64_t line = world_.simulation_.on().caches->line, end = offset + n;
      for (; offset < end; offset = (offset / line + 1) * line) fetch(s.occupies, offset);
    }

   private:
    world& world_;
    unsigned index_;
  };

  struct times {
    std::uint64_t warm_up_ns, run_ns;  ///< before the measured time; the measured time
  };

  /// `others`: threads of other processes.
  world(machine m, std::uint64_t seed, unsigned threads, unsigned others, const simulated_lock& table,
        std::map<std::string, long> parameters, times t, bool watch);

  unsigned threads() const { return unsigned(operations_.size()); }
  long parameter(const char* name) const { return parameters_.at(name); }
  bool admits_guests() const { return table_.lock_as_guest != nullptr; }
  lock make_lock();
  block make_block(std::uint64_t bytes, std::uint64_t page) { return simulation_.make_block(bytes, page); }
  template <class T>
  T& make() {
    return *make_array<T>(1);
  }
  template <class T>
  T* make_array(std::size_t n) {
    T* const made = simulation_.shared().make_array<T>(n, sector_bytes);
    simulation_.shared().name(made, n * sizeof(T), arena::plus("object " + std::to_string(++objects_)));
    return made;
  }

  template <class T>
  spaced<T> make_spaced(std::size_t n, std::size_t distance, std::uint64_t page) {
    return {make_array<typename spaced<T>::apart>(n), make_block((n * distance + page - 1) / page * page, page)};
  }

  // ---- for run_point() ----

  simulation& sim() { return simulation_; }
  const simulation& sim() const { return simulation_; }
  meter& watched() { return meter_; }
  runtime& shared_runtime() { return runtime_; }
  const std::vector<std::uint64_t>& operations() const { return operations_; }
  const settling& counted() const { return settling_; }
  cycles begin() const { return begin_; }
  cycles end() const { return end_; }

  static constexpr std::size_t sector_bytes = 128;

 private:
  const simulated_lock& table_;
  std::map<std::string, long> parameters_;
  simulation simulation_;
  runtime runtime_;
  cycles begin_, end_;
  std::vector<std::uint64_t> operations_;
  settling settling_;
  meter meter_;
  bool watch_;
  unsigned locks_ = 0, objects_ = 0;
};

}  // namespace usher::sim
