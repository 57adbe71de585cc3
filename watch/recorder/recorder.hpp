// The recording of `usher stat`, in the recorded process. watch/contract/format.hpp describes the file's layout, and which
// side writes each part.
//
//     begin      record_in() or record_as_requested() maps the file and sets current_recording. connect() then points the
//                exported functions and those of libusher-stat.so to the wrappers (wrappers.hpp) for the sink `sums`.
//     a call     recorded_self() returns the thread's slot in the file. find() returns the object's entry, in a hash
//                table by process and address; the first call on an object makes the entry. Then the sink adds to the
//                entry's counts (sums.hpp).
//     a wait     recorded_wait publishes the object for which the thread waits, and the time when the wait began. At the
//                end it adds to the object's sums and histogram, and charges the thread's call chain (unwind.hpp). A
//                thread's chain is taken once a millisecond; also if the lock's holder waits, or if the wait was long.
//                With `usher stat --trace` it also writes the wait itself into the thread's chunk (note_wait()).
//     destroy    end_object() adds the entry to the sum of its place: the call chain that made the object.
//     end        The observer clears `enabled` in the file, or no longer writes its heartbeat. The next slow path calls
//                end_recording(), which resets the pointers.
//
// This code does not allocate, take a lock, or wait. A signal handler may call the function that it has interrupted. So
// one compare-and-swap claims an entry, and at worst some dozens of calls are counted twice or not at all.
//
// Thread-local storage caches the calling thread's slot and the process's epoch word. After a fork the child's epoch word
// differs, so the child does not use its parent's slot. The file stays mapped after a recording, because a thread may
// still be in a recorded call.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "library/preload/selection.hpp"
#include "usher/platform/native.hpp"
#include "watch/contract/format.hpp"
#include "watch/recorder/found_values.hpp"
#include "watch/recorder/unwind.hpp"

namespace usher::recorder {

/// The present time in ticks: of the processor's time stamp counter if `tsc`, else nanoseconds.
inline std::uint64_t ticks_of(bool tsc) {
#if defined(__x86_64__)
  if (tsc) return __rdtsc();
#endif
  (void)tsc;
  return native::now();
}

/// The place of a path in the file's text.
struct text_place {
  std::uint32_t at, length;
};

/// One word with the fork epoch, the recording's number modulo 2^16, and the process's slot + 1. A thread that was
/// delayed since an earlier recording has an old number, so it cannot publish a slot of that recording's file.
constexpr std::uint64_t process_word(std::uint32_t epoch, std::uint32_t recording, std::uint32_t slot) {
  return std::uint64_t{epoch} << 32 | (recording & 0xffff) << 16 | slot;
}
constexpr std::uint32_t slot_of(std::uint64_t process_word) {
  return std::uint32_t(process_word & 0xffff);
}

/// The file that this process records into. There is one recorder for each size of the tables (recording.cpp). The
/// fields from `file` to `most_objects` never change once set. The other fields change with each recording; those that
/// calls read are atomic, since a thread may still be in a call of an earlier recording.
struct recorder {
  contract::view file;
  contract::header* head;
  contract::object* objects;
  contract::detail* details;
  std::uint32_t most_objects;
  std::atomic<std::uint32_t> hold_times;
  std::atomic<std::uint64_t> ticks_a_ms;
  std::atomic<bool> tsc;
  std::atomic<bool> attached;          ///< by `usher stat -p`: no other process records into the file
  std::atomic<std::uint64_t> process;  ///< process_word()
  char command[16];                    ///< the process's name at the start; empty: not known
  text_place program_path;             ///< length 0: not known
  found_values<512> modules;  ///< modules' numbers by key, also of modules of the parent before a fork. Size chosen

  const contract::capacities& room() const { return file.room(); }
  bool keeps_waits() const { return room().waits != 0; }
  std::uint64_t ticks() const { return ticks_of(tsc.load(std::memory_order_relaxed)); }
};

/// The number of the present recording and, in the low recorder_bits bits, the index + 1 of its recorder. 0: nothing
/// is recorded.
inline constexpr std::atomic<std::uint64_t>& current_recording = preload::behind_recorded.recording;
inline constexpr unsigned recorder_bits = 8;

recorder& recorder_of(std::uint64_t recording);
/// Null if nothing is recorded.
recorder* recorder_in_use();

// dlopen() refuses a library whose thread-local storage needs a larger alignment than the C library's thread control
// block, unless a library that was loaded at program start needs this alignment, too.
#if defined(__x86_64__)
inline constexpr std::size_t most_tls_alignment = 64;
#else
inline constexpr std::size_t most_tls_alignment = 16;
#endif

struct alignas(most_tls_alignment) recorded_thread {
  static constexpr std::uint64_t never = 1;  ///< no epoch word

