/// A recording: what the threads of a program did with their locks in some windows of time, as `usher record` writes it and
/// `usher predict` replays it. The file's layout is in docs/predict.md; file.hpp reads and writes it.
///
/// All times are in nanoseconds. A recording has no addresses, no names and no data of the program, unless names were asked for.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "watch/contract/verbs.hpp"

namespace usher::recording {

inline constexpr std::uint32_t no_thread = ~std::uint32_t{0};

constexpr bool is_mutex(record::kind k) {
  return k == record::kind::mutex || k == record::kind::recursive_mutex;
}

/// Whether the verb has an object of this kind; an `end` has none.
constexpr bool fits(record::verb v, record::kind k) {
  const record::kind wanted = object_of(v);
  if (wanted == record::kind::none) return v == record::verb::end;
  return k == wanted || (wanted == record::kind::mutex && is_mutex(k));
}

/// One step of a thread: work, then time off the CPU, then a call. The sum of all is the time from one call's end to the next one's.
struct event {
  record::verb what{};
  std::uint32_t object = 0;  // index in recording::objects
  std::uint32_t other = 0;   // of a wait: the mutex
  std::uint64_t work = 0;    // CPU time since the previous event, outside of calls; with recorded_on::between_ns
  std::uint64_t away =
      0;  // time off the CPU since the previous event, outside of calls: blocked, sleeping or preempted
  std::uint64_t wait = 0;   // from the call until it returned, also if it did not wait; 0 of calls that never wait
  std::uint64_t aside = 0;  // before the call: what recording took beyond between_ns, and time without a CPU
};

/// What one thread did in one window.
struct stream {
  std::uint32_t thread = 0;  // the same number in all windows
  std::uint64_t begins = 0;  // since the window's beginning
  std::vector<event> events;
  bool begins_in_call = false;    // the first event's call began before the window; its `wait` is the part within
  std::vector<event> unfinished;  // the call that had not returned at the window's end, if any; `wait`: until that end
};

/// All threads' streams in one interval of time.
struct window {
  std::uint64_t begins = 0;  // since the recording's beginning
  std::uint64_t length = 0;
  std::uint64_t lost = 0;  // events for which there was no room
  std::vector<stream> streams;
};

/// An object that two threads or more have used. `site` groups objects that one instruction initialised or locked first.
struct object {
  record::kind kind{};
  std::uint32_t site = 0;
  std::string name;                  // empty unless names were asked for
  std::uint32_t thread = no_thread;  // of an object of the kind `thread`: stream::thread, if it has a stream
};

struct thread_role {
  std::uint32_t thread = 0;
  std::string role;  // from --threads-are, or the number of a group of threads with like streams
};

/// The machine on which the recording was made.
struct recorded_on {
  std::uint32_t cpus = 0;
  std::string processor, c_library, lock;  // the lock under which the program ran
  double call_ns = 0;                      // what recording one call costs, measured there
  double between_ns = 0;                   // what of it lies before the call
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
