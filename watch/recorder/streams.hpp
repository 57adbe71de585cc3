// Writes the streams of `usher record` in the recorded process. watch/contract/stream_format.hpp describes the file.
//
//     begin      stream_into() maps the file that USHER_STREAM names. Then connect() points the exported functions and
//                those of libusher-stat.so to the wrappers (wrappers.hpp) for the sink `streams`.
//     a call     loads the open window's number. If no window is open, the call is not recorded; a call that may sleep
//                still tries to acquire the object first.
//     window     The thread's first call in a window takes a chunk. append() writes one call. If there is no room, the
//                thread closes the window for all threads, so that no thread's stream has a gap.
//     a sleep    A call that may sleep first writes its object to the thread's slot, even if no window is open.
//     off CPU    The thread's CPU clock is read before a call if the thread's last call ended long_gap_us ago or earlier,
//                and after calls that took long_call_us or more.
//
// System calls are made at the start, and at a thread's first call for its id and its process's id. Later a thread reads
// its name and its CPU time only if its process had no system-call filter when the window opened.
//
// This code does not allocate, take a lock, or wait. If a signal handler calls one of the functions while its thread
// writes a call, the window is closed, since the handler's call would be missing. A child of a fork takes its own slots.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <type_traits>

#include "library/preload/selection.hpp"
#include "watch/contract/stream_format.hpp"
#include "watch/recorder/objects.hpp"
#include "watch/recorder/recorder.hpp"

