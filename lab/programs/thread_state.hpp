// Reads from /proc whether a thread is runnable.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "options.hpp"

namespace workloads {

class thread_state {
 public:
  std::atomic<long> through{0};  ///< the last round in which the thread has acquired the mutex again

  explicit thread_state(pid_t thread) {
    const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
    file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) fail("cannot open " + path);
  }
  thread_state(const thread_state&) = delete;
  thread_state& operator=(const thread_state&) = delete;
  ~thread_state() { close(file_); }

  bool runnable() const {
    char text[64];  // "tid (name) state ..."; a name has at most 15 characters
    const ssize_t length = pread(file_, text, sizeof text - 1, 0);
    if (length <= 0) return false;
    text[length] = 0;
    const char* end_of_name = std::strrchr(text, ')');
    return end_of_name != nullptr && std::strncmp(end_of_name, ") R", 3) == 0;
  }

 private:
  int file_;
};

/// Returns how many of the threads that have not finished this round are runnable.
template <class States>
long runnable(const States& states, long number) {
  return std::count_if(states.begin(), states.end(), [number](const auto& state) {
    return state->through.load(std::memory_order_relaxed) < number && state->runnable() &&
           state->through.load(std::memory_order_relaxed) < number;
  });
}

}  // namespace workloads
