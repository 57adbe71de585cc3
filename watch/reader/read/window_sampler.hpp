// Follows how the waiting for each object grows while the program runs, as sums over successive windows of the recording.
// The recorder does nothing for it: the observer reads the counts that the record has anyway, at each sample.
//
// The attacker is the recorded program, which may write anything into the record at any time: each word is read once,
// the growth between two samples is limited by what threads can wait in that time, and so is the number of series.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "watch/contract/format.hpp"
#include "watch/contract/live.hpp"

namespace usher::reader {

/// Windows are as long as each other, except for the last. Times are ticks.
struct waiting_windows {
  struct series {
    contract::kind what = contract::kind::none;
    std::uint32_t whom = 0;             ///< as of a charge: an object's index, or of_place + chain
    std::vector<std::uint64_t> waited;  ///< by window, of all threads
  };
  std::vector<std::uint64_t> ends;     ///< since the beginning of the recording
  std::vector<std::uint64_t> threads;  ///< by window: the sum of the threads' lifetimes in it
  std::vector<series> all;
};

class window_sampler {
 public:
  /// The number of windows at which neighbours become one, so that an hour takes as much room as two seconds. Chosen.
  static constexpr std::size_t most_windows = 64;
  static constexpr std::size_t most_series = 4096;     ///< objects and places that are followed. Chosen
  static constexpr std::uint32_t most_details = 8192;  ///< contended objects that are looked at. Chosen

  /// `begin`: the beginning of the recording, in ticks.
  window_sampler(contract::live record, std::uint64_t begin) : record_(record), begin_(begin), last_(begin) {}

  void sample(std::uint64_t now);
  /// The windows so far; the last one is as short as its samples.
  waiting_windows windows() const;

 private:
  struct followed {
    waiting_windows::series kept;
    std::uint64_t total = 0;    ///< in this sample
    std::uint64_t reached = 0;  ///< the largest total so far: an object that is destroyed moves its counts to a sum
    std::uint64_t open = 0;     ///< of the window that is not full yet
  };

  void add_object(std::uint32_t index, std::uint64_t now);
  std::uint64_t waited_by(const contract::object& o, contract::kind what, std::uint64_t key, std::uint64_t now) const;
  std::uint64_t add_objects(std::uint64_t now);
  void close_window();
  void halve();

  contract::live record_;
  std::uint64_t begin_, last_;
  std::vector<followed> all_;
  std::unordered_map<std::uint64_t, std::size_t> places_;  ///< by kind and `whom`
  std::vector<std::uint64_t> ends_, threads_;
  std::uint64_t open_threads_ = 0;
  std::size_t samples_a_window_ = 1, samples_ = 0;  ///< of the open window
};

}  // namespace usher::reader
