// The operations of simulated threads on shared words: the time of each operation, the store buffer, and spinning on a
// word. coherence.hpp computes the latency of an access to a line.
//
// A spinning thread causes no events while its word is unchanged: it is registered as a watcher of the line, and loads
// the word again when the line is written.
//
// A thread calls a function of this class before each operation. The function first lets earlier events happen. Then
// the caller reads or writes the real word.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lab/sim/arena.hpp"
#include "lab/sim/coherence.hpp"
#include "lab/sim/engine.hpp"
#include "lab/sim/machine.hpp"
#include "lab/sim/pipelines.hpp"
#include "lab/sim/thread.hpp"

namespace usher::sim {

class trace;

class access {
 public:
  access(const machine& m, const arena& a, engine& e, pipelines& p)
      : machine_(m), engine_(e), pipelines_(p), coherence_(m, a) {}

  void set_trace(trace* t) { trace_ = t; }

  // ---- called by the running thread; simulation.hpp describes the functions of the same names ----

  bool load(const void* word, unsigned size);
  bool store(void* word, std::uint64_t value, unsigned size);
  void modify(const void* word, unsigned size);
  void compare(const void* word, unsigned size);
  void failed(const void* word, std::uint64_t value);
  void load_to_store(std::span<const void* const> words, unsigned size);
  bool spin(const condition& c, cycles limit);
  void reuse(const void* begin, std::size_t bytes);
  /// Waits until all stores of the thread are written.
  void drain() {
    simulated_thread& t = engine_.me();
    if (t.stores.pending()) wait_for_stores(t.stores.end);
    t.now = std::max(t.now, t.stores.done);
  }

  // ---- at events ----

  /// Handles the event `commit` of the thread's store with this number.
  void commit(simulated_thread& t, std::uint32_t number, cycles at);
  /// Loads the word of a spinning thread again.
  void poll(simulated_thread& t, cycles at);
  /// Ends the spinning of a thread whose time limit is over.
  void give_up(simulated_thread& t, cycles at);
  /// Removes a spinning thread that loses its CPU from the watchers of the word's line.
  void stop_watching(simulated_thread& t);

  struct counts {
    std::uint64_t accesses = 0, polls = 0;
    std::uint64_t writes = 0;  ///< stores and atomic operations that read and write
    std::uint64_t fetched_ahead = 0, lost_ahead = 0;
  };
  const counts& counted() const { return counts_; }

 private:
  struct journey {
    cycles there;  ///< to the cache or home that decides the order of accesses to the line
    cycles late;   ///< random delay of the answer
  };
  journey travel(line& l, unsigned core, bool write) { return depart(coherence_.one_way(l, core, write)); }
  journey depart(cycles one_way) {
    if (machine_.ordered_by_arrival) [[likely]]
      return {one_way, 0};
    return by_departure(one_way);
  }
  journey by_departure(cycles one_way);
  cycles noisy(cycles one_way);

  // the store buffer
  void wait_for_stores(std::uint32_t until);
  void make_room_for_store();
  void buffer_store(line& l, void* word, std::uint64_t value, unsigned size);
  void ask_for_ownership(simulated_thread& t, std::uint32_t number, cycles from);
  bool asks_ahead(simulated_thread& t, std::uint32_t number);
  void write_next(simulated_thread& t);
  bool forwards(const buffered_store& e, const void* word, unsigned size);

  template <bool Traced>
  bool load_as(const void* word, unsigned size);
  template <bool Traced>
  bool store_as(void* word, std::uint64_t value, unsigned size);
  template <bool Traced>
  void modify_as(const void* word, unsigned size);
  template <bool Traced>
  void commit_as(simulated_thread& t, std::uint32_t number, cycles at);
  template <bool Traced>
  void poll_as(simulated_thread& t, cycles at);

  bool was_asked_for_with_load(const simulated_thread& t, const line& l) const;
  bool keeps_for_retry(const simulated_thread& t, const void* word, const line& l) const;
  void announce(line& l, cycles visible);
  cycles period_of(const simulated_thread& t) const {
    return t.waits_for.period != 0 ? t.waits_for.period : machine_.poll_period;
  }
  void now_works(simulated_thread& t);
  void now_spins(simulated_thread& t);

  const machine& machine_;
  engine& engine_;
  pipelines& pipelines_;
  coherence coherence_;
  trace* trace_ = nullptr;
  counts counts_;
};

}  // namespace usher::sim