  std::uint64_t recording = 0;  ///< the recording to which these fields belong
  recorder* of = nullptr;
  /// The process's epoch word (preload/layout.hpp) if these fields are valid and the thread has a slot; else `never`.
  std::uint64_t epoch_word = never;
  // Copies of fields of the recorder and of the selection that each lock call needs. They lie on a cache line that the
  // call reads in any case.
  contract::object* objects = nullptr;
  std::uint64_t key_base = 0;     ///< the process, as the high bits of an object's key
  std::uint32_t last_object = 0;  ///< the last index of the table, which has a power of two of entries
  std::uint32_t name = 0;         ///< index of the slot + 1, as in object::owner
  /// Two flags in one byte, so that recorded_lock() needs one comparison. `alone`: the C library's locks are in use,
  /// and the process had one thread. `has_failed`: failed_try is set.
  std::uint8_t unusual = 0;
  static constexpr std::uint8_t alone = 1, has_failed = 2;

  std::uint32_t refused = 0;                    ///< the fork epoch in which the thread found no free slot
  std::uint32_t beginning = 0;                  ///< the fork epoch while begin_thread() fills in these fields, else 0
  std::uint32_t until_counted = 0, random = 0;  ///< for roughly_one()
  // The light hold (holding.hpp).
  const void* light_mutex = nullptr;  ///< null: the thread has no light hold
  contract::object* light_object = nullptr;
  std::uint32_t light_depth = 0;  ///< of a recursive mutex: locks without their unlocks after the first one
  /// Acquisitions until the next sample; between the last sample and the next
  std::uint32_t light_left = 1, light_interval = 1;
  std::uint32_t yields = 0;  ///< calls of sched_yield(), modulo 2^32; only libusher-stat.so counts them
  /// The object of the thread's last failed trylock, if the thread has not acquired it since; else null.
  const void* failed_try = nullptr;
  contract::thread_slot* slot = nullptr;
  /// Ticks: from this time the next wait's call chain is recorded. Before it, a wait's chain is recorded only if the
  /// wait is long, or if the mutex's holder waits, too.
  std::uint64_t next_sample = 0;
  stack_bounds stack{};
  /// Ticks: when the first failed trylock of failed_try failed, plus later recorded waits for that object.
  std::uint64_t failed_at = 0;
  contract::wait_chunk* waits = nullptr;  ///< null: none was taken
  std::uint64_t waits_number = 0;         ///< of that chunk: how many were taken before
  std::uint32_t next_wait = 0;            ///< in it

  std::uint32_t epoch() const { return std::uint32_t(epoch_word >> 32); }
  std::uint64_t key_for(const void* address) const {
    return key_base | (reinterpret_cast<std::uintptr_t>(address) & 0xffffffffffffu);
  }
  /// The object's entry if it is at the first index of the search, as in most cases; else null.
  contract::object* find_at_once(const void* address) const {
    const std::uint64_t key = key_for(address);
    contract::object& first = objects[contract::first_place(key, last_object + 1)];
    return first.key.load(std::memory_order_acquire) == key ? &first : nullptr;
  }
  contract::object* find(const void* address) const {
    contract::object* const first = find_at_once(address);
    return first != nullptr ? first : find_further(key_for(address));
  }
  std::uint32_t index(const contract::object& o) const { return std::uint32_t(&o - objects); }

