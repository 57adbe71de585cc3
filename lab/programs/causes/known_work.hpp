// The work of the program `causes`: its settings, work of a given length, and counts of operations.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "../team.hpp"

namespace causes {

/// The activity of a thread in a critical section or between two of them.
enum class way { none, cpu, sleep, io, file, yield };

struct settings {
  std::string shape = "mutex", hold_text = "cpu", gap_text = "cpu", without, folder = "/var/tmp";
  way hold = way::cpu, gap = way::cpu;
  double hold_us = 10, gap_us = 10, seconds = 1.5, step_ns = 0;
  long threads = 4, objects = 1, writes = 10, credits = 1, skew = 4, idle = 0, beside = 0, loaded = 0;
};
extern settings plan;

/// Whether the cause with this name has been removed.
bool removed(const char* cause);

extern std::atomic<bool> stop;
extern thread_local long self;  ///< number of this worker, from 0
extern thread_local workloads::random_source dice;

inline bool stopped() {
  return stop.load(std::memory_order_relaxed);
}
/// Counts one operation of this thread.
void count();

/// Returns a random length from half of `us` to one and a half of it, so that threads do not run in step.
double about(double us);

// Work of the given length in microseconds. Several threads may call each function at the same time.
void burn(double us);          ///< computes
void nap(double us);           ///< sleeps
void await_device(double us);  ///< a read() that blocks for this time
void sync_file(double us);     ///< computes for this time, then writes 512 bytes to the thread's file; fdatasync()
void between(way what, double us);

/// Returns the time of one step of burn() in nanoseconds, the fastest of many measurements.
double measured_step_ns();
/// Reads "cpu", "sleep" and so on. Ends the program with a message if the text names no kind of work.
way way_of(const std::string& text);

/// Starts `threads` workers, numbered from 0, and returns when all of them begin to work.
void start(long threads, std::function<void()> body);
std::uint64_t operations();

// Each function starts the threads of a shape (the program that --shape names). start_exclusion() and start_waiting()
// return false if they have no shape of this name.
bool start_exclusion(const std::string& shape);
bool start_waiting(const std::string& shape);
void start_guarded();
void start_guarded_threads();
/// Starts further threads, which wait for a signal that never comes.
void start_idle(long threads);

}  // namespace causes
