// The streams of `usher record`: the layout of a file in memory, shared by the observer and all processes of the program.
//
// The library writes calls (watch/recorder/streams.hpp) while a window, an interval of recording, is open. The observer
// opens and closes windows, and reads them (lab/recordings/stream_file.hpp).
//
//     header     options, capacities, the window
//     threads    one slot for each thread, from its first recorded call on; the call in which it waits now
//
// While no window is open, a call only reads `window`. A call that may sleep also writes to the thread's slot, so a
// window that opens meanwhile contains the call.
//
// A call's words are written before its `end`, which is 0 in an unwritten entry. So a thread that is preempted during a
// write hides only its last call. The pages of a chunk are used again in the next window but one: a thread stopped for
// so long during a write leaves a call with an old time there, which the observer detects.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "watch/contract/verbs.hpp"

namespace usher::inline v2::contract {

inline constexpr const char* stream_file_name = "usher record";  ///< of the file in memory
inline constexpr const char* stream_variable = "USHER_STREAM";   ///< environment variable with the file's path
inline constexpr std::uint64_t stream_magic = 0x3174707374727375;
inline constexpr std::uint32_t stream_version = 4;

/// The number of entries of each table.
struct stream_room {
  std::uint32_t threads = 1024;
  std::uint32_t chunks = 0;  ///< in one window

  static constexpr std::uint32_t most_threads = 1 << 14, most_chunks = 1 << 16;
  bool operator==(const stream_room&) const = default;
};

struct alignas(4096) stream_header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t ticks_are_tsc;  ///< 1: ticks of the time stamp counter; 0: nanoseconds of CLOCK_MONOTONIC
  std::uint64_t size;           ///< of the file
  std::uint64_t ticks_a_ms;     ///< approximate, for thresholds
  stream_room room;
  std::atomic<std::uint32_t> opened;  ///< the number of programs that opened the file
  /// The version of a library that does not write here because its version differs
  std::atomic<std::uint32_t> refused;
  std::atomic<std::uint32_t> processes;   ///< numbers used so far; a fork and an exec each use a new one
  std::atomic<std::uint32_t> threads;     ///< slots taken so far; may exceed the room
  std::atomic<std::uint32_t> no_slot;     ///< threads that found no slot
  std::atomic<std::uint32_t> partial;     ///< 1: a program without libusher-stat.so has opened the file
  std::atomic<std::uint32_t> unrecorded;  ///< 1: a spin lock was locked, or another call was made that is not recorded
  char lock[32];                          ///< the lock's name, written by the first process
  /// The number of the open window, 1 or more; 0: none is open. It has a cache line of its own, which is rarely
  /// written.
  alignas(128) std::atomic<std::uint64_t> window;
  alignas(128) std::atomic<std::uint32_t> next_chunk;  ///< in this window; may exceed the room
  std::atomic<std::uint64_t> closed_at;                ///< ticks, if a thread closed the window
  std::atomic<std::uint64_t> lost;                     ///< calls that found no room
  /// The numbers of the processes that had no system-call filter at the observer's last look, each at index number %
  /// processes_at_once. Written by the observer. Only their threads make system calls for the recording, since a filter
  /// may kill a process for one.
  static constexpr std::uint32_t processes_at_once = 896;
  alignas(128) std::atomic<std::uint32_t> unfiltered[processes_at_once];
};
static_assert(sizeof(stream_header) == 4096);

struct alignas(128) stream_slot {
  std::atomic<std::uint32_t> tid;      ///< 0: not yet filled in
  std::atomic<std::uint32_t> pid;      ///< in the process's own pid namespace
  std::atomic<std::uint32_t> process;  ///< number of the process, 1 or more
  /// 1, written by the observer: the thread has ended. 2: another thread took the slot
  std::atomic<std::uint32_t> over;
  std::atomic<std::uint64_t> self;       ///< pthread_self()
  std::atomic<std::uint64_t> mapped_at;  ///< the file's address in the process; an exec changes it
  std::atomic<std::uint64_t> name[2];    ///< the thread's name when it last began a window; before that the process's
  std::atomic<std::uint64_t> busy;       ///< the window whose call the thread is writing; 0: none
  // The call that may sleep in which the thread is now.
  std::atomic<std::uint64_t> call;        ///< word_of_call(); 0: none
  std::atomic<std::uint64_t> call_other;  ///< as stream_call::other
  std::atomic<std::uint64_t> call_since;  ///< ticks
};
static_assert(sizeof(stream_slot) == 128);

/// A word for a call: the low 48 bits are the object's address, above are the verb, flags, and call_mark, which makes
/// the word non-zero. `slow_call`: the call did not return at once. `recursive_call`: the mutex is recursive.
inline constexpr std::uint64_t slow_call = std::uint64_t{1} << 61, recursive_call = std::uint64_t{1} << 62,
                               call_mark = std::uint64_t{1} << 63;
constexpr std::uint64_t word_of_call(verb what, std::uint64_t address) {
  return call_mark | std::uint64_t(what) << 48 | (address & 0xffffffffffffu);
}

struct stream_call {
  /// word_of_call(). The address of a cpu_clock is 1 + the number of times that the thread gave up its CPU; 0: not known.
  std::atomic<std::uint64_t> word;
  /// A wait: the mutex. Other calls: the caller's address. A cpu_clock: the thread's CPU time
  std::atomic<std::uint64_t> other;
  std::atomic<std::uint64_t> begin;  ///< ticks
  std::atomic<std::uint64_t> end;    ///< ticks, written last; 0: this entry and all later ones are unused
};

struct alignas(4096) stream_chunk {
  static constexpr std::uint32_t length = 127;
  std::atomic<std::uint64_t> window;
  std::atomic<std::uint32_t> thread;  ///< slot + 1
  std::uint32_t reserved;
  std::uint64_t also_reserved[2];
  stream_call calls[length];
};
static_assert(sizeof(stream_chunk) == 4096);

/// After a gap between two calls, or a call, of at least so many microseconds the thread's CPU clock is read. Chosen:
/// reading costs about a microsecond.
inline constexpr std::uint64_t long_gap_us = 20, long_call_us = 5;

constexpr std::uint64_t stream_threads_at = sizeof(stream_header);
constexpr std::uint64_t stream_chunks_at(const stream_room& r) {
  return stream_threads_at + sizeof(stream_slot) * ((std::uint64_t{r.threads} + 31) / 32 * 32);
}
constexpr std::uint64_t stream_file_size(const stream_room& r) {
  return stream_chunks_at(r) + 2 * sizeof(stream_chunk) * std::uint64_t{r.chunks};
}
constexpr bool is_possible(const stream_room& r) {
  return r.threads != 0 && r.threads <= stream_room::most_threads && r.chunks != 0 &&
         r.chunks <= stream_room::most_chunks;
}
/// The index of a window's first chunk.
constexpr std::uint64_t first_chunk(const stream_room& r, std::uint64_t window) {
  return (window & 1) != 0 ? r.chunks : 0;
}

}  // namespace usher::inline v2::contract
