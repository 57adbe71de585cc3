/// A recording: the calls by which the threads of a program used its locks, in several windows of time. `usher record`
/// writes it and `usher predict` replays it. docs/predict.md describes the file's layout; file.hpp reads and writes it.
///
/// All times are in nanoseconds. A recording contains no addresses, names or data of the program, unless names were
/// requested.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "watch/contract/verbs.hpp"

namespace usher::recording {

inline constexpr std::uint32_t no_thread = ~std::uint32_t{0};

constexpr bool is_mutex(contract::kind k) {
  return k == contract::kind::mutex || k == contract::kind::recursive_mutex;
}

/// Whether the verb has an object of this kind; an `end` has none.
constexpr bool fits(contract::verb v, contract::kind k) {
  const contract::kind wanted = contract::object_of(v);
  if (wanted == contract::kind::none) return v == contract::verb::end;
  return k == wanted || (wanted == contract::kind::mutex && is_mutex(k));
}

/// One step of a thread: work, then time off the CPU, then a call. The sum of its four times is the time from the end
/// of the previous call to the end of this one.
struct event {
  contract::verb what{};
  std::uint32_t object = 0;  // index in recording::objects
  std::uint32_t other = 0;   // of a wait: the mutex
  std::uint64_t work = 0;    // CPU time since the previous event, outside of calls; with recorded_on::between_ns
  std::uint64_t away =
      0;  // time off the CPU since the previous event, outside of calls: blocked, sleeping or preempted
  std::uint64_t wait = 0;   // from the call until it returned, also if it did not wait; 0 of calls that never wait
  std::uint64_t aside = 0;  // before the call: what recording took beyond between_ns, and time without a CPU
};

/// The events of one thread in one window.
struct stream {
  std::uint32_t thread = 0;  // the same number in all windows
  std::uint64_t begins = 0;  // ns since the window's beginning
  std::vector<event> events;
  bool begins_in_call = false;    // the first event's call began before the window; its `wait` begins there
  std::vector<event> unfinished;  // the call that had not returned at the window's end, if any; its `wait` ends there
};

/// The streams of all threads in one interval of time.
struct window {
  std::uint64_t begins = 0;  // ns since the recording's beginning
  std::uint64_t length = 0;
  std::uint64_t lost = 0;  // number of events for which there was no room
  std::vector<stream> streams;
};

/// An object that at least two threads have used. Objects that the same instruction initialised or locked first have
/// the same `site`.
struct object {
  contract::kind kind{};
  std::uint32_t site = 0;
  std::string name;                  // empty unless names were requested
  std::uint32_t thread = no_thread;  // for the kind `thread`: its stream::thread, if it has a stream
};

struct thread_role {
  std::uint32_t thread = 0;
  std::string role;  // from --threads-are; otherwise the number of a group of threads with similar streams
};

/// The machine on which the recording was made.
struct recorded_on {
  std::uint32_t cpus = 0;
  std::string processor, c_library, lock;  // the lock under which the program ran
  double call_ns = 0;                      // cost of recording one call, measured on this machine
  double between_ns = 0;                   // the part of call_ns before the beginning of the call
  double transfer_ns = 0;                  // one transfer of a cache line between two CPUs
  double wake_ns = 0;                      // from a wake-up to the woken thread's return
};

struct recording {
  recorded_on machine;
  std::vector<object> objects;
  std::vector<thread_role> roles;
  std::vector<window> windows;
};

}  // namespace usher::recording
