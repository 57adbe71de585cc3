// The child process of remote_symbols.hpp, and the parent's end of the channel to it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <set>
#include <string>

#include "watch/reader/attach/process_place.hpp"
#include "watch/reader/name/symbols.hpp"

namespace usher::reader {

inline constexpr std::size_t most_queries = 1024;  ///< in one message; chosen

class name_child {
 public:
  using deadline = std::chrono::steady_clock::time_point;

  /// Forks; the child runs `body`. If the fork fails, all sends and receives fail.
  explicit name_child(const std::function<void(int channel)>& body);
  /// Kills the child, and waits for its end for at most a fifth of a second.
  ~name_child();
  name_child(const name_child&) = delete;
  name_child& operator=(const name_child&) = delete;

  pid_t pid() const { return pid_; }
  /// Sends all bytes. False if the deadline has passed, if the child has closed its end, or if a signal that ends the
  /// command is pending.
  bool send_all(const void* from, std::size_t size, deadline until) const;
  bool receive_all(void* to, std::size_t size, deadline until) const;

 private:
  bool is_ready(short event, deadline until) const;

  int channel_ = -1;
  pid_t pid_ = -1;
};

/// Whether a signal that ends the command is pending. `usher stat` blocks these signals while it records.
bool is_to_end();

/// The child's work: it confines itself, reports whether it can serve, and answers queries until the channel is closed.
/// A message of queries is their number, at most most_queries, followed by the queries.
[[noreturn]] void serve_names(int channel, pid_t parent, const process_place& place, contract::view record,
                              const std::set<std::string>& left_out);

}  // namespace usher::reader
