// What threads waited for and when, as a trace that Perfetto opens (ui.perfetto.dev): `--trace` of usher stat and usher record.
//
// The names of slices are those by which Perfetto's module android.lock_contention, and with it the plug-in
// com.android.LockContention, recognise waits for locks: they begin with "Lock contention" and contain "(owner tid: N)".
//
// Names, ids and times come from the recorded program, which may choose any. So names are printable, short, and contain no
// second "(owner tid: "; indices are compared with the tables; a wait that is not within the one around it is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "watch/contract/verbs.hpp"

namespace usher::access {

/// Times are nanoseconds of CLOCK_MONOTONIC. Indices lead into the other lists.
struct timeline {
  static constexpr std::uint32_t nobody = ~std::uint32_t{0};

  struct process {
    std::int64_t pid = 0;
    std::string name{};
  };
  struct thread {
    std::uint32_t process = 0;
    std::int64_t tid = 0;
    std::string name{};  ///< empty: not known
  };
  struct object {
    std::uint32_t process = 0;
    contract::kind kind{};
    std::string name{};
  };
  struct wait {
    std::uint32_t thread = 0, object = 0;
    std::uint64_t begin = 0, end = 0;  ///< `end` 0: it has not ended
    std::int64_t owner = 0;            ///< the id of the lock's holder at the beginning; 0: not known
    bool gave_up = false;              ///< at a deadline
    std::uint32_t releaser = nobody;   ///< the thread whose unlock ended the wait
    std::uint64_t released = 0;        ///< when it did
    std::string where{};               ///< the place in the program that waits; empty: not known
  };
  struct interval {
    std::uint64_t begin = 0, end = 0;
  };
  /// The three clocks at one moment, so that other traces of this computer can be set beside this one.
  struct clocks {
    std::uint64_t monotonic = 0, boot = 0, real = 0;
    static clocks now();
  };

  clocks at{};
  std::vector<process> processes{};
  std::vector<thread> threads{};
  std::vector<object> objects{};
  std::vector<wait> waits{};
  std::vector<interval> recorded{};  ///< the times of which all waits are there; in order
};

/// The trace: a protocol buffer of the type perfetto.protos.Trace. Waits with an invalid index, or that end before they begin, are
/// left out. The objects with the most waiting time, at most `most_counters`, have a counter of their waiters.
inline constexpr std::size_t most_counters = 16;  // chosen
std::string as_perfetto(const timeline& t);

}  // namespace usher::access
