// The record of `usher stat`: the layout of a file in memory, shared by the launcher and all processes of the program.
//
// The library writes (watch/recorder/recorder.hpp, sums.hpp), the launcher reads (watch/reader/). All shared data are
// atomic and accessed with relaxed order, so counters that are read while the program runs may disagree by a few
// operations. For a mutex whose acquisitions the threads count in their own slots, some dozens for each thread may be
// missing. The file is sparse: only written pages take memory. Times are in ticks: of the processor's time stamp counter,
// or nanoseconds.
//
//     header     options, capacities, the number of entries in use, the number of entries that found no room
//     processes  one slot for each process; a fork and an exec each begin a new slot
//     modules    the executables and libraries that contain a recorded call chain or object
//     text       the modules' paths
//     threads    one slot for each thread, from its first recorded call; the object that it waits for now
//     objects    mutexes, condition variables and others (`kind`): an open hash table, two cache lines each
//     details    histograms and threads of objects that have been contended
//     chains     call chains without duplicates: a hash table
//     charges    the time waited, by object or place and by chain: a hash table
//     windows    successive owners of contended mutexes
//     waits      the last waits, one by one: only with `usher stat --trace`, else the table is empty
//
// A *chain* is a thread's call chain. The *place* of an object is the call chain of its initialisation or first use.
//
// Only a mutex's holder writes the first cache line of the mutex's entry, by loads and stores; other threads write the
// second. The key is on the second line, so a thread that finds the mutex held does not touch the holder's line.
// Condition variables and semaphores have no holder: all their counts are atomic additions.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "watch/contract/verbs.hpp"

namespace usher::inline v2::contract {

using word32 = std::atomic<std::uint32_t>;
using word64 = std::atomic<std::uint64_t>;

inline constexpr const char* file_name = "usher stat";      ///< of the file in memory
inline constexpr const char* variable = "USHER_STAT";       ///< environment variable with the file's path
inline constexpr std::uint64_t magic = 0x3174617473687375;  // "ushstat1"
inline constexpr std::uint32_t version = 5;

/// The number of entries of each table. Hash tables have a power of two.
struct capacities {
  std::uint32_t objects = 65536;  ///< power of two
  std::uint32_t details = 8192;
  std::uint32_t threads = 4096;
  std::uint32_t processes = 16384;
  std::uint32_t modules = 65533;  ///< chosen: a module's number must fit into the 16 bits of word_of()
  std::uint32_t text = 1 << 21;
  std::uint32_t chains = 16384;   ///< power of two
  std::uint32_t charges = 32768;  ///< power of two
  std::uint32_t windows = 256;
  std::uint32_t waits = 0;  ///< chunks of waits

