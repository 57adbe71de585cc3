// Runs the passes in a child process, and gets sightings from it.
//
// A read of the process's memory may block for as long as the process wants (userfaultfd, FUSE). So the passes run in a
// child: if it sleeps in one system call for a second it is killed, or left behind if it cannot be killed, and another
// one goes on, which reads no memory of the process any more. A child that only gets no CPU is waited for.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "watch/reader/look/sighting.hpp"

namespace usher::reader {

struct look_options {
  std::chrono::nanoseconds period{50'000'000};  ///< of passes
  std::uint32_t most_threads = 16384;
};

/// Why a child was given up.
enum class look_trouble : std::uint8_t {
  none,
  blocked,  ///< it slept in a system call
  busy,     ///< it ran without progress
  starved,  ///< it got no CPU
  ended     ///< by itself
};

class looker {
 public:
  using interruption = std::function<bool()>;

  looker(pid_t pid, look_options options);
  looker(const looker&) = delete;
  looker& operator=(const looker&) = delete;
  ~looker();

  /// Asks for a closer look, and waits for it. Nullopt: interrupted, or no child can be started, or none comes to an end.
  std::optional<sighting> look(const interruption& interrupted);
  /// Why the first child was given up, after which no memory of the process is read any more.
  look_trouble trouble() const { return trouble_; }
  /// CPU seconds of the children that were given up and of the one that runs.
  double cpu_seconds() const;

 private:
  struct board;
  void start();
  void end();
  look_trouble receive(std::string& bytes, const interruption& interrupted);

  pid_t pid_;
  look_options options_;
  std::shared_ptr<board> board_;
  pid_t child_ = -1;
  int channel_ = -1;
  unsigned given_up_ = 0;
  look_trouble trouble_ = look_trouble::none;
};

}  // namespace usher::reader
