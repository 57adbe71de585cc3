// The base of the programs that run against a condition variable's waiting list. It has the queue, the mutex, the
// operations of the threads, and the checks of all scenarios (see ../queue.cpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "check/engine/checked_lock.hpp"
#include "check/engine/checked_queue.hpp"
#include "check/engine/explore.hpp"

namespace usher::check {

class queue_program;

struct queue_scenario {
  const char* name;
  queue_program* (*begin)(unsigned threads);  ///< constructs the program of an execution
  unsigned stray_wakes = 0;
  unsigned users = 0;       ///< the number of threads that use the mutex; 0: all
  bool outside = false;     ///< signals are also sent without the mutex
  bool ends = false;        ///< tokens: the last thread ends the queue's life
  bool busy = false;        ///< tokens: some threads call close() while others wait, and it must return false
  bool ranks = false;       ///< threads have priorities
  bool forked = false;      ///< tokens, in the child of a fork
  bool undoes = false;      ///< tokens: some threads join the queue and leave it again
  bool one_by_one = false;  ///< ends: each waiter is selected by a signal of its own
};

inline const checked_queue* the_queue;
inline const queue_scenario* the_scenario;

/// The program is in static memory, because relacy replaces the allocator.
template <class Program>
queue_program* begin(unsigned threads) {
  alignas(Program) static std::byte room[sizeof(Program)];
  return std::construct_at(reinterpret_cast<Program*>(room), threads);
}

// The programs, each in its own source file.
queue_program* begin_tokens(unsigned threads);
queue_program* begin_forked(unsigned threads);
queue_program* begin_ends(unsigned threads);
queue_program* begin_woken_ends(unsigned threads);
queue_program* begin_foreign_unlock(unsigned threads);
queue_program* begin_row(unsigned threads);
queue_program* begin_wakes(unsigned threads);
queue_program* begin_in_turn(unsigned threads);

class queue_program {
 public:
  virtual ~queue_program() {
    the_queue->end(queue());
    forks_in_wait = {};
  }
  queue_program(const queue_program&) = delete;
  queue_program& operator=(const queue_program&) = delete;

  virtual void thread(unsigned t) = 0;

  void after() {
    world.watch_nothing();
    check_end();
    if (!m.is_idle()) fail("the mutex is not idle at the end");
    if (!locked_for_good && !world.all_nodes_free())
      fail("a node was not given back", rl::test_result_resource_leak, place::current());
  }

 protected:
  enum role { poster, taker, victim };
  template <class T>
  using by_thread = std::array<T, execution::most_threads>;

  static constexpr unsigned the_queues_life = 0, the_mutexs_life = 1;

  /// The scenario's record of a waiter. relacy does not observe accesses to it.
  struct record {
    enum : std::uint32_t { waiting, leaving, selected, granted, handed_over };  // as in wait_queue.hpp

    void* at = nullptr;  // null if it has left
    unsigned number = 0;
    bool waits_for_ever = false, is_signalled = false;
    std::uint32_t priority = 0, state = waiting;
    bool ordered = true, listed = false, was_selected = false, is_awake = false, requeued = false, is_back = false;
    unsigned chain = 0, place = 0, place_at_mutex = 0;
    std::uint64_t requeued_since = 0;  // an upper bound

    bool is_listed() const { return at != nullptr && listed && state == waiting; }
  };

  explicit queue_program(unsigned threads);
  virtual void check_end() {}

  void* queue() { return bytes.data(); }
  append_probability chance() const { return append_probability(at_tail); }
  record& record_of(const void* w) { return records[world.slot_of_local(w)]; }

  // ---- waiting (queue_program.cpp) ----

  bool wait_for_ever() { return rl::rand(2) == 0 ? wait(manner::for_ever) : wait(manner::timed, without_end); }
  /// Returns true if a signal has reached the thread.
  bool wait(manner how, unsigned rounds = rl::rand(2));
  record& begin_waiter(record begun);
  void end_waiter(record& r);
  /// The slots of the waiters that have not left.
  std::span<std::uint8_t> present() { return std::span(slots).first(waiters); }

  // ---- the mutex (queue_program.cpp) ----

  void lock(unsigned rounds = rl::rand(8) == 0 ? 1 : 0);
  void unlock();
  /// Ends the thread's last critical section.
  void leave_and_unlock();
  /// Called by the last thread. Unlocking a free mutex must change nothing.
  void unlock_free();

  // ---- signals (observations.cpp) ----

  void announce(bool holding);
  /// Selects and delivers by the functions that libusher.so calls.
  void announce_at_once();
  /// Selects waiters, and checks the selection.
  void* select(bool all, bool armed = true);
  template <class Select>
  void* see_selection_of(bool all, Select selects);
  /// Records that a signal sent under the mutex has selected a waiter.
  void see_signalled(void* w);

  // ---- observations (observations.cpp) ----

  /// Records the delivery of a signal: a cancelled waiter may forward one.
  void see_delivered(void* w);
  void see_written(const void* word);
  void see_selected(record& r);
  void see_awake(record& r);
  void see_back(void* w);
  void see_locked();
  void see_requeued(const chain_seen& chain, const chain_seen& then);
  /// Called by the thread that owns the mutex, after it has acquired it: checks that the mutex counts its users.
  void see_lock();
  /// Clears the observations of vanished threads. The waiter of the thread that forks is in no queue and in no chain
  /// of the child.
  void forget_parent(void* own_waiter);

  const unsigned threads;
  execution world{{.stray_wakes = the_scenario->stray_wakes}, threads};
  // The list's order is FIFO, mixed, or LIFO. Random numbers have 16 bits here.
  double at_tail = std::array{1.0, 0x1p-17, 0x1p-32}[rl::rand(3)];
  mutex_bytes m{*mutexes()[rl::rand(unsigned(mutexes().size()))]};
  alignas(64) std::array<std::byte, room_for_target> bytes;
  // These words and random numbers are here although some are used by one program only: a seed then stands for the same
  // execution in each version of the programs.
  checked::plain<std::uint32_t> tokens, to_post, users, flag;
  checked::atomic<std::uint32_t> handed_over, returned;
  const unsigned in_row =
      threads == 2 ? 1 : threads - 1 - (rl::rand(4) == 0 ? 0 : 1);  // row: the number of waiters, from thread 1 on
  unsigned steps = 4 + rl::rand(9);                                 // in turn
  checked::atomic<std::uint32_t> turn;

  bool locked_for_good = false;
  by_thread<role> roles{};
  by_thread<manner> manners{};
  bool cancels = false;
  std::array<record, execution::most_locals> records;      // indexed by the waiter's slot
  std::array<std::uint8_t, execution::most_locals> slots;  // see present()
  unsigned waiters = 0;
  by_thread<bool> gave_up{};
  unsigned arrivals = 0, signals_out = 0, chains = 0, requeues = 0;
  by_thread<unsigned> arrived_after{}, selected_by{}, chain_of{}, timed_at_write{};
  by_thread<const record*> woken_by{};
  by_thread<bool> hands_over{};
  bool has_from_parent = false;  // the forking thread has owned the mutex since before the fork
  bool passed_by = false;        // the last unlock handed over while a thread with a deadline waited
  unsigned in_a_row = 0;
};

}  // namespace usher::check