  static constexpr std::uint32_t fewest_objects = 64, most_objects = 1 << 22;
  /// The chunks of waits of a recording that has them: 32 MiB, 516,096 waits. Chosen.
  static constexpr std::uint32_t most_waits = 8192;
  /// Capacities with room for at least `least` objects, within the two bounds above. `with_waits`: each wait is kept.
  static constexpr capacities for_objects(std::uint32_t least, bool with_waits = false) {
    capacities c;
    c.objects = std::bit_ceil(std::clamp(least, fewest_objects, most_objects));
    c.details = std::clamp(c.objects / 8, std::uint32_t{64}, std::uint32_t{65536});
    c.waits = with_waits ? most_waits : 0;
    return c;
  }
  bool operator==(const capacities&) const = default;
};

/// If the observer has written no heartbeat for this time, it was killed or is stopped, and the library ends the
/// recording. Chosen: an observer writes several heartbeats a second.
inline constexpr std::uint64_t heartbeat_limit_ms = 10'000;

/// The reason why the library ended a recording that its observer had not ended.
enum class given_up : std::uint32_t {
  no,
  for_silence,  ///< the heartbeat was overdue, and the tables' pages were freed
  for_another,  ///< another observer has asked for a recording
};

/// The number of entries that found no room in their table.
struct dropped_counts {
  word64 objects;  ///< calls on objects without an entry
  word64 details, threads, processes, modules, chains, charges;
};

struct alignas(4096) header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t hold_times;  ///< 1: each hold is timed; 0: a sample of the holds
  std::uint64_t size;        ///< of the file
  capacities room;
  std::uint32_t ticks_are_tsc;  ///< 1: ticks of the time stamp counter; 0: nanoseconds of CLOCK_MONOTONIC
  std::uint64_t ticks_a_ms;     ///< approximate, for rates; the launcher measures exactly
  word32 enabled;               ///< 0: the library must record nothing more
  word32 processes, threads, modules, text, details, windows;  ///< entries in use; may exceed the room
  word64 next_holder_sample;  ///< ticks: before this time no call chain of a holder is recorded
  word64 calls;               ///< the number of threads that found no slot
  word32 opened;              ///< the number of programs that opened the file; a slot is taken at the first call
  word64 heartbeat;           ///< ticks, written by the observer; 0: it sends no heartbeats
  word32 taken;     ///< set to 1 by the observer when it has the file, so the library may close the descriptor
  word32 given_up;  ///< contract::given_up, written by the library
  word32 refused;   ///< the format version of a library that did not record here because its version differs
  word32 partial;   ///< 1: a program without libusher-stat.so has opened the file
  /// Sums over the ended threads whose slots other threads have taken: their number, their lifetimes in ticks, and
  /// their waiting times by index_of(kind).
  word64 retired, retired_lives, retired_waited[kinds];
  dropped_counts dropped;
  /// Ticks waited for process-shared read-write locks, which Usher's locks do not implement. `waited` of the threads
  /// contains them, too.
  word64 waited_for_shared;
  /// The chunks of waits that were taken so far: number n is at n % room.waits. On a cache line of its own.
  alignas(128) word64 wait_chunks;
};
static_assert(sizeof(header) == 4096);

/// A process from a fork or exec to its next exec or its end.
struct alignas(128) process_slot {
  word32 pid;           ///< 0: not yet filled in
  word32 parent;        ///< slot + 1 of the process that forked it; 0: began with exec
  word64 began, ended;  ///< ticks; the launcher writes `ended`, 0: alive at the launcher's last look
  word32 library;       ///< 1: Usher's locks are in use, 0: the C library's
  word32 reserved;      ///< 0
  char lock[32];        ///< name of the lock
  char command[16];     ///< as in /proc/PID/comm
};

/// A loaded module. If its segments are not adjacent, each has a slot of its own.
struct module_slot {
  word32 ready;                     ///< set to 1 after all other fields
  std::uint32_t process;            ///< index of its slot
  std::uint64_t begin, end;         ///< addresses
  std::uint64_t bias;               ///< address in memory − address in the file
  std::uint64_t identity;           ///< from module_identity.hpp; 0: not known
  std::uint32_t path, path_length;  ///< in `text`, as the loader reports it; length 0: not known
};

// An address of a process is stored in one word: the low 48 bits are the address, the high 16 bits are the number of
// its module (the module's slot + 1; 0: not known). So the address still names its module if another module is loaded
// there later.
inline constexpr std::uint32_t in_no_module = 0xffff;  ///< instead of a module's number: generated code
constexpr std::uint64_t word_of(std::uint64_t address, std::uint32_t module) {
  return std::uint64_t{module} << 48 | (address & 0xffffffffffffu);
}
constexpr std::uint32_t module_of(std::uint64_t word) {
  return std::uint32_t(word >> 48);
}

