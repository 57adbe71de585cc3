// One run of a simulated machine. Deterministic: the machine and the seed determine the run.
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
#include <string>
#include <utility>
#include <vector>

#include "sim/access.hpp"
#include "sim/arena.hpp"
#include "sim/cache.hpp"
#include "sim/engine.hpp"
#include "sim/machine.hpp"
#include "sim/pipelines.hpp"
#include "sim/random.hpp"
#include "sim/scheduler.hpp"
#include "sim/thread.hpp"
#include "sim/work.hpp"

namespace usher::sim {

class trace;

class simulation final : private engine::handler {
 public:
  simulation(machine m, std::uint64_t seed);
  ~simulation();
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;

  /// The run that the calling fiber belongs to.
  static simulation& current() { return *current_; }

  arena& shared() { return arena_; }
  const machine& on() const { return machine_; }

  /// Adds a thread that begins on this CPU at about the time `begin`. An urgent thread, once woken, preempts another
  /// one that is not. A thread with a `begin` other than 0 is scheduled as a woken one: on an idle CPU if its own is
  /// busy. Throws bad_machine if there is no such CPU, or if it has a thread and the machine has no scheduler.
  void add_thread(unsigned cpu, std::function<void()> body, bool urgent = false, cycles begin = 0);

  /// Calls the function at that time, at no cost. Only before run().
  void at(cycles time, std::function<void()> call) { engine_.at(time, std::move(call)); }

  /// Sets the trace that each step is reported to; null: none.
  void set_trace(trace* t);
  trace* traced() const { return trace_; }
  /// The present action of each thread, in words.
  std::vector<std::string> what_threads_do() const;

  /// Runs until all threads have ended. Throws deadlock, and the exceptions of threads.
  void run();

  // ---- by the running thread ----

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

  /// The caller then reads the word. True: the value is forwarded() instead, from the thread's own store buffer or from
  /// its last compare-and-swap, which failed.
  bool load(const void* word, unsigned size) { return access_.load(word, size); }
  std::uint64_t forwarded() const { return engine_.me().forwarded; }
  /// True: the store is in the store buffer, and the simulation writes the word later. False: the caller writes the
  /// word now.
  bool store(void* word, std::uint64_t value, unsigned size) { return access_.store(word, value, size); }
  /// A read-modify-write: the caller then reads and writes the word.
  void modify(const void* word, unsigned size) { access_.modify(word, size); }
  /// The same for a compare-and-swap. One that is retried at once after a failure hits, because the core still has the
  /// line.
  void compare(const void* word, unsigned size) { access_.compare(word, size); }
  /// The compare-and-swap failed because it found that value.
  void failed(const void* word, std::uint64_t value) { access_.failed(word, value); }

  /// Spins until the condition holds (true) or the limit is over (false). 0: no limit.
  bool spin(const condition& c, cycles limit) { return access_.spin(c, limit); }

  /// Sleeps if the condition holds, until a wake-up or the limit. 0: no limit.
  void sleep(const condition& c, std::uint32_t mask, cycles limit) { scheduler_.sleep(c, mask, limit); }
  void wake(const void* key, std::uint32_t mask, int most) { scheduler_.wake(key, mask, most); }
  /// Sleeps for n cycles; no wake-up ends this.
  void nap(cycles n) { scheduler_.nap(n); }
  void yield() { scheduler_.yield(); }

  /// The thread stores to lines that no other core has, such as its stack: a function call, work of the program.
  void stores_privately() { engine_.me().stores.hit_since = true; }
  /// To be called before the memory becomes another object: buffered stores to it are written first, in program order.
  void reuse(const void* begin, std::size_t bytes) { access_.reuse(begin, bytes); }

  // ---- counts ----

  struct counts {
    std::uint64_t events = 0, fiber_switches = 0, polls = 0;
    std::uint64_t voluntary = 0, involuntary = 0, migrations = 0;
    /// Lines fetched for buffered stores; of those, lines lost before the store was written.
    std::uint64_t fetched_ahead = 0, lost_ahead = 0;
    /// Time in which threads on a CPU could not compute because other hardware threads had the pipelines.
    cycles without_pipeline = 0;
  };
  counts counted() const;
  const caches::counts& cache_counts() const { return work_.cache_counts(); }
  /// The sum of the times that threads had CPUs. May be called by a function given to at().
  cycles cpu_time(cycles now) const { return scheduler_.cpu_time(now); }

 private:
  void happens(const event& e) override;
  void ended(simulated_thread& t) override { scheduler_.end(t); }
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
