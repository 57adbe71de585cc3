// Makes the report of a look from a sighting and names: objects with holders and waiters, chains, findings.
//
// A holder is named only if a second reading has found the waiter in the same call and the same words, and the waiter
// has not run in between (sighted_thread::is_confirmed), and if the id in the words is that of a living thread. All
// members of a circle slept at one moment, between the two readings, so the circle was there then.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "watch/reader/look/look_names.hpp"
#include "watch/reader/look/look_report.hpp"
#include "watch/reader/look/sighting.hpp"

namespace usher::reader {

inline constexpr double lost_after =
    10;  ///< seconds in which a free lock's word does not change although threads sleep

/// A thread of another process, which a process-shared object names.
struct outside_thread {
  shown_id tid, pid;
  std::string name;
  char state = '?';
};

struct look_subject {
  std::int64_t pid = 0;
  std::int64_t own_pid = 0;  ///< 0: the same
  c_library libc = c_library::unknown;
  bool is_under_usher = false;
  /// The thread of another process with this id in the process's PID namespace, if that process maps the memory at the
  /// address too; nullopt: none, or not known.
  std::function<std::optional<outside_thread>(std::uint32_t own, std::uint64_t address)> outside;
};

/// Adds threads, waits, chains, findings and counts to `to`.
void assemble(const sighting& s, look_names& names, const look_subject& subject, look_report& to);

/// Whether threads sleep although a lock is free, and it may turn out within lost_after seconds that this lasts.
bool has_suspect(const look_report& r);

}  // namespace usher::reader