/// A thread's slot, filled in at the thread's first recorded call.
struct alignas(128) thread_slot {
  word32 tid;          ///< 0: not yet filled in
  word32 process;      ///< index of its slot
  word64 first, last;  ///< ticks: when first and last seen; the launcher and contended calls write `last`
  word64 waited[kinds], waits[kinds];  ///< ticks and number of waits for all objects, by index_of(kind)
  word32 waits_for;                    ///< index + 1 of the object that the thread waits for; 0: it does not wait
  word32 chain;                        ///< index + 1 of the chain of this wait; 0: not recorded
  word64 since;                        ///< ticks: when this wait began
  word64 caller;                       ///< return address of the waiting call
  word32 over;                         ///< set to 1 by the launcher: the thread has ended
  word32 has_deadline;                 ///< 1: this wait has a deadline
  /// The thread's acquisitions of mutexes with contract::counted_by_threads. A word has the object's index + 1 in the
  /// low bits and the count, as a multiple of one_counted, above. counted_at() gives the index of a mutex's word. If
  /// another mutex takes the word, the old count is added to `mutex.counted` of the old mutex.
  alignas(64) word64 counts[8];
};
inline constexpr std::uint64_t one_counted = 1 << 24;
constexpr std::uint32_t counted_at(std::uint64_t address) {
  return std::uint32_t(address * 0x9e3779b97f4a7c15u >> 61);
}
/// A mutex with more acquisitions may be counted by threads. Chosen.
inline constexpr std::uint64_t least_counted_by_threads = 1 << 14;

/// Flags in object::depth_and_kind. The bits below the flags are the object's kind, the bits above are the depth of a
/// recursive mutex.
enum mutex_attributes : std::uint32_t {
  recursive = 1 << 8,
  /// The mutex is locked so often that each thread counts its acquisitions in its own slot, and writes to this entry
  /// only when it times a hold.
  counted_by_threads = 1 << 9,
  /// A thread other than the holder has unlocked the mutex, so threads do not count its acquisitions in their slots.
  changes_hands = 1 << 10,
};

/// Bits of object::flags.
enum object_flags : std::uint32_t {
  is_static = 1,        ///< the object lies in a module, and is its own place
  from_init = 2,        ///< the place is the call chain of the initialisation, not of the first use
  is_sum = 4,           ///< the entry is the sum of the destroyed objects of a place
  any_wait_hidden = 8,  ///< the C library's pthread_cond_wait locked this mutex itself, so some waits were not seen
  embedded = 16,        ///< a lock of Usher's that the program embeds, not a pthread object
};

struct alignas(128) object {
  // Fields of all kinds. They begin on the first cache line, which the holder writes.
  word64 longest;       ///< ticks of the longest wait
  word64 acquisitions;  ///< mutex: times locked. Condition: waits. Semaphore: credits taken
  union {
    /// Index + 1 of the thread; 0: free or not known. Read-write lock: the writer. Barrier: the last thread to arrive
    word32 owner;
    word32 died;  ///< of a sum (is_sum): the number of destroyed objects
  };
  word32 depth_and_kind;  ///< recursion depth << 16 | attributes << 8 | kind
  union {
    word64 hold_begin;      ///< ticks; bits 0 and 1 are flags (holding.cpp); 0: this hold is not timed
    word64 longest_in_all;  ///< of a sum: the largest total hold time of one of its objects, in ticks
  };
  word64
      held;  ///< ticks, of the timed holds, each times the number that it stands for. Read-write lock: holds to write
  word32 holds;  ///< the sum of these numbers: held / holds is the mean
  /// Index + 1 of the chain of the initialisation or first use; 0: none. Static object: the module's number
  word32 place;

