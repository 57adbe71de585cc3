// The streams of `usher record` in the program. record/stream_format.hpp describes the file.
//
//     begin      stream_into() maps the file that USHER_STREAM names. Then connect() leads the exported functions'
//                pointers to streamed_calls, and those of libusher-stat.so to functions of streamed_others.cpp.
//     a call     loads the open window's number. If none is open, it is the unrecorded call.
//     window     the thread's first call in a window takes a chunk. append() writes one call. If there is no room, the thread
//                closes the window for all threads, so that no thread's stream has a gap.
//     a sleep    calls that may sleep note the object in the thread's slot beforehand, in windows and outside.
//     off CPU    the thread's CPU clock is read before a call if the thread has called nothing for long_gap_us, and after
//                calls that took long_call_us.
//
// System calls are made at the start. Later a thread asks for its name and its CPU time only if its process had no system-call
// filter when the window opened, and for its id and its process's at its first call.
//
// This code does not allocate, take a lock, or wait. If a signal handler calls one of the functions while its thread writes
// a call, the window is closed, since the handler's call would be missing. A child of a fork takes slots of its own.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "library/preload/rwlock_table.hpp"
#include "library/preload/selection.hpp"
#include "watch/contract/stream_format.hpp"
#include "watch/recorder/recorder.hpp"

