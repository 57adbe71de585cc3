// One run of a simulated machine: its threads, its clock, its scheduler. Deterministic: everything follows from the machine
// and the seed.
//
// Each simulated thread is a fiber with a clock of its own. A thread runs on without a switch while its clock is the earliest;
// else it queues an event and another goes on. So operations on shared words happen in the order of simulated time, each on
// the real object, with a time that the memory model says.
//
// A spinning thread costs nothing: it is noted at the line that it watches, and looks again when that is written.
//
// With a scheduler section in the machine, threads share CPUs: time slices, run queues, sleeping, wake-ups that take a
// random while, migration to idle CPUs. Without, each has a CPU of its own and may not sleep.
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

/// Nobody can go on. The text says who waits for what.
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

  /// Adds a thread that begins on this CPU, about then; an urgent one, once woken, does not wait for the end of another's slice. One
  /// that begins later is as one that is woken: it takes an idle CPU if its own is not. Throws bad_machine where the machine has no room
  /// for it.
  void add_thread(unsigned cpu, std::function<void()> body, bool urgent = false, cycles begin = 0);

  /// Calls at that time, without cost. May be called before run() only.
  void at(cycles time, std::function<void()> call);

  /// Somebody who wants to know each step; null: nobody.
  void be_traced_by(trace* t) { trace_ = t; }
  trace* traced() const { return trace_; }
  /// One text a thread.
  std::vector<std::string> what_threads_do() const;

  /// Until all threads have ended. Throws deadlock, and what a thread throws.
  void run();

  // ---- by the running thread ----

  cycles now() const { return me_->now; }
  unsigned thread() const { return me_->id; }
  unsigned threads() const { return unsigned(threads_.size()); }
  unsigned cpu() const { return me_->cpu; }
  unsigned socket() const { return me_->socket; }
  unsigned node() const { return machine_.node_of(me_->core); }
  random& chance() { return me_->chance; }

  /// Computes. Other hardware threads of the core slow it down.
  void compute(cycles n);

  /// Large arrays that are only read.
  caches::block make_block(std::uint64_t bytes, std::uint64_t page) { return caches_.make_block(bytes, page); }
  void load(const caches::block& b, std::uint64_t offset);
  void load_at_random(const caches::block& b, std::uint64_t n);

  /// The value is then read by the caller. True: it is forwarded(), the one that waits in the thread's own store buffer, or that
  /// a compare-and-swap has just found.
  bool load(const void* word, unsigned size);
  std::uint64_t forwarded() const { return me_->forwarded; }
  /// True: buffered, the value will be written later. Else it is for the caller to write it now.
  bool store(void* word, std::uint64_t value, unsigned size);
  /// The caller then reads and writes.
  void modify(const void* word, unsigned size);
  /// The same for a compare-and-swap. Hits where it is the next try of one that failed; then the line is still here.
  void compare(const void* word, unsigned size);
  /// It failed since it found that value.
  void failed(const void* word, std::uint64_t value);

  /// Spins until the condition holds (true), or for about so long. 0: without limit.
  bool spin(const condition& c, cycles limit);

  /// Sleeps if the condition holds, until somebody wakes it or so long. 0: without limit.
  void sleep(const condition& c, std::uint32_t mask, cycles limit);
  void wake(const void* key, std::uint32_t mask, int most);
  /// Sleeps for so long.
  void nap(cycles n);
  void yield();

  /// Stores to its stack or to other lines that nobody else has: a call, work of the program.
  void stores_privately() { me_->stores.hit_since = true; }
  /// Before that memory becomes another object: stores to it that wait are written first, as the program's order wants.
  void reuse(const void* begin, std::size_t bytes);

  // ---- what happened ----

  struct counts {
    std::uint64_t events = 0, fiber_switches = 0, looks = 0;
    std::uint64_t voluntary = 0, involuntary = 0, migrations = 0;
    std::uint64_t fetched_ahead = 0,
                  lost_ahead = 0;  ///< lines for stores that wait; of those, taken before the store's turn
    cycles without_pipeline = 0;   ///< threads were ready and on a CPU, and others had the core's pipelines
  };
  const counts& counted() const { return counts_; }
  const caches::counts& cache_counts() const { return caches_.counted(); }
  /// How long threads have had CPUs, all together. May be asked in a call of at().
  cycles cpu_time(cycles now) const;

 private:
  using fiber = boost::context::fiber;
  enum class activity : std::uint8_t { works, spins, sleeps, ended };

  /// A store that has retired and waits to be written.
  struct buffered_store {
    enum class step : std::uint8_t {
      waits,    ///< for older ones; ownership is not asked for yet
      asks,     ///< the request is on its way to the line's owner or home
      owns,     ///< the core had the line at `done`, and may have lost it again
      written,  ///< others see it
    } at = step::written;
    std::uint8_t size = 0;
    bool after_hit = false;  ///< a store that hit stands between it and the one before it
    unsigned core = 0;       ///< whose buffer it is in: the thread may move
    void* word = nullptr;
    std::uint64_t value = 0;
    cycles begun = 0, done = 0;
  };

  /// Stores are written in the order of the program. Those that are written stay as long as their time has not come.
  struct store_queue {
    std::uint32_t first = 0, end = 0;  ///< of those that are kept
    std::uint32_t next = 0;            ///< to be written; `end`: all are
    bool hit_since = false;            ///< a store has hit since the youngest
    bool awaited = false;              ///< the thread can't go on before …
    std::uint32_t awaited_until = 0;   ///< … all older than this one are written
    cycles done = 0;                   ///< when the last that is written was
    std::array<buffered_store, most_store_entries> entries{};

    buffered_store& at(std::uint32_t n) { return entries[n % most_store_entries]; }
    bool pending() const { return next != end; }
    std::uint32_t kept() const { return end - first; }
    void forget_until(cycles now) {
      while (first != next && at(first).done <= now) first++;
    }
  };

  /// After a compare-and-swap that failed, until the thread does something else: anything but load that word, try again, or
  /// store to others. What it could learn otherwise may be newer than what was found.
  struct retry {
    const void* word = nullptr;
    std::uint64_t found = 0;
    cycles until = 0;
    unsigned left = 0;  ///< how many more may follow
  };

  struct simulated_thread {
    simulated_thread(unsigned i, std::uint64_t seed) : id(i), chance(seed) {}

    unsigned id, cpu = 0, core = 0, socket = 0;
    activity does = activity::works;
    bool on_cpu = false;
    bool timed_out = false;
    bool urgent = false;
    std::uint32_t epoch = 0;  ///< events of an earlier one are void
    cycles now = 0;
    cycles synced = 0;  ///< when it last let others come first
    cycles owed = 0;    ///< taken from its CPU in the middle of something that takes so much longer
    cycles on_cpu_since = 0;
    cycles deadline = 0;
    condition waits_for{};
    line* watched = nullptr;
    cycles last_look = 0;
    std::uint32_t mask = 0;  ///< of a sleeper
    store_queue stores;
    retry again;
    const line* fetched = nullptr;  ///< by its last load that missed
    cycles fetched_at = 0;
    std::uint64_t forwarded = 0;
    random chance;
    std::function<void()> body;
    fiber context;
  };

  struct processor {
    simulated_thread* runs = nullptr;
    std::deque<simulated_thread*> queue;
    bool slice_ends = false;  ///< the event is on its way
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
  /// The running thread gives way: it has an event under way, or somebody will give it one.
  void give_way() { give_way_to(next()); }
  void give_way_to(simulated_thread* after);
  void sync() {
    me_->synced = me_->now;
    if (events_.empty() || me_->now < events_.first_time()) return;
    give_way_to(next(events_.exchange(event_of(me_->now, event_kind::resume, *me_))));
  }
  fiber end_of_thread();
  void switch_to_main();

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
  /// What so many cycles of a core take while other hardware threads want its pipelines, too.
  cycles paced(const simulated_thread& t, cycles n) const {
    return n * instruction_paces_[working_[t.core]][spinning_[t.core]] / 1024;
  }
  /// The same for one that spins.
  cycles paced_spinning(const simulated_thread& t, cycles n) const {
    return n * instruction_paces_[working_[t.core] + 1][spinning_[t.core] - 1] / 1024;
  }
  void find_paces();
  bool was_asked_for_with_load(const simulated_thread& t, const line& l) const;
  bool keeps_for_retry(const simulated_thread& t, const void* word, const line& l) const;
  struct journey {
    cycles there;  ///< to who decides when the access is served
    cycles late;   ///< by how much the answer is
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
  [[noreturn]] void complain();
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
  std::vector<unsigned> working_, spinning_;  // hardware threads of each core
  static constexpr unsigned most_hardware_threads = 16;
  std::array<std::array<std::uint32_t, most_hardware_threads + 2>, most_hardware_threads + 2>
      paces_{};  // by those two, in 1/1024
  decltype(paces_) instruction_paces_{};
  std::vector<simulated_thread*> sleepers_;  // first come, first woken
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