  // Fields of one kind. In each struct the first two or three words lie on the first cache line, the others on the
  // second. The recorded program may change an entry's kind at any time, so all structs have words of the same sizes at
  // the same offsets: each can be read as any kind.
  struct mutex_part {  ///< also of a spin lock
    /// The sum of the times that the waiters present at the beginning of this hold had already waited: see `waiting`. A
    /// waiter that gives up during the hold subtracts its time: the only write of another thread to this line.
    word64 waited_before;
    /// Low half: acquisitions until the next timed hold; high half: how many holds that one represents
    word32 countdown;
    word32 timed;         ///< number of timed holds
    word64 failed_tries;  ///< used while the object has no detail
    word64 counted;       ///< acquisitions added from thread_slot::counts
  };
  struct condition_part {
    word64 reserved;
    word32 also_reserved;
    word32 herd;     ///< the largest number of waiters woken by one broadcast
    word64 signals;  ///< signals and broadcasts
    word64 unheard;  ///< signals and broadcasts without a waiter
  };
  struct semaphore_part {
    word64 reserved;
    word32 also_reserved[2];
    word64 posts;
    word64 failed_tries;
  };
  /// `acquisitions`, `contended` and `waited` include readers and writers. Each hold to write is timed.
  struct rwlock_part {
    word64 waited_to_read;   ///< ticks
    word32 readers;          ///< readers that hold it now
    word32 most_readers;     ///< largest number of readers at once
    word64 reads;            ///< acquisitions to read
    word64 contended_reads;  ///< acquisitions to read after a wait
  };
  /// `acquisitions` are waits, `waited` is the time until the last thread arrived, and detail::thread::waits counts how
  /// often the thread arrived last. A charge of kind `holder` has the call chain of the last thread, and the time that
  /// the others had waited.
  struct barrier_part {
    word64 reserved;
    word32 size;  ///< the threads of a round; 0: not known
    word32 also_reserved;
    word64 reserved_too[2];
  };
  union {
    mutex_part mutex;
    condition_part condition;
    semaphore_part semaphore;
    rwlock_part rwlock;
    barrier_part barrier;
  };

  // Fields of all kinds on the second cache line. Waiting threads write it; without waiters it is only read.
  /// The low 12 bits: the number n of threads that wait now. The other bits: the sum of the ticks at which they began
  /// to wait, modulo 2^52. So they have waited for n × now − sum ticks so far, all together.
  word64 waiting;
  word64 key;           ///< key_of(); 0: never used, `vacant`: free again
  word64 contended;     ///< acquisitions after a wait; condition variable: waits that a signal ended
  word64 waited;        ///< ticks of all waits that have ended; condition variable: from the signal to the return
  word32 most_waiting;  ///< largest number of threads at once
  word32 timeouts;
  word32 detail;  ///< index + 1; 0: none
  word32 flags;   ///< object_flags

  static constexpr std::uint64_t vacant = 1;
  static constexpr std::uint64_t not_timed = 2;  ///< in `hold_begin`: threads wait, but this hold is not timed
};
static_assert(sizeof(object) == 128 && offsetof(object, mutex) == 48 && sizeof(object::mutex_part) == 32 &&
              sizeof(object::condition_part) == 32 && sizeof(object::semaphore_part) == 32 &&
              sizeof(object::rwlock_part) == 32 && sizeof(object::barrier_part) == 32 &&
              offsetof(object::mutex_part, failed_tries) == 16 && offsetof(object, waiting) == 80);

/// Calls `visit(counter, raised)` for each counter that a sum of destroyed objects also has. `counter` is a function
/// from an entry to the word. A sum has the largest value of a `raised` counter, and the sum of any other.
template <class F>
void for_counters(kind k, object&, F visit) {
  const auto sum = [&visit](auto counter) { visit(counter, false); };
  const auto most = [&visit](auto counter) { visit(counter, true); };
  sum([](object& o) -> word64& { return o.acquisitions; });
  sum([](object& o) -> word64& { return o.held; });
  sum([](object& o) -> word32& { return o.holds; });
  sum([](object& o) -> word64& { return o.contended; });
  sum([](object& o) -> word64& { return o.waited; });
  sum([](object& o) -> word32& { return o.timeouts; });
  most([](object& o) -> word64& { return o.longest; });
  most([](object& o) -> word32& { return o.most_waiting; });
  if (has_holds(k)) {
    sum([](object& o) -> word32& { return o.mutex.timed; });
    sum([](object& o) -> word64& { return o.mutex.failed_tries; });
    sum([](object& o) -> word64& { return o.mutex.counted; });
  } else if (k == kind::condition) {
    most([](object& o) -> word32& { return o.condition.herd; });
    sum([](object& o) -> word64& { return o.condition.signals; });
    sum([](object& o) -> word64& { return o.condition.unheard; });
  } else if (k == kind::semaphore) {
    sum([](object& o) -> word64& { return o.semaphore.posts; });
    sum([](object& o) -> word64& { return o.semaphore.failed_tries; });
  } else if (k == kind::rwlock) {
    sum([](object& o) -> word64& { return o.rwlock.waited_to_read; });
    most([](object& o) -> word32& { return o.rwlock.most_readers; });
    sum([](object& o) -> word64& { return o.rwlock.reads; });
    sum([](object& o) -> word64& { return o.rwlock.contended_reads; });
  } else if (k == kind::barrier) {
    most([](object& o) -> word32& { return o.barrier.size; });
  }
}

