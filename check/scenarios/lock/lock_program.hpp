// The base of the programs that run against a lock. It has the lock, the operations of the threads, and the checks of
// all scenarios (see ../lock.cpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "check/engine/checked_lock.hpp"
#include "check/engine/explore.hpp"
#include "usher/core/timed_waiters.hpp"

namespace usher::check {

class lock_program;

struct lock_scenario {
  const char* name;
  lock_program* (*begin)(unsigned threads);           ///< constructs the program of an execution
  bool (*concerns)(const checked_lock& l) = nullptr;  ///< whether the lock makes the promise; null: all locks
  chances let = {};
  bool tries = false;   ///< some acquisitions use try_lock
  bool timed = false;   ///< some have a deadline, beside the lock: core/timed_waiters.hpp
  bool guests = false;  ///< some are guests, if the lock has them
};

// Global, because relacy constructs programs without arguments.
inline const checked_lock* the_lock;
inline const lock_scenario* the_locks_scenario;

// The programs, each in its own source file.
namespace lock_programs {
lock_program* counted(unsigned threads);
lock_program* progress(unsigned threads);
lock_program* ranks(unsigned threads);
lock_program* forked(unsigned threads);
lock_program* served(unsigned threads);
lock_program* freed(unsigned threads);
lock_program* outrun(unsigned threads);
lock_program* due(unsigned threads);
lock_program* stopped(unsigned threads);
}  // namespace lock_programs

class lock_program {
 public:
  explicit lock_program(unsigned threads) : threads(threads) {}
  virtual ~lock_program() {
    world.watch_nothing();
    the_lock->end(state());
  }
  lock_program(const lock_program&) = delete;
  lock_program& operator=(const lock_program&) = delete;

  /// Draws what is random in an execution. Called after the constructors; a seed stands for the same execution as long as
  /// the order of the draws is the same.
  void set_up();
  virtual void thread(unsigned t) = 0;
  void after();

 protected:
  using timed_waiters = timed_waiter_count<checked>;

  /// The lock's memory and the timed waiters' word beside it. The last owner ends the life of both.
  struct object {
    alignas(128) std::array<std::byte, room_for_target> lock;
    checked::atomic<std::uint32_t> timed_waiters;
  };

  /// The draws of a scenario, after those that concern the lock's state, and after all others.
  virtual void choose_course() {}
  virtual void choose_roles() {}
  /// Draws until how many waiters an owner keeps the lock.
  virtual unsigned choose_crowd() { return rl::rand(threads + 1); }
  virtual void before_unlock() {}
  virtual void check_end() {
    if (acquired.get() != in_all) fail("acquisitions are missing");
  }

  void* state() { return it.lock.data(); }
  void acquire();
  /// Like timed_mutex::unlock().
  void release();
  /// Called by the last owner, after its unlock. The memory of a lock that is touched after the hand-over lives longer.
  void end_life() {
    if (!the_lock->touched_after_hand_over) world.end_of(0);
  }
  /// Called by the last owner, after its unlock. The lock must be free: no thread is left to which it could have been
  /// handed over.
  void expect_free();

  const unsigned threads;
  const unsigned nobody = threads;
  execution world{the_locks_scenario->let, threads};
  object it;
  checked::plain<std::uint32_t> acquired, is_in;
  std::uint32_t in_all = threads * acquisitions;
  bool inflated_lost = false;  ///< the child of a fork does not have its parent's large lock
  bool node_lost = false;      ///< a thread that has stopped for good keeps its node
  unsigned crowd = 0;          ///< an owner keeps the lock until this number of threads wait, or all

 private:
  void draw_state();
  void promise();
  void acquire_somehow();
  int most_overtaking();
};

/// The program is in static memory, because relacy replaces the allocator.
template <class Program>
lock_program* begin(unsigned threads) {
  alignas(Program) static std::byte room[sizeof(Program)];
  lock_program* const p = std::construct_at(reinterpret_cast<Program*>(room), threads);
  p->set_up();
  return p;
}

/// Each thread acquires the lock several times, and adds one to a plain counter. The thread with the last acquisition ends
/// the lock's life.
class counted_program : public lock_program {
 public:
  using lock_program::lock_program;
  void thread(unsigned t) override;

 protected:
  /// Called by each owner, after it has kept the lock until others wait.
  virtual void hold() {}
};

}  // namespace usher::check
