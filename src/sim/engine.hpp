// One run of a simulated machine: its threads, their clocks, the scheduler. Deterministic: the machine and the seed
// determine the run.
//
// Each simulated thread is a fiber with a clock of its own. A thread continues without a switch while its clock is the
// earliest; else it queues an event, and the thread of the earliest event continues. So operations on shared words
// happen in the order of simulated time, each on the real object; coherence.hpp says how long each takes.
//
// A spinning thread causes no events: it is registered as a watcher of the line, and loads the word again when the line
// is written.
//
// With a section [scheduler] in the machine's file, threads share CPUs: time slices, run queues, sleeping, wake-ups
// with a random latency, migration to idle CPUs. Without it, each thread has a CPU of its own and may not sleep.
#pragma once

#include <algorithm>
#include <array>
#include <boost/context/fiber.hpp>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/arena.hpp"
#include "sim/cache.hpp"
#include "sim/coherence.hpp"
#include "sim/event_queue.hpp"
#include "sim/machine.hpp"
#include "sim/random.hpp"

namespace usher::sim {

class trace;

/// No thread can continue. The text names the word for which each thread waits.
struct deadlock : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A condition on a word that a spinning or sleeping thread waits for.
struct condition {
  bool (*holds)(void* context, const void* word);
  void* context;
  const void* word;
  unsigned size;  ///< of the word
};

class simulation {
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
  void at(cycles time, std::function<void()> call);

  /// Sets the trace that each step is reported to; null: none.
  void set_trace(trace* t) { trace_ = t; }
  trace* traced() const { return trace_; }
  /// The present action of each thread, in words.
  std::vector<std::string> what_threads_do() const;

  /// Runs until all threads have ended. Throws deadlock, and the exceptions of threads.
  void run();

  // ---- by the running thread ----

  cycles now() const { return me_->now; }
  unsigned thread() const { return me_->id; }
  unsigned threads() const { return unsigned(threads_.size()); }
  unsigned cpu() const { return me_->cpu; }
  unsigned socket() const { return me_->socket; }
  unsigned node() const { return machine_.node_of(me_->core); }
  random& chance() { return me_->chance; }

  /// Computes for n cycles, longer if other hardware threads of the core are busy.
  void compute(cycles n);

  /// Makes a large array that is only read.
  caches::block make_block(std::uint64_t bytes, std::uint64_t page) { return caches_.make_block(bytes, page); }
  void load(const caches::block& b, std::uint64_t offset);
  void load_at_random(const caches::block& b, std::uint64_t n);

  /// The caller then reads the word. True: the value is forwarded() instead, from the thread's own store buffer or from
  /// its last compare-and-swap, which failed.
  bool load(const void* word, unsigned size);
  std::uint64_t forwarded() const { return me_->forwarded; }
  /// True: the store is in the store buffer, and the simulation writes the word later. False: the caller writes the
  /// word now.
  bool store(void* word, std::uint64_t value, unsigned size);
  /// A read-modify-write: the caller then reads and writes the word.
  void modify(const void* word, unsigned size);
  /// The same for a compare-and-swap. One that is retried at once after a failure hits, because the core still has the
  /// line.
  void compare(const void* word, unsigned size);
  /// The compare-and-swap failed because it found that value.
  void failed(const void* word, std::uint64_t value);

  /// Spins until the condition holds (true) or the limit is over (false). 0: no limit.
  bool spin(const condition& c, cycles limit);

  /// Sleeps if the condition holds, until a wake-up or the limit. 0: no limit.
  void sleep(const condition& c, std::uint32_t mask, cycles limit);
  void wake(const void* key, std::uint32_t mask, int most);
  /// Sleeps for n cycles; no wake-up ends this.
  void nap(cycles n);
  void yield();

  /// The thread stores to lines that no other core has, such as its stack: a function call, work of the program.
  void stores_privately() { me_->stores.hit_since = true; }
  /// To be called before the memory becomes another object: buffered stores to it are written first, in program order.
  void reuse(const void* begin, std::size_t bytes);

  // ---- counts ----

  struct counts {
    std::uint64_t events = 0, fiber_switches = 0, looks = 0;
    std::uint64_t voluntary = 0, involuntary = 0, migrations = 0;
    /// Lines fetched for buffered stores; of those, lines lost before the store was written.
    std::uint64_t fetched_ahead = 0, lost_ahead = 0;
    /// Time in which threads on a CPU could not compute because other hardware threads had the pipelines.
    cycles without_pipeline = 0;
  };
  const counts& counted() const { return counts_; }
  const caches::counts& cache_counts() const { return caches_.counted(); }
  /// The sum of the times that threads had CPUs. May be called by a function given to at().
  cycles cpu_time(cycles now) const;