/// Failed trylocks and signals without a waiter may occur millions of times, so they are counted approximately: the
/// first `counted_exactly` of an object exactly; after that, one in `roughly` is chosen at random and counts as
/// `roughly`.
inline constexpr std::uint32_t counted_exactly = 4096, roughly = 16;  // chosen

/// An object's key: the low 48 bits are its address, the high 16 bits are the process's slot + 1.
constexpr std::uint64_t key_of(std::uint32_t process, std::uint64_t address) {
  return std::uint64_t{process + 1} << 48 | (address & 0xffffffffffffu);
}
constexpr std::uint32_t process_of(std::uint64_t key) {
  return std::uint32_t(key >> 48) - 1;
}
/// The address in an object's key, or in a word made by word_of().
constexpr std::uint64_t address_of(std::uint64_t key) {
  return key & 0xffffffffffffu;
}
/// The index at which the search for a key begins. The search visits up to `longest_search` consecutive entries. The
/// index is made of high bits of the product: the process, in bits 48 to 63 of the key, does not influence the lower
/// bits.
constexpr std::uint32_t first_place(std::uint64_t key, std::uint32_t objects) {
  return std::uint32_t((key * 0x9e3779b97f4a7c15u) >> 42) & (objects - 1);
}
inline constexpr std::uint32_t longest_search = 32;

constexpr std::uint64_t waiting_count = (1 << 12) - 1;
constexpr std::uint64_t arrival(std::uint64_t ticks) {
  return ticks << 12 | 1;
}
/// The ticks that the present waiters have waited so far, all together, modulo 2^52. `waiting`: the value of
/// object::waiting.
constexpr std::uint64_t waited_so_far(std::uint64_t waiting, std::uint64_t now) {
  return ((waiting & waiting_count) * now - (waiting >> 12)) & ((std::uint64_t{1} << 52) - 1);
}

/// The buckets of histograms, in units of 16 ticks: one bucket for each unit below 16, then 16 buckets for each power
/// of two. So above 16 units a bucket is at most 6.25 % wide.
struct duration_buckets {
  static constexpr std::uint32_t count = 544;  ///< up to 2^41 ticks; the last bucket also has longer durations
  static constexpr std::uint32_t of(std::uint64_t ticks) {
    const std::uint64_t units = ticks >> 4;
    if (units < 16) return std::uint32_t(units);
    const auto octave = std::uint32_t(std::bit_width(units)) - 5;  // 0: 16…31
    const std::uint32_t i = 16 * (octave + 1) + std::uint32_t((units >> octave) & 15);
    return i < count ? i : count - 1;
  }
  /// The smallest number of ticks in bucket i. The bucket ends where bucket i + 1 begins.
  static constexpr std::uint64_t lower(std::uint32_t i) {
    const std::uint64_t units = i < 16 ? i : (std::uint64_t{16} + i % 16) << (i / 16 - 1);
    return units << 4;
  }
};
static_assert(duration_buckets::of(256) == 16 && duration_buckets::lower(16) == 256 &&
              duration_buckets::of(duration_buckets::lower(99)) == 99 &&
              duration_buckets::of(duration_buckets::lower(99) - 1) == 98);

