// One run of a simulated machine. The machine, the program and the seed determine it completely.
//
// This is the interface for locks, programs and tests. It passes each operation of the running thread to the part that
// executes it, and each event of the engine to the part that it belongs to:
//
//     scheduler.hpp   the hardware threads: time slices, sleeping, waking, migration
//     access.hpp      operations on shared words, the store buffer, spinning
//     work.hpp        computing, and loads from large arrays
//     pipelines.hpp   how much the hardware threads of a core slow each other
//     engine.hpp      events, fibers, clocks
//
// Each part uses only parts below it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lab/sim/access.hpp"
#include "lab/sim/arena.hpp"
#include "lab/sim/cache.hpp"
#include "lab/sim/engine.hpp"
#include "lab/sim/machine.hpp"
#include "lab/sim/pipelines.hpp"
#include "lab/sim/random.hpp"
#include "lab/sim/scheduler.hpp"
#include "lab/sim/thread.hpp"
#include "lab/sim/work.hpp"

namespace usher::sim {

class trace;

class simulation final : private engine::handler {
 public:
  simulation(machine m, std::uint64_t seed);
  ~simulation();
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;

  /// Returns the run to which the calling fiber belongs.
  static simulation& current() { return *current_; }

  arena& shared() { return arena_; }
  const machine& on() const { return machine_; }

  /// Adds a thread that begins on this CPU at about the time `begin`. An urgent thread, when woken, preempts a thread
  /// that is not urgent. If `begin` is not 0, the thread is scheduled like a woken one: on an idle CPU if its own is
  /// busy. Throws bad_machine if the machine has no such CPU, or has no scheduler and already a thread on this CPU.
  void add_thread(unsigned cpu, std::function<void()> body, bool urgent = false, cycles begin = 0);

  /// Schedules a call of the function at that simulated time. The call takes no simulated time. To be called before
  /// run().
  void at(cycles time, std::function<void()> call) { engine_.at(time, std::move(call)); }

  /// Sets the trace that each step is reported to; null: none.
  void set_trace(trace* t);
  trace* traced() const { return trace_; }
  /// Returns what each thread does at present, in words.
  std::vector<std::string> what_threads_do() const;

  /// Runs until all threads have ended. Throws deadlock, and any exception that a thread throws.
  void run();

  // ---- called by the running thread ----

  cycles now() const { return engine_.me().now; }
  unsigned thread() const { return engine_.me().id; }
  unsigned threads() const { return engine_.threads(); }
  unsigned cpu() const { return engine_.me().cpu; }
  unsigned socket() const { return engine_.me().socket; }
  unsigned node() const { return machine_.node_of(engine_.me().core); }
  random& chance() { return engine_.me().chance; }

  /// Computes for n cycles, longer if other hardware threads of the core are busy.
  void compute(cycles n) { work_.compute(n); }

  /// Makes a large array that is only read.
  caches::block make_block(std::uint64_t bytes, std::uint64_t page) { return work_.make_block(bytes, page); }
  void load(const caches::block& b, std::uint64_t offset) { work_.load(b, offset); }
  void load_at_random(const caches::block& b, std::uint64_t n) { work_.load_at_random(b, n); }

  /// Simulates a load. Returns false if the caller must read the word. Returns true if the value is forwarded(): from
  /// the thread's own store buffer, or from its last compare-and-swap, which failed.
  bool load(const void* word, unsigned size) { return access_.load(word, size); }
  std::uint64_t forwarded() const { return engine_.me().forwarded; }
  /// Simulates a store. Returns true if the store is in the store buffer, and the simulation writes the word later.
  /// Returns false if the caller must write the word now.
  bool store(void* word, std::uint64_t value, unsigned size) { return access_.store(word, value, size); }
  /// Simulates a read-modify-write. The caller then reads and writes the word.
  void modify(const void* word, unsigned size) { access_.modify(word, size); }
  /// Like modify(), for a compare-and-swap. If it follows a failed compare-and-swap at once, it hits, because the core
  /// still has the line.
  void compare(const void* word, unsigned size) { access_.compare(word, size); }
  /// Reports that the compare-and-swap failed, and the value that it found.
  void failed(const void* word, std::uint64_t value) { access_.failed(word, value); }

  /// Simulates loads of words on different lines whose misses overlap, before the thread stores to these words. The
  /// caller reads the words.
  void load_to_store(std::span<const void* const> words, unsigned size) { access_.load_to_store(words, size); }

  /// Spins until the condition holds (returns true) or the limit is over (returns false). 0: no limit.
  bool spin(const condition& c, cycles limit) { return access_.spin(c, limit); }

  /// Sleeps if the condition holds, until a wake-up or until the limit is over. 0: no limit.
  void sleep(const condition& c, std::uint32_t mask, cycles limit) { scheduler_.sleep(c, mask, limit); }
  void wake(const void* key, std::uint32_t mask, int most) { scheduler_.wake(key, mask, most); }
  /// Sleeps for n cycles; no wake-up ends this.
  void nap(cycles n) { scheduler_.nap(n); }
  void yield() { scheduler_.yield(); }

  /// Reports that the thread stores to lines that no other core has, such as its stack. Called for function calls and
  /// for work of the program.
  void stores_privately() { engine_.me().stores.hit_since = true; }
  /// Waits until the thread's buffered stores to this memory are written. To be called before the memory is reused for
  /// another object.
  void reuse(const void* begin, std::size_t bytes) { access_.reuse(begin, bytes); }

  // ---- counts ----

  struct counts {
    std::uint64_t events = 0, fiber_switches = 0, polls = 0, writes = 0;
    std::uint64_t voluntary = 0, involuntary = 0, migrations = 0;
    /// The number of lines that were fetched for buffered stores before their turn, and of those that were lost again
    /// before the store was written.
    std::uint64_t fetched_ahead = 0, lost_ahead = 0;
    /// Cycles in which threads on a CPU could not compute because other hardware threads had the pipelines.
    cycles without_pipeline = 0;
  };
  counts counted() const;
  const caches::counts& cache_counts() const { return work_.cache_counts(); }
  /// Returns the CPU time of all threads up to now, in sum. A function given to at() may call it.
  cycles cpu_time(cycles now) const { return scheduler_.cpu_time(now); }

 private:
  void happens(const event& e) override;
  void ended(simulated_thread& t) override { scheduler_.end(t); }
  bool is_stuck() const override;
  std::string what_is_waited_for() const override;

  static inline simulation* current_ = nullptr;

  machine machine_;
  arena arena_;
  pipelines pipelines_;
  engine engine_;
  work work_;
  access access_;
  scheduler scheduler_;
  trace* trace_ = nullptr;
};

}  // namespace usher::sim
