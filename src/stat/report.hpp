// What a record says, made ready for people: rows of objects that belong together, with names, stacks and a verdict.
// reading.hpp makes it from the file, symbols.hpp names addresses; text.hpp, json.hpp and profile.hpp write it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/layout.hpp"

namespace usher::cli::stat {

using record::kind;

/// One function of a stack. Several of one address, if the compiler put some in line: innermost first.
struct frame {
  std::uint64_t address = 0;  ///< in the process
  std::string function;       ///< demangled; empty: not known
  std::string file;           ///< of the source; empty: not known
  unsigned line = 0;
  std::string module;        ///< path of the executable or library; empty: code that is in no file
  std::uint64_t offset = 0;  ///< of the address in the module, as `addr2line` takes it
  bool is_inlined = false;   ///< into the next frame
};

/// Innermost first.
struct stack {
  std::vector<frame> frames;
  bool is_cut = false;  ///< it goes on, but could not be followed

  /// The first frame that is the program's: not a wrapper of the C++ library's or of the C library's, nor a function that
  /// does no more than lock, by its name ("Mutex::Lock", "uv_mutex_lock"). If there is no other, one of those. Null: no frames.
  const frame* place() const;
};

/// A stack and what was waited on its account, in seconds.
struct charged_stack {
  stack where;
  std::uint64_t count = 0;  ///< waits; for a holder samples
  double waited = 0;
};

/// Of durations, in seconds. Median and 99 % are of buckets 6 % wide.
struct durations {
  std::uint64_t count = 0;
  double total = 0, longest = 0;
  std::optional<double> median, p99;  ///< nullopt: not known
};

/// Who got the mutex, in windows of successive acquisitions.
struct admission {
  std::uint64_t acquisitions = 0;  ///< that were looked at
  std::uint32_t windows = 0;
  double owner_changes = 0;  ///< share of acquisitions whose owner is not the one before, 0–1
  double lwss = 0;           ///< average number of different threads in a window of 1000 (or what there is)
  double mttr = 0;           ///< median of the acquisitions until the same thread has it again
  double gini = 0, rstddev = 0;
};

/// A thread's part in the waiting for one row.
struct thread_share {
  std::int64_t tid = 0;
  std::uint64_t waits = 0;
  double waited = 0;
};

/// How threads waited, of which our own locks keep count.
struct ways_of_waiting {
  std::uint64_t polls = 0;   ///< looks at a word that was not yet as hoped
  std::uint64_t sleeps = 0;  ///< calls of the kernel to sleep
  std::uint64_t grants = 0;  ///< hand-overs: waits that another thread ended by a grant to the waiter's queue node
};

/// What is counted of one object, or of all of a row.
struct counts {
  std::uint64_t acquisitions = 0;  ///< condition: waits. Semaphore: credits taken
  std::uint64_t contended = 0;     ///< mutex, semaphore: not had at once
  durations waiting;               ///< mutex, semaphore: for it. Condition: from a signal to running
  durations holding;               ///< mutex: of the timed holds; `total` is scaled up to all of them
  bool holding_is_exact = false;   ///< each hold was timed
  /// Of the time of its process; of the one that is held most, for a row. nullopt: not known
  std::optional<double> held_share;
  std::uint32_t most_waiting = 0;
  std::uint32_t still_waiting = 0;  ///< at the end, threads; in `contended` and `waiting` up to then
  std::uint64_t timeouts = 0, failed_tries = 0;
  std::uint64_t signals = 0, unheard = 0;  ///< condition: signals and broadcasts, and those without a waiter; posts
  std::uint32_t herd = 0;                  ///< condition: the most that one broadcast woke
  std::uint64_t woken = 0;                 ///< condition: waits that a signal or broadcast ended
  std::optional<ways_of_waiting> ways;     ///< mutex: nullopt under the C library's locks, which do not say
  bool waiting_is_hidden = false;     ///< some of it is inside the C library's pthread_cond_wait, and nobody saw it
  std::vector<thread_share> threads;  ///< most waiting first
  bool has_more_threads = false;
};

struct object_row {
  std::uint64_t address = 0;
  std::int64_t pid = 0;
  std::string name;  ///< "symbol+0x28", or the address
  counts seen;
  std::optional<admission> order;
};

/// Objects of one place: a static object, or all whose first use (or initialisation) was on the same line.
struct row {
  kind what = kind::none;
  std::string name;           ///< for people, without the module's path: "server.cpp:120 worker()", "buckets[]"
  stack place;                ///< empty for a static object
  bool by_init = false;       ///< the place is that of the initialisation
  std::string module;         ///< of a static object
  std::uint64_t objects = 1;  ///< how many; those that are gone, too
  std::uint64_t gone = 0;     ///< of them; they are in no `each`
  counts seen;
  std::optional<admission> order;               ///< of the object that was contended most
  std::vector<object_row> each;                 ///< most waited first
  std::vector<charged_stack> waiters, holders;  ///< most first
  std::string rule, verdict;  ///< identity of the rule that fits, and its sentence; empty: nothing to say
  std::string command;        ///< to try next; empty: none
};

/// Threads that wait for each other in a circle.
struct deadlock {
  struct thread {
    std::int64_t tid = 0;
    std::string waits_for;  ///< name of the object
    stack where;
    std::uint64_t address = 0;
  };
  std::vector<thread> threads;
  double seconds = 0;  ///< so far
};

struct report {
  std::vector<std::string> command;
  std::int64_t pid = 0;
  std::string lock;    ///< the library's, "pthread": the C library's own
  double seconds = 0;  ///< that were recorded
  unsigned processes = 0, threads = 0;
  double thread_seconds = 0;  ///< all threads' lives together
  double waited[3] = {};      ///< all threads together, by kind − 1
  std::vector<row> rows;      ///< most waited first
  std::vector<deadlock> deadlocks;
  std::string rule, verdict;         ///< of the program
  std::string next;                  ///< command to try next; empty: none
  std::vector<std::string> remarks;  ///< what was dropped, and what could not be seen: a sentence each
  std::string usher;                 ///< version
};

}  // namespace usher::cli::stat