/// Further data of an object that was contended.
struct alignas(4096) detail {
  /// The threads that waited most. If the list is full, a new thread replaces the thread that waited least and adds to
  /// its figures. So a listed thread's figures are never too low.
  struct thread {
    word32 index;  ///< index + 1 of the thread
    word32 waits;
    word64 waited;
  };
  static constexpr std::uint32_t most_threads = 30;

  word32 object;                 ///< index + 1 of the object
  word32 many;                   ///< 1: the list of threads overflowed
  word64 longest_hold;           ///< ticks, of the timed holds
  word64 timed_at;               ///< ticks: when the last timed hold ended
  word64 longest_waiter;         ///< index + 1 of the thread with the longest wait
  word64 next_window;            ///< ticks: no window begins before this time
  word32 window;                 ///< index + 1 of the window that is being written; 0: none
  word32 windows;                ///< number of windows of this object so far
  word64 failed_tries;           ///< of a mutex: in this line, because its holder does not read it
  word64 polls, sleeps, grants;  ///< of waits in Usher's locks: native/wait_tally.hpp
  /// Acquisitions of this mutex, spin lock or semaphore after a failed trylock: their number, and the ticks from the
  /// thread's first failure to the acquisition, without recorded waits. Counted only if the thread's last failed
  /// trylock was of this object.
  word64 tries, tried, longest_try;
  /// Of a read-write lock: the ticks of waits that began while a writer held it, and of waits that began while readers
  /// held it. The index is the waiting side (0: to read, 1: to write).
  word64 behind_writer[2], behind_readers[2];
  word64 longest_read_wait;  ///< ticks, of a read-write lock; object::longest covers both sides
  /// recorded_thread::yields + 1 at the beginning of the mutex's last timed hold; 0: not known, since this detail was
  /// made during the hold.
  word32 yields_before;
  word32 yielding_holds;  ///< holds in which the holder called sched_yield(), weighted as in `holds`
  word64 uncharged_held;  ///< ticks that others waited during holds, not yet charged to a holder's chain
  word64 uncharged_waits, uncharged_waited;  ///< not yet charged to a waiter's chain
  /// Of a condition variable: a ring with the times of the signals after which no waiter has returned yet. `sent`
  /// counts the signals, `heard` the returned waiters.
  word64 sent, heard;
  word64 sent_at[16];
  word64 released;  ///< released_word() of the last unlock of a lock while others waited, if waits are kept; else 0
  thread threads[most_threads];
  word32 waits[duration_buckets::count];
  word32 holds[duration_buckets::count / 2];  ///< each covers two buckets of `waits`
};
static_assert(sizeof(detail) == 4096);

/// Like for_counters() above, for the counters of a detail.
template <class F>
void for_counters(kind k, detail&, F visit) {
  const auto sum = [&visit](auto counter) { visit(counter, false); };
  const auto most = [&visit](auto counter) { visit(counter, true); };
  for (word64 detail::*w :
       {&detail::failed_tries, &detail::polls, &detail::sleeps, &detail::grants, &detail::tries, &detail::tried,
        &detail::uncharged_held, &detail::uncharged_waits, &detail::uncharged_waited})
    sum([w](detail& d) -> word64& { return d.*w; });
  sum([](detail& d) -> word32& { return d.yielding_holds; });
  most([](detail& d) -> word64& { return d.longest_try; });
  most([](detail& d) -> word64& { return d.longest_hold; });
  if (k != kind::rwlock) return;
  for (unsigned side = 0; side < 2; side++) {
    sum([side](detail& d) -> word64& { return d.behind_writer[side]; });
    sum([side](detail& d) -> word64& { return d.behind_readers[side]; });
  }
  most([](detail& d) -> word64& { return d.longest_read_wait; });
}