namespace usher::recorder {

/// The file; null: `usher record` does not record this process. Set before the first call, and never changed.
[[gnu::visibility("hidden")]] extern constinit std::atomic<contract::stream_header*> stream_file;

inline bool is_streamed() {
  return stream_file.load(std::memory_order_acquire) != nullptr;
}
/// Maps the file at this path. Called once, before streamed_tables is used.
void stream_into(const char* path);

struct stream_writer {
  std::uint64_t epoch_word = recorded_thread::never;  ///< the process's epoch word, if the other fields are valid
  contract::stream_slot* slot = nullptr;              ///< null: no slot was free
  std::uint32_t process = 0;                          ///< the process's number in the file
  std::uint64_t window = 0;                           ///< the window of `next` and `end`
  contract::stream_call *next = nullptr, *end = nullptr;
  std::uint64_t last = 0;  ///< ticks: when the last call ended
  std::uint64_t beginning = 0;
  /// In a wait for a condition variable that unlocks and locks the mutex by Usher's functions
  bool is_waiting = false;
};
inline constinit thread_local stream_writer this_writer{};

/// Only for functions of streamed_tables.
inline contract::stream_header& stream_head() {
  return *stream_file.load(std::memory_order_relaxed);
}
/// 0: no window is open.
inline std::uint64_t open_window() {
  return stream_head().window.load(std::memory_order_acquire);
}
inline std::uint64_t stream_ticks() {
  return ticks_of(stream_head().ticks_are_tsc != 0);
}

/// The calling thread's writer; null if no slot is free.
[[gnu::cold, gnu::noinline]] stream_writer* begin_writer(stream_writer& me);
inline stream_writer* own_writer() {
  stream_writer& me = this_writer;
  if (me.epoch_word != usher_process_state.epoch_word.load(std::memory_order_acquire)) [[unlikely]]
    return begin_writer(me);
  return me.slot != nullptr ? &me : nullptr;
}

/// Takes a chunk. If there is no room, closes the window and returns false.
[[gnu::cold, gnu::noinline]] bool take_chunk(stream_writer& me, std::uint64_t window);
[[gnu::cold, gnu::noinline]] void close_window(std::uint64_t window);
/// Appends a reading of the thread's CPU clock, if the thread may make system calls for the recording.
[[gnu::cold, gnu::noinline]] void note_cpu_time(stream_writer& me, std::uint64_t window);

inline void append(stream_writer& me, std::uint64_t window, std::uint64_t word, std::uint64_t other,
                   std::uint64_t begin, std::uint64_t end) {
  std::atomic<std::uint64_t>& busy = me.slot->busy;
  // If a handler left append() by longjmp(), the word has the number of an earlier window.
  if (busy.load(std::memory_order_relaxed) == window) [[unlikely]]
    return close_window(window);
  busy.store(window, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if ((me.window == window && me.next != me.end) || take_chunk(me, window)) [[likely]] {
    contract::stream_call& c = *me.next++;
    c.word.store(word, std::memory_order_relaxed);
    c.other.store(other, std::memory_order_relaxed);
    c.begin.store(begin, std::memory_order_relaxed);
    c.end.store(end, std::memory_order_release);
    me.last = end;
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  busy.store(0, std::memory_order_relaxed);
}

/// Begins a call in an open window: returns its beginning in ticks. Reads the CPU clock if it is due.
inline std::uint64_t begin_call(stream_writer& me, std::uint64_t window) {
  const std::uint64_t now = stream_ticks();
  if (me.window == window && now - me.last < contract::long_gap_us * stream_head().ticks_a_ms / 1000) [[likely]]
    return now;
  note_cpu_time(me, window);
  return stream_ticks();
}

/// Appends a call of this thread that has just returned.
[[gnu::noinline]] void end_call(std::uint64_t window, std::uint64_t word, std::uint64_t other, std::uint64_t begin);

inline std::uint64_t word_of(contract::verb what, const void* object) {
  return contract::word_of_call(what, reinterpret_cast<std::uintptr_t>(object));
}
class sleeping_call {
 public:
  sleeping_call(stream_writer& me, contract::verb what, const void* object, std::uint64_t other, std::uint64_t began)
      : me_(me), object_(object), other_(other), began_(began), epoch_(me.epoch_word) {
    contract::stream_slot& s = *me.slot;
    s.call_since.store(began_, std::memory_order_relaxed);
    s.call_other.store(other, std::memory_order_relaxed);
    s.call.store(word_of(what, object), std::memory_order_release);  // pairs with the observer's load
  }
  sleeping_call(const sleeping_call&) = delete;
  sleeping_call& operator=(const sleeping_call&) = delete;
  ~sleeping_call() { forget(); }

  stream_writer& writer() const { return me_; }
  /// Removes the call from the slot. Also called for a cancelled thread, which runs no destructors here.
  void forget() { me_.slot->call.store(0, std::memory_order_release); }
  /// Appends the call if a window is open now.
  void end(contract::verb what, std::uint64_t flags = 0) {
    forget();
    const std::uint64_t window = open_window();
    if (window == 0 || own_writer() != &me_ || me_.epoch_word != epoch_) return;
    end_call(window, word_of(what, object_) | flags | contract::slow_call, other_, began_);
  }

 private:
  stream_writer& me_;
  const void* object_;
  std::uint64_t other_, began_, epoch_;
};

// ---- the sink ----------------------------------------------------------------------------------------------

/// Writes calls into the open window. While no window is open it records only where threads sleep, except for
/// read-write locks. A stream does not contain initialisations and destructions of objects, holders, or failed tries
/// other than of mutexes. Spin locks and embedded locks are not recorded; a flag in the file's header shows whether
/// spin locks were used.
struct streams {
  static constexpr bool has_embedded = false, is_mostly_idle = true;

  struct call {            // two words, which are returned in registers
    std::uint64_t window;  ///< 0: no window is open
    std::uint64_t began;   ///< ticks, if a window is open
    explicit operator bool() const { return window != not_noted; }
  };
  static constexpr std::uint64_t not_noted = ~std::uint64_t{0};

  static bool is_idle() { return open_window() == 0; }
  template <class Object>
  [[gnu::always_inline]] static call begins_idly(const Object&) {
    constexpr bool is_spin = Object::kind == contract::kind::spin;
    if constexpr (is_spin) note_unrecorded();
    return {is_spin || Object::kind == contract::kind::rwlock ? not_noted : 0, 0};
  }
  template <class Object>
  [[gnu::always_inline]] static call begins(const Object& object, std::uint64_t) {
    const std::uint64_t window = Object::kind != contract::kind::spin ? open_window() : 0;
    return window == 0 ? begins_idly(object) : begins_in<Object>(window);
  }
  template <class Object>
  [[gnu::always_inline]] static call tries(const Object& object, std::uint64_t caller) {
    const call c = begins(object, caller);
    return {c.window == 0 ? not_noted : c.window, c.began};
  }

  template <class Object>
  static bool is_unusual(const call&, const Object&) {
    return false;
  }
  static bool has_failed_try(const call&) { return false; }
  template <class Object>
  static bool is_free(const call&, const Object&) {
    return false;
  }

  template <class Object>
  [[gnu::always_inline]] static void acquired(const call& c, const Object& object, std::uint64_t caller, int) {
    if (c.window != 0) [[unlikely]]
      end_call(c.window, word_of(Object::acquires, object.key) | flags_of(object), caller, c.began);
  }
  template <class Object>
  [[gnu::always_inline]] static void acquired_plainly(const call& c, const Object& object, std::uint64_t caller) {
    acquired(c, object, caller, 0);
  }
  template <class Object>
  static void acquired_by_try(const call& c, const Object& object, std::uint64_t caller, int) {
    acquired(c, object, caller, 0);
  }
  template <class Object>
  static void try_failed(const call& c, const Object& object, std::uint64_t caller) {
    if constexpr (Object::kind == contract::kind::mutex)
      end_call(c.window, word_of(contract::verb::try_lock_failed, object.key), caller, c.began);
  }

  template <class Object>
  static bool may_wait(const call& c) {
    return c.window != 0 || writer_for<Object>() != nullptr;
  }
  /// Until the wait ends, the thread's slot shows it, even if no window is open: a window may open and close before the
  /// call returns. The unlock and lock in a wait for a condition variable are part of that wait.
  template <class Object>
  static sleeping_call wait_begins(const call& c, const Object& object, const wait_call& how) {
    const std::uint64_t began = c.window != 0 ? c.began : stream_ticks();
    std::uint64_t other = how.caller;
    if constexpr (Object::kind == contract::kind::condition) {
      other = reinterpret_cast<std::uintptr_t>(object.mutex);
      this_writer.is_waiting = true;
    }
    return {this_writer, Object::acquires, object.key, other, began};
  }
  template <class Object>
  static void wait_ends(sleeping_call& w, const Object& object, int result) {
    constexpr contract::kind kind = Object::kind;
    if constexpr (kind == contract::kind::condition) {
      w.writer().is_waiting = false;
      if (result == 0 || result == ETIMEDOUT || result == ECANCELED)
        return w.end(result == 0 ? contract::verb::wait : contract::verb::wait_timed_out);
    } else {
      const bool is_over = kind == contract::kind::barrier && result == PTHREAD_BARRIER_SERIAL_THREAD;
      if (is_acquired(result) || is_over) return w.end(Object::acquires, flags_of(object));
      if (kind == contract::kind::mutex && result == ETIMEDOUT) return w.end(contract::verb::try_lock_failed);
    }
    w.forget();
  }

  template <class Object, class Unlock>
  [[gnu::always_inline]] static int released(const Object& object, std::uint64_t caller, Unlock unlock) {
    const std::uint64_t window = Object::kind != contract::kind::spin ? open_window() : 0;
    if (window == 0) [[likely]]
      return unlock();
    return released_in(window, object, caller, unlock);
  }

  template <class Object>
  [[gnu::always_inline]] static call signals(const Object& object, contract::verb, std::uint64_t caller) {
    return tries(object, caller);
  }
  template <class Object>
  static void signalled(const call& c, const Object& object, contract::verb what, std::uint64_t caller) {
    end_call(c.window, word_of(what, object.key), caller, c.began);
  }

  static constexpr bool comes_last(const call&, const barrier_object&) { return false; }
  static void came_last(const call&, bool) {}
  static void joined(pthread_t, std::uint64_t) {}
  template <class Object, class... Others>
  static void made(const Object&, Others...) {}
  template <class Object>
  static void destroyed(const Object&) {}
  static void yielded() {}

 private:
  template <class Object>
  static std::uint64_t flags_of(const Object& object) {
    return object.is_recursive() ? contract::recursive_call : 0;
  }
  template <class Object>
  static stream_writer* writer_for() {
    constexpr bool is_in_waits = Object::kind == contract::kind::mutex || Object::kind == contract::kind::condition;
    stream_writer* const me = own_writer();
    return me != nullptr && !(is_in_waits && me->is_waiting) ? me : nullptr;
  }
  template <class Object>
  [[gnu::noinline]] static call begins_in(std::uint64_t window) {
    stream_writer* const me = writer_for<Object>();
    if (me == nullptr) return {not_noted, 0};
    return {window, begin_call(*me, window)};
  }
  template <class Object, class Unlock>
  [[gnu::noinline]] static int released_in(std::uint64_t window, Object object, std::uint64_t caller, Unlock unlock) {
    const call c = begins_in<Object>(window);
    if (!c) return unlock();
    // Before the unlock: afterwards the object may be gone
    const std::uint64_t word = word_of(Object::releases, object.key) | flags_of(object);
    const int result = unlock();
    if (result == 0) end_call(window, word, caller, c.began);
    return result;
  }
  static void note_unrecorded() {
    auto& noted = stream_head().unrecorded;
    if (noted.load(std::memory_order_relaxed) == 0) noted.store(1, std::memory_order_relaxed);
  }
};

}  // namespace usher::recorder
