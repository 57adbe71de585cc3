// The report on a record: rows of related objects, with names, stacks and a verdict. reading.hpp makes it from the
// record and the names of symbols.hpp; text.hpp, stat_json.hpp and profile.hpp write it.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "watch/contract/format.hpp"

namespace usher::reader {

using contract::kind;

/// One function in a stack. An address in inlined code has several frames, innermost first.
struct frame {
  std::uint64_t address = 0;  ///< of the call instruction, in the process
  std::string function;       ///< demangled; empty: not known
  std::string file;           ///< source file; empty: not known
  unsigned line = 0;
  std::string module;        ///< path of the executable or library; empty: the code is in no file
  std::uint64_t offset = 0;  ///< of the address in the module, for `addr2line`
  bool is_inlined = false;   ///< inlined into the next frame
};

/// A call stack, innermost frame first.
struct stack {
  std::vector<frame> frames;
  bool is_cut = false;  ///< the outer frames could not be found

  /// The first frame of the program itself. Wrappers of the C++ or C library, and functions that only lock by their
  /// names ("Mutex::Lock", "uv_mutex_lock"), are returned only if there is no other frame. Null: no frames.
  const frame* place() const;
};

/// A stack and the waiting time charged to it, in seconds.
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
  double owner_changes = 0;  ///< share of acquisitions by a thread other than the previous owner, 0–1
  double lwss = 0;  ///< average number of different threads in a window of 1000 acquisitions (or of all, if fewer)
  double mttr = 0;  ///< median number of acquisitions until the same thread acquires it again
  double gini = 0, rstddev = 0;
};

/// The id of a process or thread. In another PID namespace it has two ids: one in this command's namespace and its own.
struct shown_id {
  std::int64_t seen = 0;  ///< 0: not known
  std::int64_t own = 0;   ///< 0: equal to `seen`

  shown_id(std::int64_t its_seen = 0,
           std::int64_t its_own = 0)  // NOLINT(google-explicit-constructor): most have one id
      : seen(its_seen), own(its_own) {}
  std::strong_ordering operator<=>(const shown_id&) const = default;
};
/// The text of an id: "12"; "12 (own 3)" if the two ids differ; "? (own 3)" if only the own id is known.
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
  std::uint64_t grants = 0;  ///< waits that another thread ended by a grant to the waiter's queue node
};

/// Acquisitions of an object by a thread whose trylock of it had failed before.
struct retried {
  std::uint64_t count = 0;
  /// Seconds from the first failure to the acquisition, without the waits counted in `waiting`.
  double total = 0, longest = 0;
};

/// One side of a read-write lock: the acquisitions to read, or those to write.
struct lock_side {
  std::uint64_t acquisitions = 0, contended = 0;
  double waited = 0;                             ///< seconds
  double longest = 0;                            ///< seconds; 0: not known, if `contended` is not 0
  double behind_writer = 0, behind_readers = 0;  ///< seconds of `waited`, by the holder at the beginning of the wait
};

/// Both sides of a read-write lock, and the largest number of readers at once.
struct lock_sides {
  lock_side reading, writing;
  std::uint32_t most_readers = 0;
};

/// The counts that are one number. A new one needs a member here, a line in all_plain_counts, a word in the record
/// (format.hpp), and code that counts it (the recorder's sums.hpp) and reads it (reading.cpp).
struct plain_counts {
  std::uint64_t most_waiting = 0;
  std::uint64_t still_waiting = 0;  ///< threads that waited at the end; also included in `contended` and `waiting`
  std::uint64_t timeouts = 0;
  std::uint64_t failed_tries = 0;
  std::uint64_t signals = 0;  ///< condition variable: signals and broadcasts. Semaphore: posts
  std::uint64_t unheard = 0;  ///< condition variable: signals and broadcasts without a waiter
  std::uint64_t woken = 0;    ///< condition variable: waits that a signal or broadcast ended
  std::uint64_t herd = 0;     ///< condition variable: largest number of waiters woken by one broadcast
};

struct plain_count {
  const char* key;  ///< in JSON
  std::uint64_t plain_counts::*count;
  bool is_largest;    ///< for several objects: true, the largest; false, the sum
  bool (*has)(kind);  ///< whether objects of a kind have this count
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
  std::uint64_t acquisitions = 0;  ///< condition variable, barrier, join: waits. Semaphore: credits taken. Lock: all
  std::uint64_t contended = 0;     ///< lock, semaphore: acquisitions after a wait
  durations waiting;               ///< waits for the object. Condition variable: from a signal until the waiter runs
  /// Mutex, spin lock: timed holds; `total` is an estimate for all holds. Read-write lock: to write
  durations holding;
  bool holding_is_exact = false;  ///< each hold was timed
  /// Mutex: the share of the timed holds since the first wait in which the holder called sched_yield(). nullopt: no
  /// hold was timed.
  std::optional<double> yielding_share;
  std::uint64_t holds_timed = 0;  ///< number of timed holds; `holding` also counts the holds that they represent
  /// Total hold time relative to the lifetime of the object's process. For a row: the largest share of one object.
  /// nullopt: not known.
  std::optional<double> held_share;
  retried tries;                        ///< mutex, semaphore, spin lock
  std::optional<lock_sides> sides;      ///< read-write lock; else nullopt
  std::optional<thread_share> last;     ///< barrier: the thread that came last most often; its `waits`: how often
  std::optional<ways_of_waiting> ways;  ///< mutex: nullopt under the C library's locks, which do not count
  bool waiting_is_hidden = false;       ///< some waits, inside the C library's pthread_cond_wait, were not recorded
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
  /// The name of the place of the first lock call, if that function is in no stack of waiters or holders; else empty.
  /// An earlier mutex, freed without pthread_mutex_destroy, may have been at the address. `name` is then the line that
  /// waits most.
  std::string first_locked;
  bool by_init = false;       ///< the place is that of the initialisation, not of the first use
  bool embedded = false;      ///< a lock of Usher's that the program embeds; USHER_LOCK has no effect on it
  std::string module;         ///< of a static object
  std::uint64_t objects = 1;  ///< number of objects, including destroyed ones
  std::uint64_t gone = 0;     ///< number of destroyed objects, which are not in `each`
  counts seen;
  std::optional<admission> order;               ///< of the most contended object
  std::vector<object_row> each;                 ///< sorted by waiting time, the longest first
  std::vector<charged_stack> waiters, holders;  ///< sorted by waiting time, the longest first
  std::vector<double> windows;                  ///< seconds waited, by window of report::windows; empty: not known
  std::string rule, verdict;                    ///< name of the rule that fits, and its sentence; empty: none fits
  std::string command;                          ///< command to try next; empty: none
};

