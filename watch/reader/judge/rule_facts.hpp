// Quantities that the rules compare, and words that several of their sentences have. The thresholds are chosen, not
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
  double of_all = 0;      ///< its waiting time, relative to all threads' time
  double of_thread = 0;   ///< the longest waiting time of one thread, relative to the record's time
  double mean_wait = 0;   ///< seconds
  double mean_hold = -1;  ///< below 0: not known
  double waiters = 1;     ///< the most at the same time

  row_facts(const row& its_row, const report& its_report);
  bool is(kind k) const { return r.what == k; }
  bool matters() const { return of_all >= worth_of_all || of_thread >= worth_of_thread; }
  bool holds_known() const { return r.seen.holding.count != 0 && mean_hold >= 0; }
  double held() const { return r.seen.held_share.value_or(0); }
};

/// The program with the quantities that its rules compare. To be made when all rows have their verdicts.
struct program_facts {
  const report& r;
  double of_all = 0;               ///< waiting time for locks, relative to all threads' time
  double to_run = 0;               ///< time between a signal and the waiter's running, relative to all threads' time
  const row* hottest = nullptr;    ///< lock that matters, or whose trylocks do
  const row* credits = nullptr;    ///< semaphore that matters
  const row* barrier = nullptr;    ///< barrier that matters
  const row* herd = nullptr;       ///< condition variable with a verdict
  const row* waited_at = nullptr;  ///< the first condition variable

  explicit program_facts(const report& its_report);
};

/// Whether threads take the object to exclude others: a mutex, a read-write lock or a spin lock.
bool is_lock(kind k);
/// Whether the row's rule is one of these.
bool says(const row& r, std::initializer_list<const char*> rules);
/// Whether the program ran under the C library's locks, whose waiters sleep.
bool is_c_library(const report& all);

/// Whether the program used all of its CPUs, and threads waited for one.
bool are_cpus_full(const report& all);
/// Whether the program's threads waited much for a CPU although it did not use all of its CPUs: other programs had
/// them, or threads are bound to one CPU or woken on one. Waits and holds then contain time without a CPU.
bool lacks_cpus(const report& all);
/// Whether the program has several CPUs and threads, used about one CPU, and hardly ever had a second thread ready.
bool runs_one_at_a_time(const report& all);
/// The most CPU time that waits and acquisitions can have cost, relative to the program's CPU time. Assumes 10 µs for a
/// wait and 100 ns for an acquisition, each more than a sleep with its wake-up and a transfer of the lock's cache line
/// take. 1: not known.
double most_work(const report& all, std::uint64_t waits, std::uint64_t acquisitions);
/// The same for the row's waits and acquisitions. 1 also if waiters may have used the CPU.
double most_lock_work(const row_facts& f);

// Parts of sentences.
/// Whether the holder's function ended with the unlock, a tail call, so that the stack begins with its caller: waiters
/// were in a call from the same address, or the stack has no frame of the program, and a waiter's has one.
bool ends_by_tail_call(const stack& holder, const std::vector<charged_stack>& waiters);
/// The place in the most charged holder's stack, at which the lock was held while others waited. If there is none, or
/// the holder's function is missing in the stack (ends_by_tail_call()): the place at which waiters enter the critical
/// section. If there is none either, the row's name.
std::string holder_place(const row& r);
/// "93 %", "about 93 %".
std::string held_text(const counts& c);
/// "1.9 of 2".
std::string cpus_text(const cpu_use& c);
/// "1.9 of 2 used, 3.2 threads ready without one".
std::string full_cpus_text(const cpu_use& c);
/// "1.7 threads were ready without a CPU, while the program used 1.0 of 2".
std::string lacking_cpus_text(const cpu_use& c);
/// The share of the sampled sleeps that were in futex calls without a recorded wait; 0: none, or too few samples.
double unseen_share(const report& r);
/// Reports what the recording could not see of this program, after "; "; empty: nothing is known to be missing.
std::string unseen_text(const report& r);
/// The code that probably called the library with most of these calls, after "; "; empty: not known.
std::string unseen_caller_text(const report& r);
std::string deadlock_text(const deadlock& d);

/// The recommended `usher try` command. It has no --locks, since `usher try` selects the locks that suit the program.
std::string try_command(const report& all);
/// `usher stat` with all stacks, of the same program or process. It is no trial.
std::string details_command(const report& all);
/// The command that records with room for more objects; empty: no object was left out, or there can be no more room.
std::string roomier_command(const report& all);
/// What was not seen for lack of room or time, to follow a sentence; empty: nothing.
std::string not_seen_text(const report& all);
/// `usher stat` under `lock`, or under `other` if the program ran under `lock`.
std::string stat_command_under(const report& all, const char* lock, const char* other);

/// The rules of rows and of programs, in the order in which they are searched.
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