namespace usher::preload {

extern const calls streamed_calls;
extern const rwlock_calls streamed_rwlocks;

/// The file; null: `usher record` does not record this process. Set before the first call, and then never changed.
[[gnu::visibility("hidden")]] extern constinit std::atomic<record::stream_header*> stream_file;

inline bool is_streamed() {
  return stream_file.load(std::memory_order_acquire) != nullptr;
}
/// Maps the file at this path. Called once, before any call leads to streamed_calls.
void stream_into(const char* path);

struct stream_writer {
  std::uint64_t epoch_word = recorded_thread::never;  ///< the process's, if the other fields are valid
  record::stream_slot* slot = nullptr;                ///< null: there was none left
  std::uint32_t process = 0;                          ///< its number in the file
  std::uint64_t window = 0;                           ///< to which the next two belong
  record::stream_call *next = nullptr, *end = nullptr;
  std::uint64_t last = 0;  ///< ticks, when the last call ended
  std::uint64_t beginning = 0;
  bool is_waiting = false;  ///< in the wait for a condition, which unlocks and locks a mutex by our own functions
};
inline constinit thread_local stream_writer this_writer{};

/// Only for functions that connect() has led to.
inline record::stream_header& stream_head() {
  return *stream_file.load(std::memory_order_relaxed);
}
/// 0: none.
inline std::uint64_t open_window() {
  return stream_head().window.load(std::memory_order_acquire);
}
inline std::uint64_t stream_ticks() {
  return ticks_of(stream_head().ticks_are_tsc != 0);
}

/// The calling thread's slot; null if there is none left.
[[gnu::cold, gnu::noinline]] stream_writer* begin_writer(stream_writer& me);
inline stream_writer* own_writer() {
  stream_writer& me = this_writer;
  if (me.epoch_word != usher_process_state.epoch_word.load(std::memory_order_acquire)) [[unlikely]]
    return begin_writer(me);
  return me.slot != nullptr ? &me : nullptr;
}

/// Takes a chunk. False if there is no room, and the window is closed.
[[gnu::cold, gnu::noinline]] bool take_chunk(stream_writer& me, std::uint64_t window);
/// Ends the window early.
[[gnu::cold, gnu::noinline]] void close_window(std::uint64_t window);
/// Appends the reading of the thread's CPU clock, if the thread makes system calls for the recording.
[[gnu::cold, gnu::noinline]] void note_cpu_time(stream_writer& me, std::uint64_t window);

inline void append(stream_writer& me, std::uint64_t window, std::uint64_t word, std::uint64_t other,
                   std::uint64_t begin, std::uint64_t end) {
  std::atomic<std::uint64_t>& busy = me.slot->busy;
  // A word that a handler left by a jump is of an earlier window.
  if (busy.load(std::memory_order_relaxed) == window) [[unlikely]]
    return close_window(window);
  busy.store(window, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if ((me.window == window && me.next != me.end) || take_chunk(me, window)) [[likely]] {
    record::stream_call& c = *me.next++;
    c.word.store(word, std::memory_order_relaxed);
    c.other.store(other, std::memory_order_relaxed);
    c.begin.store(begin, std::memory_order_relaxed);
    c.end.store(end, std::memory_order_release);
    me.last = end;
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  busy.store(0, std::memory_order_relaxed);
}

/// Begins a call in an open window: returns the ticks at its beginning. Reads the CPU clock if it is due.
inline std::uint64_t begin_call(stream_writer& me, std::uint64_t window) {
  const std::uint64_t now = stream_ticks();
  if (me.window == window && now - me.last < record::long_gap_us * stream_head().ticks_a_ms / 1000) [[likely]]
    return now;
  note_cpu_time(me, window);
  return stream_ticks();
}

/// Appends a call that has just returned.
inline void end_call(stream_writer& me, std::uint64_t window, record::verb what, const volatile void* object,
                     std::uint64_t other, std::uint64_t begin, std::uint64_t flags = 0) {
  const std::uint64_t now = stream_ticks();
  append(me, window, record::word_of_call(what, reinterpret_cast<std::uintptr_t>(object)) | flags, other, begin, now);
  if (now - begin >= record::long_call_us * stream_head().ticks_a_ms / 1000) [[unlikely]]
    note_cpu_time(me, window);
}

/// Makes a call that does not wait, and appends it if it succeeds. Afterwards the object may be gone.
template <class F>
[[gnu::noinline]] int call_in(std::uint64_t window, record::verb what, const volatile void* object,
                              std::uint64_t caller, F call) {
  stream_writer* const me = own_writer();
  if (me == nullptr) return call();
  const std::uint64_t began = begin_call(*me, window);
  const int result = call();
  if (result == 0) end_call(*me, window, what, object, caller, began);
  return result;
}

/// A call that may sleep. It is in the thread's slot from the construction until end() or the destruction.
class sleeping_call {
 public:
  sleeping_call(stream_writer& me, record::verb what, const volatile void* object, std::uint64_t other)
      : sleeping_call(me, what, object, other, begin(me)) {}
  sleeping_call(stream_writer& me, record::verb what, const volatile void* object, std::uint64_t other,
                std::uint64_t began)
      : me_(me), object_(object), other_(other), began_(began), epoch_(me.epoch_word) {
    record::stream_slot& s = *me.slot;
    s.call_since.store(began_, std::memory_order_relaxed);
    s.call_other.store(other, std::memory_order_relaxed);
    s.call.store(record::word_of_call(what, reinterpret_cast<std::uintptr_t>(object)), std::memory_order_release);
  }
  sleeping_call(const sleeping_call&) = delete;
  sleeping_call& operator=(const sleeping_call&) = delete;
  ~sleeping_call() { forget(); }

  /// Also for the clean-up of a cancelled thread, which calls no destructors here.
  void forget() { me_.slot->call.store(0, std::memory_order_release); }
  /// Appends the call if a window is open now.
  void end(record::verb what, std::uint64_t flags = 0) {
    forget();
    const std::uint64_t window = open_window();
    if (window == 0 || own_writer() != &me_ || me_.epoch_word != epoch_) return;
    end_call(me_, window, what, object_, other_, began_, flags | record::slow_call);
  }

 private:
  static std::uint64_t begin(stream_writer& me) {
    const std::uint64_t window = open_window();
    return window != 0 ? begin_call(me, window) : stream_ticks();
  }

  stream_writer& me_;
  const volatile void* object_;
  std::uint64_t other_, began_, epoch_;
};

/// Sets usher_recorded_others_v2 to the functions that write streams.
void connect_streamed_others();

}  // namespace usher::preload