 private:
  using fiber = boost::context::fiber;
  enum class activity : std::uint8_t { works, spins, sleeps, ended };

  /// A retired store in the store buffer.
  struct buffered_store {
    enum class step : std::uint8_t {
      waits,    ///< for older stores; ownership is not requested yet
      asks,     ///< the request is under way to the line's owner or home
      owns,     ///< the core owned the line at `done`; it may have lost it since
      written,  ///< visible to other cores
    } at = step::written;
    std::uint8_t size = 0;
    bool after_hit = false;  ///< a store that hit came between this one and the previous entry
    unsigned core = 0;       ///< the core whose buffer has the store: the thread may migrate meanwhile
    void* word = nullptr;
    std::uint64_t value = 0;
    cycles begun = 0, done = 0;
  };

  /// The store buffer: stores are written in program order. A written store is kept until the thread's clock has
  /// reached its time, so that it takes room and is forwarded until then.
  struct store_queue {
    std::uint32_t first = 0, end = 0;  ///< the kept stores are numbered first to end - 1
    std::uint32_t next = 0;            ///< the next store to be written; `end`: all are written
    bool hit_since = false;            ///< a store has hit since the youngest one was buffered
    bool awaited = false;              ///< the thread waits …
    std::uint32_t awaited_until = 0;   ///< … until all stores before this number are written
    cycles done = 0;                   ///< when the latest written store was written
    std::array<buffered_store, most_store_entries> entries{};

    buffered_store& at(std::uint32_t n) { return entries[n % most_store_entries]; }
    bool pending() const { return next != end; }
    std::uint32_t kept() const { return end - first; }
    void forget_until(cycles now) {
      while (first != next && at(first).done <= now) first++;
    }
  };

  /// After a failed compare-and-swap, the core keeps the line for a retry. The state ends with any other access of the
  /// thread than a load of that word, a retry, or a store to another word: such an access could return a value that is
  /// newer than the one found.
  struct retry {
    const void* word = nullptr;
    std::uint64_t found = 0;
    cycles until = 0;
    unsigned left = 0;  ///< retries that may still hit
  };

  struct simulated_thread {
    simulated_thread(unsigned i, std::uint64_t seed) : id(i), chance(seed) {}

    unsigned id, cpu = 0, core = 0, socket = 0;
    activity does = activity::works;
    bool on_cpu = false;
    bool timed_out = false;
    bool urgent = false;
    std::uint32_t epoch = 0;  ///< events of an earlier epoch are void
    cycles now = 0;
    cycles synced = 0;  ///< when the thread last let earlier events happen
    cycles owed = 0;    ///< preempted in the middle of an operation: the operation's remaining time
    cycles on_cpu_since = 0;
    cycles deadline = 0;
    condition waits_for{};
    line* watched = nullptr;
    cycles last_look = 0;
    std::uint32_t mask = 0;  ///< of wake-ups that end its sleep
    store_queue stores;
    retry again;
    const line* fetched = nullptr;  ///< the line of its last load that missed
    cycles fetched_at = 0;
    std::uint64_t forwarded = 0;
    random chance;
    std::function<void()> body;
    fiber context;
  };

  struct processor {
    simulated_thread* runs = nullptr;
    std::deque<simulated_thread*> queue;
    bool slice_ends = false;  ///< the event for the slice's end is queued
    cycles slice_end = 0;
    cycles idle_since = 0;
  };

  // events
  void push(cycles t, event_kind k, const simulated_thread& of);
  event event_of(cycles t, event_kind k, const simulated_thread& of) {
    return {t, std::uint32_t(random_.bits()), of.epoch, of.id, k};
  }
  simulated_thread* next() {
    event e;
    return events_.pop(e) ? next(e) : nullptr;
  }
  simulated_thread* next(event e);
  /// Switches to the thread of the next event. The running thread has an event queued, or another thread will queue one
  /// for it.
  void give_way() { give_way_to(next()); }
  void give_way_to(simulated_thread* after);
  void sync() {
    me_->synced = me_->now;
    if (events_.empty() || me_->now < events_.first_time()) return;
    give_way_to(next(events_.exchange(event_of(me_->now, event_kind::resume, *me_))));
  }
  fiber end_of_thread();

