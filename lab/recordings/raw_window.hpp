/// The calls of a window as the recorded program's threads wrote them, and the check of what they wrote.
///
/// The attacker is the recorded program, which may write anything into the file at any time. So the chunks and slots are a
/// private copy; each number is compared with its limit, and a window whose times contradict each other is dropped.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "watch/contract/stream_format.hpp"

namespace usher::recording {

/// Times are ticks.
struct raw_call {
  record::verb what{};
  bool slow = false, recursive = false;
  std::uint64_t object = 0;  // 48 bits of its address
  std::uint64_t other = 0;   // a wait: the mutex's address. cpu_clock: nanoseconds. Else the caller
  std::uint64_t begin = 0, end = 0;
};

/// What the kernel tells of a thread at a window's edge.
struct thread_state {
  std::uint64_t cpu_ns = 0;
  bool runs = false;            // on a CPU or ready for one; then cpu_ns may lack the time since the last tick
  std::uint32_t processor = 0;  // the CPU on which it was last
  std::uint64_t at = 0;         // ticks, when this was read; 0: at the edge itself
  std::string name = {};
  std::uint64_t started = 0;  // the thread, in the kernel's ticks since boot
};

struct raw_thread {
  enum class life : std::uint8_t { unknown, lives, over };

  std::uint32_t slot = 0, thread = 0;           // `thread`: its number, which it has in all windows
  std::uint32_t process = 0, pid = 0, tid = 0;  // as the thread sees them itself
  std::uint64_t mapped_at = 0;                  // the address of the file in its process
  life is = life::unknown;                      // by living_threads, as are the next two
  pid_t seen_pid = 0, seen_tid = 0;             // in this process's /proc; 0: not known
  std::uint64_t self = 0;                       // pthread_self()
  std::string name;
  std::vector<raw_call> calls;       // in order; none begins before the end of the one before
  std::optional<raw_call> sleeping;  // the call in which the thread is at the window's end
  std::optional<thread_state> before, after;
};

struct raw_window {
  std::uint64_t opened = 0, closed = 0;
  std::uint64_t lost = 0;
  std::vector<raw_thread> threads;
};

/// The name with each control character and non-ASCII byte replaced by '?', since it could change a terminal.
std::string plain_name(std::string name);

/// Reads the slots of all threads, without calls.
std::vector<raw_thread> threads_of(std::span<const record::stream_slot> slots);

/// Adds the calls of the chunks to w.threads, which have been read by threads_of(), and cuts them at w.closed. False: the
/// window must be dropped.
bool add_calls(raw_window& w, std::span<const record::stream_chunk> chunks, std::uint64_t window);

}  // namespace usher::recording
