// The report on a record: rows of objects that belong together, with names, stacks and a verdict. reading.hpp makes it
// from the record and the names of symbols.hpp; text.hpp, stat_json.hpp and profile.hpp write it.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "watch/contract/format.hpp"

namespace usher::reader {

using contract::kind;

/// One function in a stack. An address in inlined code has several frames, the innermost first.
struct frame {
  std::uint64_t address = 0;  ///< of the call, in the process
  std::string function;       ///< demangled; empty: not known
  std::string file;           ///< of the source; empty: not known
  unsigned line = 0;
  std::string module;        ///< path of the executable or library; empty: the code is in no file
  std::uint64_t offset = 0;  ///< of the address in the module, as an argument for `addr2line`
  bool is_inlined = false;   ///< into the next frame
};

/// Innermost first.
struct stack {
  std::vector<frame> frames;
  bool is_cut = false;  ///< the outer frames could not be found

  /// The first frame of the program itself. Wrappers of the C++ or C library, and functions that by their names only
  /// lock ("Mutex::Lock", "uv_mutex_lock"), are returned only if there is no other frame. Null: no frames.
  const frame* place() const;
};

/// A stack and the waiting time that it is charged with, in seconds.
struct charged_stack {
  stack where;
  std::uint64_t count = 0;  ///< waits; for a holder, samples
  double waited = 0;
};

/// A part of a histogram: `count` durations of at least `from` and less than `to` seconds.
struct duration_part {
  double from = 0, to = 0;
  std::uint64_t count = 0;
};

/// Durations in seconds. Median and p99 are computed from buckets 6 % wide.
struct durations {
  std::uint64_t count = 0;
  double total = 0, longest = 0;
  std::optional<double> median, p99;       ///< nullopt: not known
  std::vector<duration_part> histogram{};  ///< of a row; parts 25 % wide or less, without empty ones
};

/// Statistics on the order in which threads acquire a lock, from windows of successive acquisitions.
struct admission {
  std::uint64_t acquisitions = 0;  ///< in these windows
  std::uint32_t windows = 0;
  double owner_changes = 0;  ///< share of acquisitions by another thread than the previous owner, 0–1
  double lwss = 0;  ///< average number of different threads in a window of 1000 (or of all, if there are fewer)
  double mttr = 0;  ///< median number of acquisitions until the same thread has it again
  double gini = 0, rstddev = 0;
};

/// The id of a process or thread. One in another PID namespace has two ids: one that this command sees and its own.
struct shown_id {
  std::int64_t seen = 0;  ///< 0: not known
  std::int64_t own = 0;   ///< 0: the same

