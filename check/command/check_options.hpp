// The values of the options of `usher check`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace usher::check::command {

inline constexpr unsigned least_threads = 2, most_threads = 4;
inline constexpr unsigned default_acquisitions = 2;

struct options {
  std::vector<std::string> locks;
  bool all = false, mutants = false, weaken = false, list = false, quiet = false;
  std::vector<unsigned> threads;   ///< empty: each target's usual number
  std::vector<std::string> forms;  ///< empty: all
  std::uint64_t executions = 20000, seed = 1;
  std::string replay, scenario, scheduler = "random", json, show, weaken_at;
  unsigned differences = 2, acquisitions = default_acquisitions, jobs = 0;
  std::uint64_t programs = 0;  ///< 0: until the executions are used up

  bool random() const { return scheduler == "random"; }
};

}  // namespace usher::check::command
