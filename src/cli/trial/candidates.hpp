// The locks that a trial compares with the C library's.
#pragma once

#include <string>
#include <vector>

#include "cli/trial/trial_options.hpp"
#include "usher/catalog.hpp"

namespace usher::cli::trial {

/// A lock under the name that the user gave (NAME=LOCK, or its own).
struct choice {
  std::string name;
  const lock_table* lock;
};

/// The candidates of --locks, without the reference. Without --locks: all default candidates, of which the plan later
/// takes those that suit the program (plan.hpp). Empty after an error message.
std::vector<choice> choose(const options& o);

}  // namespace usher::cli::trial