  shown_id(std::int64_t its_seen = 0,
           std::int64_t its_own = 0)  // NOLINT(google-explicit-constructor): most have one id
      : seen(its_seen), own(its_own) {}
  std::strong_ordering operator<=>(const shown_id&) const = default;
};
/// The text of an id: "12"; "12 (own 3)" if the two ids differ; "? (own 3)" if only its own is known.
std::string id_text(const shown_id& id);

/// The waits of one thread for the objects of one row.
struct thread_share {
  shown_id tid;
  std::uint64_t waits = 0;
  double waited = 0;
};

/// Counts of the actions of waiting threads. Only Usher's own locks keep them.
struct ways_of_waiting {
  std::uint64_t polls = 0;   ///< loads of a word that did not yet have the awaited value
  std::uint64_t sleeps = 0;  ///< system calls to sleep
  std::uint64_t grants = 0;  ///< hand-overs: waits that another thread ended by a grant to the waiter's queue node
};

/// Acquisitions by a thread whose trylock of the object had failed before.
struct retried {
  std::uint64_t count = 0;
  /// Seconds from the first failure to the acquisition, without the waits that `waiting` has.
  double total = 0, longest = 0;
};

/// One side of a read-write lock: the acquisitions to read, or those to write.
struct lock_side {
  std::uint64_t acquisitions = 0, contended = 0;
  double waited = 0;                             ///< seconds
  double longest = 0;                            ///< seconds; 0: not known, if there was contention
  double behind_writer = 0, behind_readers = 0;  ///< seconds of `waited`, by what held the lock when the wait began
};

/// Both sides of a read-write lock.
struct lock_sides {
  lock_side reading, writing;
  std::uint32_t most_readers = 0;  ///< at once
};

/// The counts that are one number, and nothing else. A new one is a member and a line of all_plain_counts, beside the word of the
/// record (format.hpp), what counts it (the recorder's sums.hpp) and what reads it (reading.cpp).
struct plain_counts {
  std::uint64_t most_waiting = 0;
  std::uint64_t still_waiting = 0;  ///< threads that waited at the end; `contended` and `waiting` include them
  std::uint64_t timeouts = 0;
  std::uint64_t failed_tries = 0;
  std::uint64_t signals = 0;  ///< condition: signals and broadcasts. Semaphore: posts
  std::uint64_t unheard = 0;  ///< condition: those without a waiter
  std::uint64_t woken = 0;    ///< condition: waits that a signal or broadcast ended
  std::uint64_t herd = 0;     ///< condition: the most waiters that one broadcast woke
};

struct plain_count {
  const char* key;  ///< in JSON
  std::uint64_t plain_counts::*count;
  bool is_largest;    ///< of several objects; else the sum
  bool (*has)(kind);  ///< whether objects of a kind have it
};
inline constexpr plain_count all_plain_counts[] = {
    {"most_waiting", &plain_counts::most_waiting, true, [](kind) { return true; }},
    {"still_waiting", &plain_counts::still_waiting, false, [](kind) { return true; }},
    {"timeouts", &plain_counts::timeouts, false, [](kind) { return true; }},
    {"failed_tries", &plain_counts::failed_tries, false,
     [](kind k) { return contract::has_holds(k) || k == kind::rwlock || k == kind::semaphore; }},
    {"signals", &plain_counts::signals, false, [](kind k) { return k == kind::condition || k == kind::semaphore; }},
    {"unheard", &plain_counts::unheard, false, [](kind k) { return k == kind::condition; }},
    {"woken", &plain_counts::woken, false, [](kind k) { return k == kind::condition; }},
    {"herd", &plain_counts::herd, true, [](kind k) { return k == kind::condition; }},
};

/// Counts of one object, or of all objects of a row.
struct counts : plain_counts {
  std::uint64_t acquisitions = 0;  ///< condition, barrier, join: waits. Semaphore: credits taken. Lock: both sides
  std::uint64_t contended = 0;     ///< lock, semaphore: acquisitions that had to wait
  durations waiting;               ///< for it. Condition: from a signal until the waiter runs
  durations holding;  ///< mutex, spin lock: of the timed holds; `total` is scaled up to all. Read-write lock: to write
  bool holding_is_exact = false;  ///< each hold was timed
  /// Mutex: of the timed holds since the first wait, the share in which the holder called sched_yield(). nullopt: none
  /// was timed
  std::optional<double> yielding_share;
  std::uint64_t holds_timed = 0;  ///< how many were; those of `holding` include the holds for which they stand
  /// Total hold time relative to the lifetime of the object's process. For a row: the largest share of one object.
  /// nullopt: not known
  std::optional<double> held_share;
  retried tries;                        ///< mutex, semaphore, spin lock
  std::optional<lock_sides> sides;      ///< read-write lock; else nullopt
  std::optional<thread_share> last;     ///< barrier: the thread that came last most often; `waits`: how often
  std::optional<ways_of_waiting> ways;  ///< mutex: nullopt under the C library's locks, which keep no counts
  bool waiting_is_hidden = false;       ///< a part is inside the C library's pthread_cond_wait and was not recorded
  /// Sorted by waiting time, the longest first. Barrier: `waits` is how often the thread came last.
  std::vector<thread_share> threads;
  bool has_more_threads = false;
};

struct object_row {
  std::uint64_t address = 0;
  shown_id pid;
  std::string name;  ///< "symbol+0x28", or the address
  counts seen;
  std::optional<admission> order;
};

/// Objects of one place: a static object, or all objects whose first use (or initialisation) was on the same line.
struct row {
  kind what = kind::none;
  std::string name;  ///< without the module's path: "server.cpp:120 worker()", "buckets[]"
  stack place;       ///< empty for a static object
  /// The name of the place of the first lock call, if that function is neither among those that wait nor among those
  /// that hold; else empty. An earlier mutex, freed without pthread_mutex_destroy, may have been at the address.
  /// `name` is then the line that waits most.
  std::string first_locked;
  bool by_init = false;       ///< the place is that of the initialisation
  bool embedded = false;      ///< a lock of Usher's that the program embeds, which USHER_LOCK does not select
  std::string module;         ///< of a static object
  std::uint64_t objects = 1;  ///< their number, with those that no longer exist
  std::uint64_t gone = 0;     ///< the number of those that no longer exist; `each` does not have them
  counts seen;
  std::optional<admission> order;               ///< of the most contended object
  std::vector<object_row> each;                 ///< sorted by waiting time, the longest first
  std::vector<charged_stack> waiters, holders;  ///< sorted by waiting time, the longest first
  std::string rule, verdict;                    ///< name of the rule that fits, and its sentence; empty: none fits
  std::string command;                          ///< to try next; empty: none
};

/// The time that threads slept, by samples of all threads, about ten a second. A thread counts while it sleeps in the
/// kernel, not while it waits for a CPU. Each sample stands for 100 ms of a thread's time: a thread that is looked
/// at less often counts for several.
struct off_cpu {
  /// Sleeps in the same system call from the same function.
  struct place {
    std::string call;    ///< "futex", "poll"; "join": a futex that is the end of a thread; "page fault"
    stack where;         ///< the frame outside of the C library; empty: not known
    std::string module;  ///< of that frame; empty: not known
    std::uint64_t samples = 0;
    /// The frame made the system call itself. Else it is the first word on the stack that looks like a return address,
    /// which a stale word may also do.
    bool is_certain = false;
    /// Of a library's futex: the frame outside of the library that probably called it, the next word on the stack that
    /// looks like a return address. Empty: not known.
    stack below{};
  };
  std::uint64_t samples = 0;                     ///< of sleeping threads; 0: nothing was sampled
  std::uint64_t recorded[contract::kinds] = {};  ///< of the samples: those in a recorded wait, by index_of()
  std::uint64_t unreadable = 0;                  ///< those whose system call the kernel did not show
  std::vector<place> places;                     ///< all other samples, most first
  std::uint64_t observations = 0;                ///< how many times a thread was found asleep
  bool of_a_part = false;  ///< at times a random part of the threads was looked at, or fewer than ten times a second