 private:
  [[gnu::noinline]] contract::object* find_further(std::uint64_t key) const;
};

inline constinit thread_local recorded_thread this_thread{};

inline constexpr std::uint32_t no_room = ~std::uint32_t{0};  ///< in object::detail: the table was full

/// Whether the thread's fields were set in this process, not before a fork.
inline bool is_current(const recorded_thread& me) {
  return me.epoch_word == usher_process_state.epoch_word.load(std::memory_order_acquire);
}

/// Gives the calling thread a slot in the present recording. Returns the thread's fields; null if it is not recorded.
[[gnu::cold, gnu::noinline]] recorded_thread* begin_thread();
[[gnu::always_inline]] inline recorded_thread* recorded_self() {
  recorded_thread& me = this_thread;
  if (me.recording != current_recording.load(std::memory_order_acquire) || !is_current(me)) [[unlikely]]
    return begin_thread();
  return &me;
}

/// Makes an entry for an object that has none. Null if the table is full. `caller` is the exported function's return
/// address.
[[gnu::cold, gnu::noinline]] contract::object* begin_object(recorded_thread& me, const void* address,
                                                            contract::kind kind, bool recursive, bool from_init,
                                                            std::uint64_t caller);

inline contract::kind entry_kind(const contract::object& o) {
  return contract::kind(o.depth_and_kind.load(std::memory_order_relaxed) & 0xff);
}
/// Whether the entry is of another kind, so that a new object now has the old one's memory. This occurs with std::mutex
/// and std::condition_variable, which call neither init nor destroy.
inline bool is_another(const contract::object& o, contract::kind kind) {
  return entry_kind(o) != kind;
}
/// Ends the entry of the old object at this address, and makes one for the new object. Null if the old entry must stay.
[[gnu::cold, gnu::noinline]] contract::object* begin_anew(recorded_thread& me, contract::object& before,
                                                          const void* address, contract::kind kind, bool recursive,
                                                          std::uint64_t caller);

inline contract::object* find_or_begin(recorded_thread& me, const void* address, contract::kind kind,
                                       std::uint64_t caller) {
  contract::object* const o = me.find(address);
  if (o == nullptr) [[unlikely]]
    return begin_object(me, address, kind, false, false, caller);
  return is_another(*o, kind) ? begin_anew(me, *o, address, kind, false, caller) : o;
}

/// Ends the entry of a destroyed object and adds its figures to those of its place. A static object keeps its entry.
void end_object(recorded_thread& me, contract::object& o);

/// Called after an object is initialised: ends an old entry of this address, and makes a new one. Null if nothing is
/// recorded.
contract::object* begin_initialised(const void* address, contract::kind kind, bool recursive);
void end_destroyed(const void* address);

/// The calling thread, and the entry of the object in the call.
struct recorded_call {
  recorded_thread* thread;
  contract::object* entry;  ///< null: the call is not recorded
};
inline recorded_call find_recorded(const void* address, contract::kind kind, std::uint64_t caller) {
  recorded_thread* const me = recorded_self();
  return {me, me != nullptr ? find_or_begin(*me, address, kind, caller) : nullptr};
}

/// The object's detail (histograms, threads); makes it if there is none. Null if the table is full.
contract::detail* detail_of(recorded_thread& me, contract::object& o);
/// The object's detail; null if it has none.
inline contract::detail* existing_detail(const recorded_thread& me, const contract::object& o) {
  const std::uint32_t at = o.detail.load(std::memory_order_relaxed);
  return at - 1 < me.of->room().details ? &me.of->details[at - 1] : nullptr;
}

inline constexpr std::uint32_t mean_light_interval = 32;  ///< chosen: the same share as beside_waiters()
inline std::uint32_t next_random(std::uint32_t& random) {
  random = random * 1664525 + 1013904223;
  return random >> 16;
}
/// A random number from 1 to 2 × mean_light_interval − 1.
inline std::uint32_t next_light_interval(std::uint32_t& random) {
  return 1 + (next_random(random) * (2 * mean_light_interval - 1) >> 16);
}
/// Chooses the length of a thread's first sampling interval and the rest that is left, since a thread begins within an
/// interval. All pairs are equally likely, so on average each acquisition is represented once, even if a thread makes
/// only a few.
inline void begin_light_interval(recorded_thread& me) {
  const std::uint32_t a = next_light_interval(me.random);
  std::uint32_t b = next_random(me.random) * (2 * mean_light_interval) >> 16;
  if (b == 0) b = a;
  me.light_interval = a > b ? a : b;
  me.light_left = a > b ? b : a;
}

/// Ends the thread's light hold (holding.hpp) and records nothing more about it.
inline void forget_light_hold(recorded_thread& me) {
  me.light_mutex = nullptr;
  me.light_depth = 0;
}
/// Turns the thread's light hold, if any, into an ordinary hold that is not timed.
void settle_light_hold(recorded_thread& me);
/// Adds the count in a word of thread_slot::counts to the `unheard` of its object.
void add_counted(recorder& r, std::uint64_t word);

/// Records the calling thread's call chain. Returns the chain's index + 1, or 0 if there is no room.
std::uint32_t take_chain(recorded_thread& me);

/// The target of a charge for this object: a static object itself, or the place of any other (contract::of_place).
std::uint32_t charge_target(const recorded_thread& me, const contract::object& o);
void charge(recorder& r, contract::charged what, contract::kind kind, std::uint32_t whom, std::uint32_t chain,
            std::uint64_t count, std::uint64_t ticks);

inline void add(contract::word64& w, std::uint64_t n) {
  w.fetch_add(n, std::memory_order_relaxed);
}
inline void add(contract::word32& w, std::uint32_t n) {
  w.fetch_add(n, std::memory_order_relaxed);
}
/// For calls that are counted approximately (contract::roughly), since each addition takes the cache line from other
/// threads. Returns the number to add to `count`: often 0.
inline std::uint32_t roughly_one(recorded_thread& me, const contract::word64& count) {
  if (count.load(std::memory_order_relaxed) < contract::counted_exactly) return 1;
  if (me.until_counted != 0) {
    me.until_counted--;
    return 0;
  }
  // A random number from 0 to 30 with mean 15, because a fixed interval could coincide with a period of the program.
  me.random = me.random * 1664525 + 1013904223;
  me.until_counted = ((me.random >> 24) * (2 * contract::roughly - 1)) >> 8;
  return contract::roughly;
}
inline void count_roughly(recorded_thread& me, contract::word64& count) {
  if (const std::uint32_t n = roughly_one(me, count); n != 0) add(count, n);
}
/// Adds waits of a thread to its sums in the object's list of threads. If several threads do this at once, a wait may
/// be lost.
void note_thread(contract::detail& d, std::uint32_t name, std::uint32_t waits, std::uint64_t ticks);

/// Called after a failed trylock, or a failed sem_trywait(). Reads the clock only if the thread's last failure was on
/// another object. Each thread remembers only the object of its last failure.
inline void try_failed(recorded_thread& me, const void* object) {
  if (me.failed_try == object) return;
  me.failed_at = me.of->ticks();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  me.failed_try = object;
  me.unusual |= recorded_thread::has_failed;
}
[[gnu::cold, gnu::noinline]] void record_retry(recorded_thread& me, contract::object& o);
/// Called after any acquisition of the object. Records the time since the thread's first failed trylock of it.
inline void try_ends(recorded_thread& me, contract::object& o, const void* object) {
  if (me.failed_try == object) [[unlikely]]
    record_retry(me, o);
}

template <class T>
void raise_to(std::atomic<T>& w, T value) {
  T seen = w.load(std::memory_order_relaxed);
  while (seen < value && !w.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

/// Records a wait of the calling thread. The constructor records the beginning.
class recorded_wait {
 public:
  /// `has_deadline`: the wait ends at a deadline, so it cannot be part of a deadlock.
  recorded_wait(recorded_thread& me, contract::object& o, contract::kind kind, std::uint64_t caller,
                bool has_deadline = false);
  /// Records that the thread no longer waits; `result` is the call's. Returns the length of the wait in ticks.
  std::uint64_t finish(int result);
  /// False if a signal handler forked this process during the wait: the parent records the wait. Also false if another
  /// recording has begun: the wait is then not recorded.
  bool is_current();
  /// Records a successful wait of `ticks`.
  void book(std::uint64_t ticks) {
    add(object_.contended, 1);
    book_wait(ticks);
  }
  /// Records a wait of `ticks` that timed out.
  void book_timeout(std::uint64_t ticks) {
    add(object_.timeouts, 1);
    book_wait(ticks);
  }
  std::uint64_t ended() const { return ended_; }
  std::uint32_t chain() const { return chain_; }  ///< index + 1; 0: not taken

 private:
  void book_wait(std::uint64_t ticks);

  /// Removes the thread from the object's waiters.
  void leave();
  /// Writes the wait into the thread's chunk.
  [[gnu::noinline]] void note(int result);

  recorded_thread& me_;
  recorder& of_;  ///< me_.of may be another one at the end of the wait
  std::uint64_t recording_;
  contract::thread_slot& slot_;
  contract::object& object_;
  contract::kind kind_;
  std::uint32_t epoch_, chain_ = 0, owner_ = 0;
  std::uint64_t began_, ended_ = 0;
};

/// Keeps the time and the thread of an unlock for the waiter that it lets in, if waits are kept. Called before the unlock, by
/// the thread that makes it, when the entry says that nobody holds the lock.
void note_release(recorded_thread& me, contract::object& o);

// ---- recording.cpp -----------------------------------------------------------------------------------------

/// Starts to record into the file at this path, if the file is a record.
void record_in(const char* path);

/// Whether an observer has requested a recording; record_as_requested() starts it.
bool has_request();
void record_as_requested();

/// Whether the recording is over: the observer has cleared `enabled`, or its heartbeat is overdue. Only for slow paths.
[[gnu::cold, gnu::noinline]] bool has_ended(const recorder& r);
/// Ends the recording in this process. False if it has already ended.
bool leave_recording(recorder& r);

/// Ends the recording in this process, and sets the exported functions' pointers to the unrecorded functions.
[[gnu::cold, gnu::noinline]] void end_recording(recorder& r);

}  // namespace usher::recorder