/// The time that threads slept, from samples of all threads, about ten a second. A thread counts while it sleeps in the
/// kernel, not while it waits for a CPU. Each sample stands for 100 ms of a thread's time: a thread that is sampled
/// less often gets several samples at once.
struct off_cpu {
  /// Sleeps in the same system call from the same function.
  struct place {
    std::string call;    ///< "futex", "poll"; "join": a futex that awaits the end of a thread; "page fault"
    stack where;         ///< the innermost frame outside of the C library; empty: not known
    std::string module;  ///< of that frame; empty: not known
    std::uint64_t samples = 0;
    /// True: the frame itself made the system call. False: the frame is from the first word on the stack that looks
    /// like a return address; a stale word may look like one, too.
    bool is_certain = false;
    /// Of a library's futex: the frame outside of the library that probably called the library, from the next word on
    /// the stack that looks like a return address. Empty: not known.
    stack below{};
  };
  std::uint64_t samples = 0;                     ///< of sleeping threads; 0: nothing was sampled
  std::uint64_t recorded[contract::kinds] = {};  ///< samples in a recorded wait, by index_of()
  std::uint64_t unreadable = 0;                  ///< samples whose system call the kernel did not show
  std::vector<place> places;                     ///< all other samples, the largest first
  std::uint64_t observations = 0;                ///< how many times a thread was observed asleep
  /// Some threads, chosen at random, were skipped at times, or sampled fewer than ten times a second
  bool of_a_part = false;

  std::uint64_t in_futexes() const {
    std::uint64_t n = 0;
    for (const place& p : places)
      if (p.call == "futex") n += p.samples;
    return n;
  }
};

/// The use of the CPUs by the program.
struct cpu_use {
  double cpus = 0;     ///< number of CPUs that the program may use
  double busy = 0;     ///< number of CPUs that it used, on average
  double waiting = 0;  ///< threads that were ready and waited for a CPU, on average
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
  double seconds = 0;     ///< duration so far
  bool is_older = false;  ///< older than the recording, so its real duration is longer
};

/// The time for which attaching stopped the process's threads, and their number.
struct attach_cost {
  double seconds = 0;  ///< from the first thread's stop until the last thread continued
  unsigned threads = 0;
};

/// Data lost for lack of room or time in the recording.
struct not_seen {
  std::uint64_t calls = 0;    ///< calls on objects, and of threads, without room in the record
  std::uint64_t objects = 0;  ///< the --objects value with room for all of them; 0: none was left out
  unsigned threads = 0;       ///< threads of an attached process not searched for older deadlocks
};

/// The windows of a recording, for which the waiting of the hottest rows is known.
struct recorded_windows {
  std::vector<double> ends;            ///< seconds since the beginning of the recording
  std::vector<double> thread_seconds;  ///< by window: the sum of the threads' lifetimes in it
};

struct report {
  std::vector<std::string> command;
  shown_id pid;
  std::string lock;      ///< "pthread": the C library's
  double seconds = 0;    ///< duration of the recording
  bool runs_on = false;  ///< it did not end by itself: it still runs, or was ended by a signal or --duration
  std::optional<double> others_cpu_share;  ///< share of the CPU time during the recording; nullopt: not known
  std::optional<attach_cost> attached;     ///< nullopt: this command started the program
  unsigned processes = 0, threads = 0;
  double thread_seconds = 0;            ///< sum of all threads' lifetimes
  double waited[contract::kinds] = {};  ///< sum over all threads, by index_of()
  std::optional<off_cpu> asleep;        ///< nullopt: not sampled
  std::optional<cpu_use> cpu;           ///< nullopt: not known
  /// False: at least one program of the record recorded only mutexes, condition variables and semaphores.
  bool sees_all_kinds = true;
  reader::not_seen not_seen;
  std::optional<recorded_windows> windows;  ///< nullopt: not sampled
  std::vector<row> rows;                    ///< sorted by waiting time, the longest first
  std::vector<deadlock> deadlocks;
  std::string rule, verdict;         ///< verdict on the program
  std::string next;                  ///< command to try next; empty: none
  std::vector<std::string> remarks;  ///< sentences about dropped or invisible data
  std::string usher;                 ///< version
};

}  // namespace usher::reader