  std::uint64_t in_futexes() const {
    std::uint64_t n = 0;
    for (const place& p : places)
      if (p.call == "futex") n += p.samples;
    return n;
  }
};

/// The use of the CPUs by the program.
struct cpu_use {
  double cpus = 0;     ///< that the program may use
  double busy = 0;     ///< CPUs that it used on average
  double waiting = 0;  ///< threads that were ready to run and waited for a CPU, on average
};

/// Threads that wait for each other in a circle.
struct deadlock {
  struct thread {
    shown_id tid;
    std::string waits_for;  ///< name of the object
    stack where;
    std::uint64_t address = 0;
    shown_id pid;  ///< of the object's process; 0: not known
  };
  std::vector<thread> threads;
  double seconds = 0;     ///< so far
  bool is_older = false;  ///< than the recording, so it has lasted longer
};

/// The time for which attaching stopped the process's threads, and their number.
struct attach_cost {
  double seconds = 0;  ///< from the first thread's stop until the last one went on
  unsigned threads = 0;
};

/// What the recording had no room or time for.
struct not_seen {
  std::uint64_t calls = 0;    ///< on objects, and of threads, that found no room in the record
  std::uint64_t objects = 0;  ///< room for so many takes more of these objects; 0: none was left out
  unsigned threads = 0;       ///< of an attached process: not searched for older deadlocks
};

struct report {
  std::vector<std::string> command;
  shown_id pid;
  std::string lock;      ///< "pthread": the C library's own
  double seconds = 0;    ///< duration of the recording
  bool runs_on = false;  ///< it did not end by itself: it still runs, or a signal or --duration ended it
  std::optional<double> others_cpu_share;  ///< of the CPU time meanwhile; nullopt: not known
  std::optional<attach_cost> attached;     ///< nullopt: it was started by this command
  unsigned processes = 0, threads = 0;
  double thread_seconds = 0;            ///< sum of all threads' lifetimes
  double waited[contract::kinds] = {};  ///< sum over all threads, by index_of()
  std::optional<off_cpu> asleep;        ///< nullopt: not sampled
  std::optional<cpu_use> cpu;           ///< nullopt: not known
  /// False: in a program of the record only mutexes, condition variables and semaphores were recorded.
  bool sees_all_kinds = true;
  reader::not_seen not_seen;
  std::vector<row> rows;  ///< sorted by waiting time, the longest first
  std::vector<deadlock> deadlocks;
  std::string rule, verdict;         ///< of the program
  std::string next;                  ///< command to try next; empty: none
  std::vector<std::string> remarks;  ///< sentences about dropped or invisible data
  std::string usher;                 ///< version
};

}  // namespace usher::reader
