// Waits until a thread of this process sleeps in the kernel.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>

namespace planted {

/// Waits until another thread sleeps. The thread first stores its id in `thread`, which is 0 before. Polls every 0.1
/// ms, and returns after `limit` at the latest, since a waiter may also poll and never sleep.
inline void await_asleep(const std::atomic<pid_t>& thread, std::chrono::milliseconds limit) {
  while (thread == 0) sched_yield();
  char path[64], line[512];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread.load());
  constexpr timespec moment{0, 100000};
  const auto end = std::chrono::steady_clock::now() + limit;
  for (; std::chrono::steady_clock::now() < end; nanosleep(&moment, nullptr)) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t size = file < 0 ? -1 : read(file, line, sizeof line - 1);
    if (file >= 0) close(file);
    if (size <= 0) return;  // the thread has ended
    line[size] = 0;
    const char* const name_ends = std::strrchr(line, ')');
    if (name_ends != nullptr && name_ends[2] == 'S') return;
  }
}

}  // namespace planted
