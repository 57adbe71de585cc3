// The locks that a trial compares with the C library's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/trial/trial_options.hpp"
#include "cli/trial/trial_results.hpp"
#include "usher/catalog.hpp"

namespace usher::cli::trial {

/// A lock under the name that the user gave (NAME=LOCK, or its own).
struct choice {
  std::string name;
  const lock_table* lock;
};

/// The candidates of --locks, without the reference. By default all default candidates; the trial takes some of them as soon as it
/// knows the program, see sensible(). Empty after an error message.
std::vector<choice> choose(const options& o);

/// Whether unlock() hands the lock over to one certain thread, running or not. With more threads than CPUs and short critical sections
/// such a lock must lose.
bool hands_over(const lock_table& lock);

struct sensible_choice {
  std::vector<choice> taken;
  std::vector<left_out_lock> left_out;
};

/// The default candidates for a program with so many threads (0: not known) on so many CPUs.
sensible_choice sensible(const std::vector<choice>& all, std::uint64_t threads, unsigned cpus);

/// The number of default candidates that every trial has: the default lock, and a lock whose waiters sleep at once.
inline constexpr std::size_t fewest_candidates = 2;

}  // namespace usher::cli::trial
