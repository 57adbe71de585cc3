// The locks that a trial compares with the C library's.
#pragma once

#include <string>
#include <vector>

#include "tool/trial/trial_options.hpp"
#include "usher/catalog.hpp"

namespace usher::tool::trial {

/// The locks of one run.
struct run_locks {
  const lock_table* mutex = nullptr;  ///< null: the C library's
  std::string rwlock = {};            ///< empty: the C library's

  bool are_c_librarys() const { return mutex == nullptr && rwlock.empty(); }
};

/// A candidate under the name that the user gave (NAME=LOCK), or its own.
struct choice {
  std::string name;
  run_locks locks;
};

/// The candidates of --locks and --rwlocks, without the reference. Without both: all default candidates, of which the
/// plan later takes those that suit the program (plan.hpp). Empty after an error message.
std::vector<choice> choose(const options& o);

}  // namespace usher::tool::trial