/// A call chain: return addresses with their modules, innermost first, without the frames of libusher.so.
struct alignas(256) chain {
  static constexpr std::uint32_t longest = 29;
  word64 hash;   ///< 0: free
  word32 ready;  ///< set to 1 after all other fields
  std::uint32_t process;
  std::uint32_t length;
  std::uint32_t cut;          ///< 1: the chain is incomplete, further callers may exist
  std::uint64_t pc[longest];  ///< word_of()
};
static_assert(sizeof(chain) == 256);

enum class charged : std::uint32_t {
  none,
  waiter,  ///< count: waits; ticks: their length. The call chain is the waiter's
  holder,  ///< count: samples; ticks: the time that others waited during holds. The chain is that of the unlock call
};

/// The target of a charge: a static object (its index, below 2^30), or all objects of a place (2^30 + the chain's
/// index).
inline constexpr std::uint32_t of_place = 1u << 30;

struct charge {
  word64 key;  ///< charge_key(); 0: free
  word64 count, ticks;
};
constexpr std::uint64_t charge_key(charged what, kind k, std::uint32_t whom, std::uint32_t chain) {
  return std::uint64_t(what) << 60 | std::uint64_t(k) << 56 | std::uint64_t{whom} << 24 | (chain & 0xffffff);
}
constexpr charged what_of(std::uint64_t key) {
  return charged(key >> 60);
}
constexpr kind kind_of(std::uint64_t key) {
  return kind(key >> 56 & 15);
}
constexpr std::uint32_t whom_of(std::uint64_t key) {
  return std::uint32_t(key >> 24);
}
constexpr std::uint32_t chain_of(std::uint64_t key) {
  return std::uint32_t(key & 0xffffff);
}

/// A list of a mutex's successive owners.
struct alignas(4096) window {
  static constexpr std::uint32_t length = 2032;
  word32 object;                              ///< index + 1 of the mutex
  word32 count;                               ///< owners so far
  word64 begin, end;                          ///< ticks
  std::atomic<std::uint16_t> owners[length];  ///< thread slots, modulo 65536
};
static_assert(sizeof(window) == 4096);

/// The time and the thread (its slot + 1) of an unlock in one word: the ticks modulo 2^44 above 20 bits for the thread.
inline constexpr unsigned thread_bits = 20;
constexpr std::uint64_t released_word(std::uint64_t ticks, std::uint32_t thread) {
  return ticks << thread_bits | thread;
}
/// The ticks in such a word, which are at most `now`.
constexpr std::uint64_t released_ticks(std::uint64_t word, std::uint64_t now) {
  return now - ((now - (word >> thread_bits)) & (~std::uint64_t{0} >> thread_bits));
}
constexpr std::uint32_t released_by(std::uint64_t word) {
  return std::uint32_t(word & ((1u << thread_bits) - 1));
}

/// How a wait ended.
enum class wait_result : std::uint32_t { acquired, timed_out, other };

/// One wait that has ended. The thread that waited writes it, `chunk` last.
struct alignas(64) noted_wait {
  word64 begin, end;   ///< ticks
  word64 released;     ///< released_word() of the unlock that ended the wait; 0: not seen
  word64 key;          ///< of the object, whose entry may be another object's by now
  word32 object;       ///< + 1
  word32 place;        ///< as object::place
  word32 kind_result;  ///< kind | object_flags << 8 | wait_result << 16
  word32 thread;       ///< slot + 1; the slot may be another thread's by now
  word32 tid;          ///< as thread_slot::tid
  word32 owner;        ///< the thread that held the lock when the wait began, an id as in `tid`; 0: not known
  word32 stack;        ///< chain + 1; 0: none was taken
  word32 chunk;  ///< wait_chunk::number modulo 2^32, so that a wait of the chunk's last use is told from one of this
};
static_assert(sizeof(noted_wait) == 64);

/// Successive waits of one thread. When all chunks are taken, the oldest is used again. A thread leaves a chunk that is
/// older than half of them, so all waits since the chunk before that half was taken are there.
struct alignas(4096) wait_chunk {
  static constexpr std::uint32_t length = 63;
  word64 number;  ///< how many were taken before, + 1; 0: none
  word64 taken;   ///< ticks
  noted_wait waits[length];
};
static_assert(sizeof(wait_chunk) == 4096);

