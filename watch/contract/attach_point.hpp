// The protocol by which `usher stat -p` switches the recording on in a running process, and gets its record.
//
//     observer   finds the attach point in the library's data by its magic, and compares the versions
//     observer   stops all threads of the process, writes a request, sets the exported functions' pointers to their
//                first values, and lets the threads go
//     library    The next call of each function selects again which code its pointer leads to. The first of these calls
//                sees the request: it makes a sealed file in memory, maps it, begins to record and publishes the
//                file's descriptor
//     observer   duplicates the descriptor (pidfd_getfd), checks file and seals, maps it, and sets `taken` in its header
//     library    closes the descriptor at its next slow path
//     observer   writes the header's heartbeat periodically; at the end it clears `enabled`, and frees the file's pages
//     library    ends the recording at the next slow path, also if the heartbeat is overdue: the observer was killed
//
// An observer that finds a request, or a recording, watches its heartbeat for a moment. If that advances, the process
// is being observed; if not, the new observer takes the dead one's place. Two observers cannot write at the same time,
// because a thread has one tracer.
//
// Nothing here protects the process from the observer, which may write all of its memory. The observer in turn trusts
// nothing that it reads: see watch/reader/attach/attach.cpp.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace usher::inline v2::contract {

/// An observer's request for a recording. The observer writes it while all threads of the process are stopped.
struct attach_request {
  std::uint32_t number;   ///< one more than the last one's; 0: there was none
  std::uint32_t objects;  ///< room: a power of two
  std::uint32_t hold_times;
  std::uint32_t ticks_are_tsc;
  std::uint32_t with_waits;  ///< each wait is kept
  std::uint32_t reserved;    ///< 0
  std::uint64_t ticks_a_ms;
};

struct alignas(16) attach_point {
  using text = std::array<char, 16>;
  static constexpr text expected{"usher attach v3"};  // the number rises with the layout of this structure
  static constexpr std::uint32_t most_calls = 64;

  text magic;
  text version;                          ///< of the library, as 0.2.0
  std::uint32_t format;                  ///< contract::version
  std::uint32_t calls;                   ///< number of pointers
  void* current_calls;                   ///< the exported functions jump through these
  const void* first_calls;               ///< their values at the beginning
  attach_request request;                ///< by the observer
  std::uint64_t heartbeat;               ///< by the observer, as long as there is no file: nanoseconds of its own clock
  std::atomic<std::uint32_t> answered;   ///< by the library, last: the number of the request that these answer
  std::atomic<std::int32_t> descriptor;  ///< of the file; −1: closed, or there is none
  std::atomic<std::int32_t> error;       ///< of the system call that failed; 0: none
  std::atomic<std::uint32_t> failed_call;  ///< attach_failure
  std::atomic<std::uint64_t> file;         ///< the address of the mapped file; 0: none
};

enum class attach_failure : std::uint32_t { none, make, resize, seal, map, not_usable };

}  // namespace usher::inline v2::contract

/// The attach point lies in the library's data, where the observer finds it by its magic.
extern "C" [[gnu::visibility("hidden")]] usher::contract::attach_point usher_attach;
