// `usher stat` in the program: what the recorded calls share. The file's layout, and who writes what: record/layout.hpp.
//
// Nothing here allocates, takes a lock of anybody's, or waits. What a signal handler interrupts it may call itself: an entry is
// claimed by one compare-and-swap, and what is counted twice or not at all then is one call.
//
// Which thread of which incarnation calls is cached in thread-local storage; the fork epoch tells when that is a parent's. The
// file stays mapped for good: a thread may be anywhere when the recording ends.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "preload/mutex_table.hpp"
#include "preload/unwind.hpp"
#include "record/layout.hpp"
#include "usher/platform/native.hpp"

namespace usher::preload {

/// A file that is recorded into, as this process sees it.
struct recorder {
  record::view file;
  record::header* head;
  record::object* objects;
  record::detail* details;
  std::uint32_t most_objects;
  std::uint32_t hold_times;
  std::uint64_t ticks_a_ms;
  bool tsc;
  std::atomic<std::uint64_t> process;       ///< fork epoch << 32 | slot + 1
  std::atomic<std::uint64_t> next_maps;     ///< ticks: the mappings are not read again before
  std::atomic<std::uint32_t> maps_are_due;  ///< they were to be read, but it was too early

  std::uint64_t ticks() const {
#if defined(__x86_64__)
    if (tsc) return __rdtsc();
#endif
    return native::now();
  }
};

/// Null: nothing is recorded.
extern constinit std::atomic<recorder*> current_recorder;

inline bool is_recorded() {
  return current_recorder.load(std::memory_order_relaxed) != nullptr;
}

/// set(whether it is recorded), and again if that has changed meanwhile: several threads may come here at once, while one of
/// them begins or ends a recording. A thread that looks before the change has also written before the thread that made it.
template <class F>
void as_recorded(F set) {
  const recorder* seen;
  do {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    seen = current_recorder.load(std::memory_order_relaxed);
    set(seen != nullptr);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } while (current_recorder.load(std::memory_order_relaxed) != seen);
}

struct alignas(64) recorded_thread {
  recorder* of;
  record::thread_slot* slot;  ///< null: it found none, and is not recorded
  std::uint64_t key_base;     ///< what keys of its process have above the address
  std::uint32_t epoch;        ///< fork epoch for which all of this is so
  std::uint32_t name;         ///< slot + 1, as `owner` has it
  // What a lock call needs of the recorder and of the selection, on the line that it reads anyway.
  record::object* objects;
  const mutex_table* table;
  std::uint32_t last_object;  ///< of the table, which has a power of two of them
  std::uint64_t next_sample;  ///< ticks: no waiter's chain before
  stack_bounds stack;

