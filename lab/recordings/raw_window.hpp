/// Reads and checks the calls that the recorded program's threads wrote in a window.
///
/// The attacker is the recorded program, which may write anything into the shared file at any time. So the chunks and
/// slots are first copied to private memory, each number is compared with its limit, and a window with contradictory
/// times is dropped.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "watch/contract/stream_format.hpp"

namespace usher::recording {

/// A call as a thread wrote it. Times are in ticks.
struct raw_call {
  contract::verb what{};
  bool slow = false, recursive = false;
  std::uint64_t object = 0;  // 48 bits of its address
  std::uint64_t other = 0;   // of a wait: the mutex's address; of cpu_clock: ns; otherwise the calling instruction
  std::uint64_t begin = 0, end = 0;
};

/// The kernel's data on a thread at the beginning or the end of a window.
struct thread_state {
  std::uint64_t cpu_ns = 0;
  bool runs = false;            // on a CPU or ready; then cpu_ns may lack the time since the last tick
  std::uint32_t processor = 0;  // the CPU on which it was last
  std::uint64_t at = 0;         // when this was read, in ticks; 0: exactly at the window's edge
  std::string name = {};
  std::uint64_t started = 0;  // start time of the thread, in the kernel's ticks since boot
};

struct raw_thread {
  enum class life : std::uint8_t { unknown, lives, over };

  std::uint32_t slot = 0, thread = 0;           // `thread`: a number that is the same in all windows
  std::uint32_t process = 0, pid = 0, tid = 0;  // ids in the thread's own PID namespace
  std::uint64_t mapped_at = 0;                  // the file's address in the thread's process
  life is = life::unknown;                      // set by living_threads, like the next two
  pid_t seen_pid = 0, seen_tid = 0;             // ids in this process's /proc; 0: unknown
  std::uint64_t self = 0;                       // pthread_self()
  std::string name;
  std::vector<raw_call> calls;       // in order; each begins after the previous one has ended
  std::optional<raw_call> sleeping;  // the call that has not returned at the window's end
  std::optional<thread_state> before, after;
};

struct raw_window {
  std::uint64_t opened = 0, closed = 0;
  std::uint64_t lost = 0;
  std::vector<raw_thread> threads;
};

/// The name with each control character and non-ASCII byte replaced by '?', since it could change a terminal.
std::string plain_name(std::string name);

/// Reads the slots of all threads, without their calls.
std::vector<raw_thread> threads_of(std::span<const contract::stream_slot> slots);

/// Adds the calls in the chunks to w.threads, which threads_of() has filled, and cuts the calls at w.closed. False: the
/// calls contradict each other, and the window must be dropped.
bool add_calls(raw_window& w, std::span<const contract::stream_chunk> chunks, std::uint64_t window);

}  // namespace usher::recording
