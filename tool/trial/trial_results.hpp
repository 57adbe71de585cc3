// The results of a trial: runs fill them, reports read them, and trial_json.hpp converts them to JSON and back.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tool/trial/contest.hpp"

namespace usher::tool::trial {

inline constexpr const char* c_library = "pthread";  ///< the reference, with which all others are compared

/// The name of a lock with a read-write lock, as --locks takes it. The C library's of the two is not named.
inline std::string name_of(const std::string& lock, const std::string& rwlock) {
  if (rwlock.empty()) return lock;
  return lock == c_library ? rwlock : lock + "+" + rwlock;
}

/// One run of a round; warm-ups are not kept.
struct run_result {
  std::size_t round = 0;  ///< from 1
  double metric = std::nan("");
  double seconds = 0, user_s = 0, system_s = 0;
  long voluntary_switches = 0, involuntary_switches = 0, peak_kib = 0;
  std::string error;  ///< empty: all went well

  double cpu_s() const { return user_s + system_s; }
};

/// The lock calls of one run, counted by recording it.
struct call_counts {
  std::uint64_t locks = 0, contended = 0, condition_waits = 0, semaphores = 0;
  std::uint64_t threads = 0;            ///< the most that lived at the same time
  bool loaded = false;                  ///< Usher's library was loaded
  std::optional<double> waiting_share;  ///< of all threads' time, for mutexes
  std::uint64_t rwlocks = 0, contended_rwlocks = 0;
  /// The same for read-write locks, without process-shared ones, and for process-shared ones. nullopt: none was used.
  std::optional<double> rwlock_waiting_share = std::nullopt, shared_rwlock_waiting_share = std::nullopt;

  bool parks_threads = false;  ///< a process had the signal handlers of a collector that stops threads

  /// The calls that a lock for mutexes serves.
  std::uint64_t of_mutexes() const { return locks + condition_waits + semaphores; }
  std::uint64_t all() const { return of_mutexes() + rwlocks; }
};

struct drop_reason {
  std::size_t round = 0;
  std::string why;
};

inline constexpr const char* behind_another = "behind another";
inline constexpr const char* no_time = "no time to decide";

struct candidate_result {
  std::string name, lock;
  std::string rwlock;  ///< empty: the C library's read-write locks
  std::vector<run_result> runs;
  std::optional<call_counts> calls;
  std::vector<std::string> errors;
  std::size_t failed_runs = 0;
  std::size_t first_difference = 0;  ///< line that differs from what the reference printed; 0: none
  std::size_t cut = 0;               ///< the most bytes that a run printed, if not all of it was kept
  verdict judged = verdict::undecided;
  std::optional<double>
      speed_up;              ///< above 1 is better; a difference, above 0 is better, where the trial has no ratios
  support::interval limits;  ///< of the speed-up; infinite if too few rounds were run
  std::size_t rounds = 0;    ///< that were compared
  std::optional<drop_reason> dropped;

  double figure() const { return speed_up.value_or(std::nan("")); }
  bool is_behind() const { return dropped && dropped->why == behind_another; }
  bool is_clean() const { return errors.empty() && first_difference == 0; }
  bool has_c_librarys_locks() const { return lock == c_library && rwlock.empty(); }
  /// Better, without failures, and not the reference under another name.
  bool is_usable() const { return judged == verdict::better && is_clean() && !has_c_librarys_locks(); }
  std::vector<double> values(double (*get)(const run_result&)) const {
    std::vector<double> all;
    for (const run_result& r : runs)
      if (r.error.empty()) all.push_back(get(r));
    return all;
  }
};

inline double metric_of(const run_result& r) {
  return r.metric;
}
inline double cpu_of(const run_result& r) {
  return r.cpu_s();
}

/// A candidate that was not run, and the reason.
struct left_out_lock {
  std::string name, why;
};

struct computer {
  std::string cpu, kernel, libc;
  unsigned cpus = 0;
};

struct trial_conclusion {
  std::string kind;     ///< one word, for scripts
  std::string text;     ///< for users; one line a paragraph
  std::string command;  ///< a line for a shell; empty: none
};

struct trial_results {
  static constexpr int format = 2;

  std::string usher, commit, date;
  computer place;
  std::vector<std::string> command;
  std::string metric;  ///< regular expression; empty: the time that a run takes
  bool lower_is_better = false;
  std::string before, until, ready;
  std::optional<double> budget;  ///< seconds; nullopt: the number of rounds was given
  std::size_t warmup = 0, rounds = 0, confirming_rounds = 0;
  double run_seconds = 0;  ///< median of the reference's runs, with preparation and server
  double seconds = 0;      ///< the whole trial
  double others_cpu_share = 0;
  bool interrupted = false;
  bool has_ratios = true;  ///< false: a metric was zero or negative, and differences are compared
  std::vector<left_out_lock> left_out;
  std::vector<std::vector<std::string>> order;  ///< names, by round, in the order of the runs
  std::vector<candidate_result> candidates;     ///< the reference first
  std::string winner;                           ///< empty: none
  std::optional<trial_conclusion> conclusion;

  double neutral() const { return has_ratios ? 1 : 0; }
  std::string unit() const { return metric.empty() ? " s" : ""; }
  const candidate_result& reference() const { return candidates.front(); }
  bool tries_read_write_locks() const {
    for (const candidate_result& c : candidates)
      if (!c.rwlock.empty()) return true;
    return false;
  }
  /// The reference in words.
  const char* reference_text() const {
    return tries_read_write_locks() ? "the C library's locks" : "the C library's mutex";
  }
  /// The usable candidate with the highest speed-up; null: none is usable.
  const candidate_result* best_usable() const {
    const candidate_result* best = nullptr;
    for (const candidate_result& c : candidates)
      if (c.is_usable() && (best == nullptr || c.figure() > best->figure())) best = &c;
    return best;
  }
  bool has_values() const {
    for (const candidate_result& c : candidates)
      if (!c.values(metric_of).empty()) return true;
    return false;
  }
};

}  // namespace usher::tool::trial