  record::object* find(const void* address) const {
    const std::uint64_t key = key_base | (reinterpret_cast<std::uintptr_t>(address) & 0xffffffffffffu);
    std::uint32_t i = record::first_place(key, last_object + 1);
    for (std::uint32_t n = 0; n < record::longest_search; n++, i = (i + 1) & last_object) {
      record::object& o = objects[i];
      const std::uint64_t seen = o.key.load(std::memory_order_acquire);
      if (seen == key) [[likely]]
        return &o;
      if (seen == 0) return nullptr;
    }
    return nullptr;
  }
  std::uint32_t index(const record::object& o) const { return std::uint32_t(&o - objects); }
};

inline constinit thread_local recorded_thread this_thread{};

inline constexpr std::uint32_t no_room = ~std::uint32_t{0};  ///< in object::detail: none was left

/// The calling thread, if it is recorded.
[[gnu::cold, gnu::noinline]] recorded_thread* begin_thread(recorder& r);
inline recorded_thread* recorded_self() {
  recorder* const r = current_recorder.load(std::memory_order_acquire);
  if (r == nullptr) [[unlikely]]
    return nullptr;
  recorded_thread& me = this_thread;
  if (me.of != r || me.epoch != native::fork_epoch()) [[unlikely]]
    return begin_thread(*r);
  return me.slot != nullptr ? &me : nullptr;
}

/// An entry for an object that has none: null if there is no room. `caller`: where the program called us.
[[gnu::cold, gnu::noinline]] record::object* begin_object(recorded_thread& me, const void* address, record::kind kind,
                                                          bool recursive, bool from_init, std::uint64_t caller);

/// Whether it is of another kind: memory has been used again, which std::mutex and std::condition_variable do not tell of.
inline bool is_another(const record::object& o, record::kind kind) {
  return (o.depth_and_kind.load(std::memory_order_relaxed) & 0xff) != std::uint32_t(kind);
}
/// The entry ends with the object that it was for, as far as that can be seen; and one begins.
[[gnu::cold, gnu::noinline]] record::object* begin_anew(recorded_thread& me, record::object& before,
                                                        const void* address, record::kind kind, bool recursive,
                                                        std::uint64_t caller);

inline record::object* find_or_begin(recorded_thread& me, const void* address, record::kind kind,
                                     std::uint64_t caller) {
  record::object* const o = me.find(address);
  if (o == nullptr) [[unlikely]]
    return begin_object(me, address, kind, false, false, caller);
  return is_another(*o, kind) ? begin_anew(me, *o, address, kind, false, caller) : o;
}

/// The object is destroyed: its figures go to the sum of its place. A static one keeps its entry.
void end_object(recorded_thread& me, record::object& o);

/// After an object is initialised: ends an entry that its address still has, and begins one. Null where nothing is recorded.
record::object* begin_initialised(const void* address, record::kind kind, bool recursive);
/// Before an object is destroyed.
void end_destroyed(const void* address);

/// The calling thread and the entry of the object that it calls about, which begins if it has none.
struct recorded_call {
  recorded_thread* thread;
  record::object* entry;  ///< null: the call is not recorded
};
inline recorded_call find_recorded(const void* address, record::kind kind, std::uint64_t caller) {
  recorded_thread* const me = recorded_self();
  return {me, me != nullptr ? find_or_begin(*me, address, kind, caller) : nullptr};
}

/// The object's histograms and threads: null if there is no room.
record::detail* detail_of(recorded_thread& me, record::object& o);
/// The same, but null also where the object has none yet.
inline record::detail* existing_detail(const recorded_thread& me, const record::object& o) {
  const std::uint32_t at = o.detail.load(std::memory_order_relaxed);
  return at != 0 && at != no_room ? &me.of->details[at - 1] : nullptr;
}

/// The calling thread's chain: its index + 1, or 0 if there is no room.
std::uint32_t take_chain(recorded_thread& me);

/// Who is charged with waiting for an object.
std::uint32_t charge_target(const recorded_thread& me, const record::object& o);
void charge(recorder& r, record::charged what, record::kind kind, std::uint32_t whom, std::uint32_t chain,
            std::uint64_t count, std::uint64_t ticks);

inline void add(record::word64& w, std::uint64_t n) {
  w.fetch_add(n, std::memory_order_relaxed);
}
inline void add(record::word32& w, std::uint32_t n) {
  w.fetch_add(n, std::memory_order_relaxed);
}
template <class T>
void raise_to(std::atomic<T>& w, T value) {
  T seen = w.load(std::memory_order_relaxed);
  while (seen < value && !w.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

/// A wait, from its beginning to its end.
class recorded_wait {
 public:
  /// The thread begins to wait.
  recorded_wait(recorded_thread& me, record::object& o, record::kind kind, std::uint64_t caller);
  /// It waits no more, for whatever reason. Returns the ticks that it has waited.
  std::uint64_t finish();
  /// False in a child that a signal handler has forked meanwhile: the wait is the parent's, who books it. And where another
  /// recording has begun meanwhile: it is over, and not booked.
  bool is_current();
  /// It has what it waited for: books `ticks`.
  void book(std::uint64_t ticks) {
    add(object_.contended, 1);
    book_wait(ticks);
  }
  /// It gave up at its deadline: it waited all the same.
  void book_timeout(std::uint64_t ticks) {
    add(object_.timeouts, 1);
    book_wait(ticks);
  }
  std::uint64_t ended() const { return ended_; }
  std::uint32_t chain() const { return chain_; }  ///< + 1; 0: none was taken

 private:
  void book_wait(std::uint64_t ticks);

  /// Takes it off those that wait.
  void leave();

  recorded_thread& me_;
  recorder& of_;  ///< me_'s may be another one when the wait is over
  record::thread_slot& slot_;
  record::object& object_;
  record::kind kind_;
  std::uint32_t epoch_, chain_ = 0;
  std::uint64_t began_, ended_ = 0;
};

/// Begins to record into the file of that name, if it is one.
void record_in(const char* path, const mutex_table& table);

/// Ends the recording; the launcher has said so in the file.
[[gnu::cold, gnu::noinline]] void end_recording(recorder& r);
inline bool has_ended(const recorder& r) {
  return r.head->enabled.load(std::memory_order_relaxed) == 0;
}

}  // namespace usher::preload
