// The work of a check: goals, which have parts. The executions of a part are divided into chunks, each run by one
// process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "check/command/check_options.hpp"
#include "check/command/checker.hpp"
#include "check/command/order_site.hpp"

namespace usher::check::command {

/// One scenario of one form of a target, with a number of threads.
struct part {
  const target* form;
  std::string scenario;
  unsigned threads;
};

/// Consecutive executions of a part, which one run of the checker performs.
struct chunk {
  std::size_t part;
  std::uint64_t seed, count;
  std::optional<reply> said;

  /// The verdict if the chunk has failed; null if it has passed or has not ended.
  const verdict* failure() const {
    if (!said || said->verdicts.empty() || !said->verdicts.back().failed()) return nullptr;
    return &said->verdicts.back();
  }
};

/// Parts that succeed or fail together. For shipped code all parts must pass. For a mutant or a weakened order one part
/// must fail, and the first that fails ends the goal.
struct goal {
  static constexpr std::size_t none = ~std::size_t{0};

  std::string family, mutation;
  std::optional<order_site> weakened;
  bool must_fail = false;
  std::vector<part> parts;
  std::vector<chunk> chunks;
  std::size_t first_failure = none;  ///< index of a chunk, if the goal is a failure
};

/// Returns the goals that the options name, which point into `all`. Nullopt after an error message.
std::optional<std::vector<goal>> choose(const options& o, const std::string& checker, const std::vector<target>& all);

/// One goal for each memory order of the chosen targets and for each way to weaken it. Nullopt after an error message.
std::optional<std::vector<goal>> weaken(const options& o, const std::string& checker, const std::vector<goal>& chosen);

void cut_into_chunks(const options& o, std::vector<goal>& goals);

/// The command that runs the checker for a part, without the number of executions.
std::vector<std::string> command_of(const options& o, const part& p, const std::optional<order_site>& weakened);

/// The number of seconds after which a run of the checker counts as hung.
double time_limit(std::uint64_t executions);

}  // namespace usher::check::command
