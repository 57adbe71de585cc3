/// Makes a trace for Perfetto of the windows of `usher record`: in a window all calls are known, so each wait has the holder at
/// its beginning and the unlock that ended it.
///
/// The attacker is the recorded program. The calls of a window are checked before (raw_window.hpp); at most most_traced_waits
/// waits are kept, and later windows are left out.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lab/recordings/raw_window.hpp"
#include "watch/access/timeline.hpp"

namespace usher::recording {

inline constexpr std::size_t most_traced_waits = 500'000;  // a file of some 80 MB. Chosen

class window_trace {
 public:
  using time_of = std::function<std::uint64_t(std::uint64_t ticks)>;  // nanoseconds of CLOCK_MONOTONIC
  using site_name = std::function<std::string(std::uint32_t process, std::uint64_t address)>;  // empty: not known

  explicit window_trace(site_name names) : names_(std::move(names)) {}

  void add(const raw_window& w, const time_of& ns);
  /// The number of windows for which there was no room.
  std::size_t left_out() const { return left_out_; }
  const access::timeline& all() const { return all_; }

 private:
  struct hold {
    std::uint64_t from = 0, unlock_began = 0, unlock_ended = 0;  // ticks
    std::uint32_t thread = 0;                                    // its index in the timeline
    bool is_over = false;                                        // the window has the unlock
  };
  using key = std::pair<std::uint32_t, std::uint64_t>;  // process, address
  using holds = std::map<key, std::vector<hold>>;       // of each lock in the order of time

  static void add_holds(holds& to, const raw_window& w, const raw_thread& t, std::uint32_t index);
  void add_wait(const raw_thread& t, std::uint32_t index, const raw_call& c, bool has_ended, const holds& all,
                const time_of& ns);
  std::uint32_t thread_of(const raw_thread& t);
  std::uint32_t object_of(std::uint32_t process, contract::kind what, const raw_call& c);

  site_name names_;
  access::timeline all_;
  std::size_t left_out_ = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> processes_, threads_;  // by the numbers in the file
  std::map<std::pair<key, contract::kind>, std::uint32_t> objects_;
};

}  // namespace usher::recording
