// Stops all threads of a process for a moment.
//
// A child of the observer stops them by ptrace. When the child ends, for any reason, the kernel lets all threads go.
// The child dies with the observer, so they also continue if the observer is killed. ^C works meanwhile, because the
// observer itself never waits for a thread.
//
// All threads are asked to stop at once, then awaited together, with one deadline. A thread that sleeps in the kernel
// in state D, as in vfork() or on a slow disk, need not stop: it stops before it returns to the program's code. A
// child that such a thread has made by vfork() shares the memory and runs on until it calls exec: it may call no lock
// function.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>

namespace usher::reader {

struct stand_still {
  std::string error;     ///< one line without a full stop; empty: done
  bool is_busy = false;  ///< another tracer has a thread
  bool is_late = false;  ///< a thread did not stop before the deadline
  double seconds = 0;    ///< from the first thread's stop until the last one went on
  unsigned threads = 0;
};

inline constexpr std::chrono::milliseconds stop_deadline{100};

/// Stops all threads, calls `then`, and lets the threads go, all in a child (in_child.hpp). `then` returns an error
/// message, or an empty string. It gets the ids of the stopped threads, and may use ptrace on them. When `interrupted`
/// returns true, the threads are let go at once.
stand_still while_stopped(pid_t pid, const std::function<std::string(const std::vector<pid_t>&)>& then,
                          const std::function<bool()>& interrupted);

}  // namespace usher::reader