  // memory
  void drain() {
    if (me_->stores.pending()) wait_for_stores(me_->stores.end);
    me_->now = std::max(me_->now, me_->stores.done);
  }
  void wait_for_stores(std::uint32_t until);
  void make_room_for_store();
  void keep_written(simulated_thread& t, void* word, std::uint64_t value, unsigned size, cycles done);
  void buffer_store(line& l, void* word, std::uint64_t value, unsigned size);
  void commit(simulated_thread& t, std::uint32_t number, cycles at);
  void ask_for_ownership(simulated_thread& t, std::uint32_t number, cycles from);
  bool asks_ahead(simulated_thread& t, std::uint32_t number);
  void write_next(simulated_thread& t);
  bool forwards(const buffered_store& e, const void* word, unsigned size);
  const buffered_store* buffered(simulated_thread& t, const void* word, unsigned size);
  void announce(line& l, cycles visible);
  void look(simulated_thread& t, cycles at);
  template <bool Traced>
  bool load_as(const void* word, unsigned size);
  template <bool Traced>
  bool store_as(void* word, std::uint64_t value, unsigned size);
  template <bool Traced>
  void modify_as(const void* word, unsigned size);
  template <bool Traced>
  void commit_as(simulated_thread& t, std::uint32_t number, cycles at);
  template <bool Traced>
  void look_as(simulated_thread& t, cycles at);
  void stop_watching(simulated_thread& t);
  cycles noisy(cycles one_way);
  /// The time that n cycles of work take while other hardware threads of the core use its pipelines.
  cycles paced(const simulated_thread& t, cycles n) const {
    return n * instruction_paces_[working_[t.core]][spinning_[t.core]] / 1024;
  }
  /// The same for n cycles of a spinning thread.
  cycles paced_spinning(const simulated_thread& t, cycles n) const {
    return n * instruction_paces_[working_[t.core] + 1][spinning_[t.core] - 1] / 1024;
  }
  void find_paces();
  bool was_asked_for_with_load(const simulated_thread& t, const line& l) const;
  bool keeps_for_retry(const simulated_thread& t, const void* word, const line& l) const;
  struct journey {
    cycles there;  ///< to the cache or home that orders the access
    cycles late;   ///< random delay of the answer
  };
  journey travel(line& l, unsigned core, bool write) {
    const cycles one_way = coherence_.one_way(l, core, write);
    if (machine_.ordered_by_arrival) [[likely]]
      return {one_way, 0};
    return by_departure(one_way);
  }
  journey by_departure(cycles one_way);
  void now_works(simulated_thread& t);
  void now_spins(simulated_thread& t);

  // scheduler
  void occupy(const simulated_thread& t, int by);
  void start(processor& p, simulated_thread& t, cycles at);
  void stop(simulated_thread& t, cycles at);
  void release_cpu(simulated_thread& t, cycles at);
  void make_ready(simulated_thread& t, cycles at);
  void move(simulated_thread& t, unsigned cpu);
  void end_slice(unsigned cpu, cycles at);
  void preempt(processor& p, cycles at);
  void watch_slice(unsigned cpu);
  processor* idle_for(const simulated_thread& t);
  cycles to_awake(const simulated_thread& t, cycles now);
  std::string what_is_waited_for() const;

  static inline simulation* current_ = nullptr;

  machine machine_;
  arena arena_;
  coherence coherence_;
  caches caches_;
  random random_;
  event_queue events_;
  std::vector<std::unique_ptr<simulated_thread>> threads_;
  std::vector<processor> cpus_;
  std::vector<unsigned> working_, spinning_;  // how many hardware threads of each core do so
  static constexpr unsigned most_hardware_threads = 16;
  // [working][spinning]: slow-down, 1/1024.
  std::array<std::array<std::uint32_t, most_hardware_threads + 2>, most_hardware_threads + 2> paces_{};
  decltype(paces_) instruction_paces_{};
  std::vector<simulated_thread*> sleepers_;  // woken in this order
  unsigned idle_cpus_ = 0, living_ = 0;
  simulated_thread* me_ = nullptr;
  fiber main_;
  std::exception_ptr failure_;
  counts counts_;
  trace* trace_ = nullptr;
  cycles cpu_time_ = 0;
  std::vector<std::function<void()>> calls_;
};

}  // namespace usher::sim
