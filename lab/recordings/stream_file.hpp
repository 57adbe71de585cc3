/// The observer's side of the file in shared memory to which the threads of a recorded program write their calls
/// (watch/contract/stream_format.hpp).
///
/// The attacker is the recorded program, which may write anything into the file at any time. The file is sealed, so
/// that no page of it can be removed. The observer does not read its own numbers (capacities, the window) from the
/// file, and checks calls in a private copy (raw_window.hpp). It uses process and thread numbers from the file only to
/// read /proc.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/recordings/living_threads.hpp"
#include "lab/recordings/raw_window.hpp"
#include "support/process/owned_descriptor.hpp"
#include "watch/access/record_file.hpp"
#include "watch/access/shared_record.hpp"

namespace usher::recording {

class stream_file {
 public:
  /// `calls`: the number of calls that a window has room for. Throws std::runtime_error.
  explicit stream_file(std::size_t calls);

  int descriptor() const { return descriptor_.get(); }
  const std::string& path() const { return path_; }
  access::tick_clock& clock() { return clock_; }

  void open_window();
  /// Whether the window is still open. A thread closes the window if there is no room for its call.
  bool is_open() const;
  /// The used share of the window's room, 0 to 1.
  double used() const;
  /// Closes the window and returns its calls; nullopt if they contradict each other.
  std::optional<raw_window> close_window();

  /// The number of programs that have opened the file; the number that refused it, because their library has another
  /// version of the format.
  std::uint32_t opened() const { return read(head().opened); }
  std::uint32_t refused() const { return read(head().refused); }
  std::uint32_t without_slot() const { return read(head().no_slot); }
  bool has_unrecorded() const { return read(head().unrecorded) != 0; }
  /// The number of threads of processes that /proc does not show.
  std::uint32_t hidden() const { return hidden_; }
  /// The number of threads of processes with a system-call filter.
  std::uint32_t filtered() const { return filtered_; }
  bool is_partial() const { return read(head().partial) != 0; }

 private:
  struct known_thread {
    std::uint32_t process = 0, tid = 0, number = 0;
    std::uint64_t self = 0;
    std::uint64_t started = 0;  // 0: not seen yet
    bool is_hidden = false, is_filtered = false;
    std::optional<thread_state> before;
  };

  template <class T>
  static T read(const std::atomic<T>& w) {
    return w.load(std::memory_order_relaxed);
  }
  contract::stream_header& head() const { return *static_cast<contract::stream_header*>(memory_.begin()); }
  contract::stream_slot* slots() const;
  std::uint32_t threads() const;
  void give_numbers(std::vector<raw_thread>& threads);
  std::optional<thread_state> look_at(raw_thread& t);
  void permit_calls(const std::vector<raw_thread>& threads);
  void await_writers() const;

  access::tick_clock clock_;
  contract::stream_room room_;
  support::owned_descriptor descriptor_;
  std::string path_;
  access::mapped_memory memory_;
  living_threads living_;
  std::uint64_t window_ = 0, opened_ = 0;
  std::vector<known_thread> known_;  // by slot
  std::uint32_t next_thread_ = 0, hidden_ = 0, filtered_ = 0;
};

}  // namespace usher::recording
