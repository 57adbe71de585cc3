// Which locks a trial compares with the C library's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/trial/options.hpp"
#include "cli/trial/results.hpp"
#include "usher/catalog.hpp"

namespace usher::cli::trial {

/// A lock under the name that the user gave (NAME=LOCK, or its own).
struct choice {
  std::string name;
  const lock_table* lock;
};

/// What was asked for, without the reference; by default all of those of which the trial, once it knows the program, takes some:
/// see sensible(). Empty after an error message.
std::vector<choice> choose(const options& o);

/// Whether an unlock gives the lock to one certain thread, running or not. Such a lock must lose, on short critical sections, where
/// there are more threads than CPUs.
bool hands_over(const lock_table& lock);

struct sensible_choice {
  std::vector<choice> taken;
  std::vector<left_out_seen> left_out;
};

/// Of the default candidates those for a program with so many threads (0: not known) on so many CPUs.
sensible_choice sensible(const std::vector<choice>& all, std::uint64_t threads, unsigned cpus);

/// How many of the default candidates a trial has at least: the default lock, and one that sleeps at once.
inline constexpr std::size_t fewest_candidates = 2;

}  // namespace usher::cli::trial
