// The framework of programs with planted contention: contention that is known beforehand, and that `usher stat` must
// report. The command line names a scenario, which is a function. The program prints its own counts and clock readings,
// times in seconds, as one JSON object:
//
//     {"ledger": {"acquisitions": 40, "waited": 0.61, "longest": 0.015, "held": 0.2}, …}
//
// A source line that a test refers to ends in a comment `mark: some words`.
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>

namespace planted {

/// Returns nanoseconds of CLOCK_MONOTONIC.
std::int64_t now();

/// The program's own figures for one object. They are printed under the object's name, unless there are none.
class tally {
 public:
  explicit tally(const char* name);

  /// Counts a call that acquired the object. The arguments are the times at which the call began and returned.
  void took(std::int64_t called, std::int64_t returned);
  /// Counts a call that waited without acquiring the object.
  void waited(std::int64_t called, std::int64_t returned);
  void held(std::int64_t from, std::int64_t to);
  /// Counts an acquisition and its hold. The arguments are the times of the call, of its return, and of the release.
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

/// Prints the figures as a JSON object, with a single system call and without heap memory.
void print();

/// Runs `body` in `count` threads, which begin at the same time, and joins them.
void in_threads(int count, const std::function<void(int)>& body);

/// Computes for this time.
void busy(std::int64_t nanoseconds);
void sleep_for(std::int64_t nanoseconds);

pid_t thread_id();
/// Waits until the thread with this id sleeps in the kernel. Returns after some milliseconds at the latest, since a
/// waiter may also poll and never sleep.
void await_asleep(const std::atomic<pid_t>& thread);

/// Does nothing; the compiler must assume that the function uses the object.
void use(void* pointer);

/// Locks and unlocks the mutex so often that each thread counts its holds in a slot of its own and no longer in the
/// mutex's entry.
void lock_often(pthread_mutex_t& mutex);

inline constexpr std::int64_t us = 1000, ms = 1000000;

// The scenarios, by source.
void one_hot(), convoy(), held_over_sleep(), reused_memory(), starving(), buckets(), heap_buckets(), hot_bucket(),
    kinds(), timeouts(), tries(), retries(), uncontended(), locked_often(), in_a_rhythm();
void herd(), signals(), signalled_twice(), left_in_haste();
void credits(), semaphore_mutex();
void gives_up(), late_signal(), between_processes(), another_kind(), held_until_a_wait(), long_and_short(), yielding();
void opposite_order(), write_locks(), ring(), self(), no_deadlock(), retreats(), ended_circle(), deadlocked_child();
void in_library(), unloaded(), alternating();
void made_and_destroyed(), many_at_once(), hot_after_many(), many_in_vain(), thousand_threads(), forked(), chain(),
    processes(), aborts(), killed(), handler_posts(), handler_forks(), cancelled(), nothing();
void unmaps(), sandboxed(), handler_stack();

/// `argument` is the number after the scenario's name on the command line; `program` is the path of this program.
extern int argument;
extern const char* program;

}  // namespace planted
