// Quantities that the rules compare, and parts that several of their sentences share. The thresholds are chosen, not
// measured. The column "when" of the tables of rules states them in words: change both together.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "watch/reader/judge/rules.hpp"
#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

inline constexpr double worth_of_all = 0.01;     // of all threads' time
inline constexpr double worth_of_thread = 0.05;  // of the record's time, waited by one thread
inline constexpr double much_unseen = 0.1;       // of the sampled sleeps

/// A row with the quantities that the rules compare.
struct row_facts {
  const row& r;
  const report& all;
  double of_all = 0;      ///< its waiting time as a share of all threads' time
  double of_thread = 0;   ///< the longest waiting time of one thread, as a share of the record's time
  double mean_wait = 0;   ///< seconds
  double mean_hold = -1;  ///< below 0: not known
  double waiters = 1;     ///< the largest number at the same time

  row_facts(const row& its_row, const report& its_report);
  bool is(kind k) const { return r.what == k; }
  bool matters() const { return of_all >= worth_of_all || of_thread >= worth_of_thread; }
  bool holds_known() const { return r.seen.holding.count != 0 && mean_hold >= 0; }
  double held() const { return r.seen.held_share.value_or(0); }
};

/// The program with the quantities that its rules compare. To be made after all rows have verdicts.
struct program_facts {
  const report& r;
  double of_all = 0;               ///< waiting time for locks, as a share of all threads' time
  double to_run = 0;               ///< time from signals to their waiters' running, as a share of all threads' time
  const row* hottest = nullptr;    ///< the first lock whose waits or trylocks are significant
  const row* credits = nullptr;    ///< the first semaphore whose waits are significant
  const row* barrier = nullptr;    ///< the first barrier whose waits are significant
  const row* herd = nullptr;       ///< condition variable with a verdict
  const row* waited_at = nullptr;  ///< the first condition variable

  explicit program_facts(const report& its_report);
};

/// Whether the object excludes other threads: a mutex, a read-write lock or a spin lock.
bool is_lock(kind k);
/// Whether the rule of the row is in the list.
bool says(const row& r, std::initializer_list<const char*> rules);
/// Whether the program ran under the C library's locks, whose waiters sleep.
bool is_c_library(const report& all);

/// Whether the program used all of its CPUs, and threads waited for a CPU.
bool are_cpus_full(const report& all);
/// Whether the program's threads waited much for a CPU although it did not use all of its CPUs: other programs used
/// them, or threads are bound to one CPU or woken on one. Waits and holds then include time without a CPU.
bool lacks_cpus(const report& all);
/// Whether the program has several CPUs and threads, used about one CPU, and seldom had a second thread ready.
bool runs_one_at_a_time(const report& all);
/// An upper bound of the CPU time of waits and acquisitions, as a share of the program's CPU time. Assumes 10 µs for a
/// wait and 100 ns for an acquisition: more than a sleep with its wake-up, and more than a transfer of the lock's cache
/// line. 1: not known.
double most_work(const report& all, std::uint64_t waits, std::uint64_t acquisitions);
/// most_work() for the row's waits and acquisitions. Also 1 if waiters may have used the CPU.
double most_lock_work(const row_facts& f);

// Parts of sentences.
/// Whether the holder's function ended with the unlock, as a tail call, so that its frame is missing in the stack. Then
/// waiters were in a call from the same address, or the holder's stack has no frame of the program and a waiter's has
/// one.
bool ends_by_tail_call(const stack& holder, const std::vector<charged_stack>& waiters);
/// The place in the most charged holder's stack at which the lock was held while others waited. If there is none, or if
/// the holder's function is missing (ends_by_tail_call()): the place at which waiters enter the critical section. If
/// there is none either, the row's name.
std::string holder_place(const row& r);
/// "93 %", "about 93 %".
std::string held_text(const counts& c);
/// "1.9 of 2".
std::string cpus_text(const cpu_use& c);
/// "1.9 of 2 used, 3.2 threads ready without one".
std::string full_cpus_text(const cpu_use& c);
/// "1.7 threads were ready without a CPU, while the program used 1.0 of 2".
std::string lacking_cpus_text(const cpu_use& c);
/// The share of the sampled sleeps in futex calls without a recorded wait; 0: none, or too few samples.
double unseen_share(const report& r);
/// The data that the recording could not see in this program, after "; "; empty: nothing is known to be missing.
std::string unseen_text(const report& r);
/// The code that probably called the library in most of these futex calls, after "; "; empty: not known.
std::string unseen_caller_text(const report& r);
std::string deadlock_text(const deadlock& d);

/// The recommended `usher try` command. It has no --locks, since `usher try` selects locks suitable for the program.
std::string try_command(const report& all);
/// The `usher stat` command with all stacks, for the same program or process.
std::string details_command(const report& all);
/// The command that records with room for more objects; empty: no object was left out, or the room is at its limit.
std::string roomier_command(const report& all);
/// The data lost for lack of room or time, as the continuation of a sentence; empty: none.
std::string not_seen_text(const report& all);
/// The `usher stat` command with `lock`, or with `other` if the program ran with `lock`.
std::string stat_command_under(const report& all, const char* lock, const char* other);

/// The rules of rows and of programs, in order of precedence.
struct row_rule {
  rule said;
  bool (*fits)(const row_facts&);
  std::string (*sentence)(const row_facts&);
  std::string (*command)(const row_facts&);
};
struct program_rule {
  rule said;
  bool (*fits)(const program_facts&);
  std::string (*sentence)(const program_facts&);
  std::string (*next)(const program_facts&);
};
std::span<const row_rule> row_rules();
std::span<const program_rule> program_rules();

}  // namespace usher::reader