/// Access to the tables of the file. The view has its own copy of the capacities, so a process that later changes the
/// header cannot move a table. Code must compare an index from the record with room() before its use. With
/// USHER_TRAPS_ON_BAD_INDEX, which the observer's programs define, a bad index ends the program.
class view {
 public:
  view() = default;
  /// A view with the capacities in the header, which the caller must have checked.
  explicit view(void* memory) : view(memory, static_cast<contract::header*>(memory)->room) {}
  view(void* memory, const capacities& room)
      : base_(static_cast<std::byte*>(memory)), room_(room), starts_(starts(room)) {}
  explicit operator bool() const { return base_ != nullptr; }

  const capacities& room() const { return room_; }
  contract::header& head() const { return *reinterpret_cast<contract::header*>(base_); }
  process_slot& process(std::uint32_t i) const { return at<process_slot>(starts_.processes, i, room_.processes); }
  module_slot& module(std::uint32_t i) const { return at<module_slot>(starts_.modules, i, room_.modules); }
  char* text() const { return reinterpret_cast<char*>(base_ + starts_.text); }
  thread_slot& thread(std::uint32_t i) const { return at<thread_slot>(starts_.threads, i, room_.threads); }
  contract::object& object(std::uint32_t i) const { return at<contract::object>(starts_.objects, i, room_.objects); }
  contract::detail& detail(std::uint32_t i) const { return at<contract::detail>(starts_.details, i, room_.details); }
  contract::chain& chain(std::uint32_t i) const { return at<contract::chain>(starts_.chains, i, room_.chains); }
  contract::charge& charge(std::uint32_t i) const { return at<contract::charge>(starts_.charges, i, room_.charges); }
  contract::window& window(std::uint32_t i) const { return at<contract::window>(starts_.windows, i, room_.windows); }
  contract::wait_chunk& waits(std::uint32_t i) const { return at<contract::wait_chunk>(starts_.waits, i, room_.waits); }

  static constexpr std::uint64_t size_for(const capacities& c) { return starts(c).end; }

 private:
  struct places {
    std::uint64_t processes, modules, text, threads, objects, details, chains, charges, windows, waits, end;
  };
  static constexpr places starts(const capacities& c) {
    places p{};
    std::uint64_t at = sizeof(contract::header);
    const auto next = [&at](std::uint64_t bytes) {
      const std::uint64_t begin = at;
      at = (at + bytes + 4095) / 4096 * 4096;
      return begin;
    };
    p.processes = next(sizeof(process_slot) * std::uint64_t{c.processes});
    p.modules = next(sizeof(module_slot) * std::uint64_t{c.modules});
    p.text = next(c.text);
    p.threads = next(sizeof(thread_slot) * std::uint64_t{c.threads});
    p.objects = next(sizeof(contract::object) * std::uint64_t{c.objects});
    p.details = next(sizeof(contract::detail) * std::uint64_t{c.details});
    p.chains = next(sizeof(contract::chain) * std::uint64_t{c.chains});
    p.charges = next(sizeof(contract::charge) * std::uint64_t{c.charges});
    p.windows = next(sizeof(contract::window) * std::uint64_t{c.windows});
    p.waits = next(sizeof(contract::wait_chunk) * std::uint64_t{c.waits});
    p.end = at;
    return p;
  }
  template <class T>
  T& at(std::uint64_t start, std::uint32_t i, [[maybe_unused]] std::uint32_t room) const {
#ifdef USHER_TRAPS_ON_BAD_INDEX
    if (i >= room) __builtin_trap();
#endif
    return reinterpret_cast<T*>(base_ + start)[i];
  }

  std::byte* base_ = nullptr;
  capacities room_{};
  places starts_{};
};

}  // namespace usher::inline v2::contract
