// Stops all threads of a process for a moment.
//
// A child of the observer stops them by ptrace. When the child ends, for any reason, the kernel lets all threads
// continue. The child dies with the observer, so the threads also continue if the observer is killed. ^C works in the
// meantime, because the observer itself never waits for a thread.
//
// First all threads are requested to stop, then all are awaited, with one deadline. A thread that sleeps in the kernel
// in state D, for example in vfork() or on a slow disk, need not stop: it will stop before it returns to the program's
// code. A child made by vfork() shares the memory and runs on until it calls exec, but it may not call lock functions.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>

namespace usher::reader {

struct stand_still {
  std::string error;     ///< one line without a full stop; empty: success
  bool is_busy = false;  ///< another tracer is attached to a thread
  bool is_late = false;  ///< a thread did not stop before the deadline
  double seconds = 0;    ///< from the first thread's stop until the last thread continued
  unsigned threads = 0;
};

inline constexpr std::chrono::milliseconds stop_deadline{100};

/// Stops all threads, calls `then`, and lets the threads continue, all in a child (in_child.hpp). `then` returns an
/// error message, or an empty string. It gets the ids of the stopped threads, and may use ptrace on them. When
/// `interrupted` returns true, the threads continue at once.
stand_still while_stopped(pid_t pid, const std::function<std::string(const std::vector<pid_t>&)>& then,
                          const std::function<bool()>& interrupted);

}  // namespace usher::reader
