// The protocol by which `usher stat -p` starts a recording in a running process, and obtains the record. The observer is
// `usher stat`; the library is libusher.so in the observed process.
//
//     observer   finds the attach point in the library's data by its magic, and compares the versions
//     observer   stops all threads of the process, writes a request, resets the pointers through which the exported
//                functions jump, and lets the threads go on
//     library    The next call of each function runs the code that selects the pointer's target. The first of these calls
//                sees the request: it makes a sealed file in memory, maps it, starts the recording and publishes the
//                file's descriptor.
//     observer   duplicates the descriptor (pidfd_getfd), checks file and seals, maps it, and sets `taken` in its header
//     library    closes the descriptor at its next slow path
//     observer   writes the header's heartbeat periodically; at the end it clears `enabled`, and frees the file's pages
//     library    ends the recording at its next slow path. It also does so if the heartbeat is overdue, since the
//                observer was then killed.
//
// An observer that finds an earlier request or recording watches the heartbeat for a moment. If the heartbeat advances,
// another observer is at work; if not, the new observer replaces it. Two observers cannot write at the same time, because
// a thread has only one tracer.
//
// Nothing here protects the process from the observer, which may write to all memory of the process. The observer in turn
// trusts nothing that it reads: see watch/reader/attach/attach.cpp.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace usher::inline v2::contract {

/// An observer's request for a recording. The observer writes it while all threads of the process are stopped.
struct attach_request {
  std::uint32_t number;   ///< one more than the previous request's; 0: no request yet
  std::uint32_t objects;  ///< capacity of the table of objects: a power of two
  std::uint32_t hold_times;
  std::uint32_t ticks_are_tsc;
  std::uint32_t with_waits;  ///< each wait is kept
  std::uint32_t reserved;    ///< 0
  std::uint64_t ticks_a_ms;
};

struct alignas(16) attach_point {
  using text = std::array<char, 16>;
  static constexpr text expected{"usher attach v3"};  // the number changes with the layout of this structure
  static constexpr std::uint32_t most_calls = 64;

  text magic;
  text version;             ///< the library's, for example 0.2.0
  std::uint32_t format;     ///< the library's contract::version
  std::uint32_t calls;      ///< number of pointers in current_calls
  void* current_calls;      ///< the pointers through which the exported functions jump
  const void* first_calls;  ///< the initial values of these pointers
  attach_request request;   ///< written by the observer
  std::uint64_t heartbeat;  ///< written by the observer until there is a file: nanoseconds of its own clock
  /// Written by the library after the fields below: the number of the answered request
  std::atomic<std::uint32_t> answered;
  std::atomic<std::int32_t> descriptor;    ///< of the file; −1: closed, or no file
  std::atomic<std::int32_t> error;         ///< errno, if the request failed; else 0
  std::atomic<std::uint32_t> failed_call;  ///< attach_failure: the step that failed
  std::atomic<std::uint64_t> file;         ///< the address of the mapped file; 0: no file
};

enum class attach_failure : std::uint32_t { none, make, resize, seal, map, not_usable };

}  // namespace usher::inline v2::contract

/// The attach point lies in the library's data, where the observer finds it by its magic.
extern "C" [[gnu::visibility("hidden")]] usher::contract::attach_point usher_attach;
