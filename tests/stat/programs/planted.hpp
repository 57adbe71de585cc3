// The frame of programs with planted contention: each scenario is a function, chosen by its name on the command line, that
// knows what `usher stat` must find. What it counted and what its own clock said it prints as one object of JSON:
//
//     {"ledger": {"acquisitions": 40, "waited": 0.61, "longest": 0.015, "held": 0.2}, …}
//
// Lines that the test asks for end in a comment `mark: some words`.
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>

namespace planted {

/// Nanoseconds of CLOCK_MONOTONIC.
std::int64_t now();

/// What the program itself knows of one object. Printed by the name, if anything was counted or said.
class tally {
 public:
  explicit tally(const char* name);

  /// A call that acquired it: when it began, and when it returned.
  void took(std::int64_t called, std::int64_t returned);
  /// A call that waited, and did not get it.
  void waited(std::int64_t called, std::int64_t returned);
  void held(std::int64_t from, std::int64_t to);
  /// Took it, held it and released it.
  void round(std::int64_t called, std::int64_t returned, std::int64_t released) {
    took(called, returned);
    held(returned, released);
  }
  void say(const char* key, std::uint64_t value);

 private:
  friend void print();
  struct fact {
    const char* key;
    std::uint64_t value;
  };
  const char* name_;
  tally* next_;
  std::atomic<std::uint64_t> acquisitions_{0}, waited_{0}, longest_{0}, held_{0}, longest_hold_{0};
  fact facts_[12];
  int said_ = 0;
};

/// Writes the object of JSON, with one system call and no memory of the heap's.
void print();

/// Runs `body` in so many threads, which begin together, and joins them.
void in_threads(int count, const std::function<void(int)>& body);

/// Computes for so long.
void busy(std::int64_t nanoseconds);
void sleep_for(std::int64_t nanoseconds);

pid_t thread_id();
/// Waits until a thread of this process sleeps in the kernel, or, for waiters may also poll, some milliseconds.
void await_asleep(const std::atomic<pid_t>& thread);

/// Does nothing the compiler can see.
void use(void* pointer);

/// Locks and unlocks so often that the library no longer records each hold in the mutex's entry.
void lock_often(pthread_mutex_t& mutex);

inline constexpr std::int64_t us = 1000, ms = 1000000;

// The scenarios, by source.
void one_hot(), convoy(), held_over_sleep(), reused_memory(), starving(), buckets(), heap_buckets(), hot_bucket(),
    kinds(), timeouts(), tries(), uncontended(), locked_often(), in_a_rhythm();
void herd(), signals(), signalled_twice(), left_in_haste();
void credits(), semaphore_mutex();
void gives_up(), late_signal(), between_processes(), another_kind(), held_until_a_wait(), long_and_short();
void opposite_order(), ring(), self(), no_deadlock();
void in_library(), unloaded(), alternating();
void made_and_destroyed(), many_at_once(), many_in_vain(), thousand_threads(), forked(), chain(), processes(), aborts(),
    killed(), handler_posts(), handler_forks(), cancelled(), nothing();
void unmaps(), sandboxed(), handler_stack();

/// What stands behind the scenario's name on the command line, and this program's path.
extern int argument;
extern const char* program;

}  // namespace planted
