// Runs commands in parallel, each with a time limit, so that work in parts uses all CPUs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/process/process.hpp"

namespace usher::support {

struct command_to_run {
  std::vector<std::string> words;
  double limit = 0;  ///< in seconds
  std::size_t id = 0;
};

struct ended_run {
  ended end;
  bool timed_out = false;
  std::string out, err;  ///< standard output, and the end of standard error
};

/// Runs the commands that `next` returns, at most `jobs` at a time (0: one for each CPU), until it returns nullopt or
/// the user interrupts.
void run_side_by_side(unsigned jobs, const std::function<std::optional<command_to_run>()>& next,
                      const std::function<void(std::size_t id, const ended_run&)>& done);

/// Runs one command and waits for its end.
ended_run run_command(const std::vector<std::string>& words, double limit);

}  // namespace usher::support
