// The work of a check: goals, each with its parts, and each part's executions in chunks of one process each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/checking/check_options.hpp"
#include "cli/checking/checker.hpp"
#include "cli/checking/order_site.hpp"

namespace usher::cli::checking {

/// One scenario of one form of a target, with a number of threads.
struct part {
  const target* form;
  std::string scenario;
  unsigned threads;
};

/// Some executions of a part: one run of the checker.
struct chunk {
  std::size_t part;
  std::uint64_t seed, count;
  std::optional<reply> said;

  /// Null: the chunk has passed, or has not ended.
  const verdict* failure() const {
    if (!said || said->verdicts.empty() || !said->verdicts.back().failed()) return nullptr;
    return &said->verdicts.back();
  }
};

/// All parts must pass; or, for a mutant or a weakened order, the first part that fails reaches the goal.
struct goal {
  static constexpr std::size_t none = ~std::size_t{0};

  std::string family, mutation;
  std::optional<order_site> weakened;
  bool must_fail = false;
  std::vector<part> parts;
  std::vector<chunk> chunks;
  std::size_t first_failure = none;  ///< index of a chunk, if the goal is a failure
};

/// The goals that the options name. Nothing after an error message. The goals point into `all`.
std::optional<std::vector<goal>> choose(const options& o, const std::string& checker, const std::vector<target>& all);

/// One goal for each memory order of the chosen targets and for each way to weaken it. Nothing after an error message.
std::optional<std::vector<goal>> weaken(const options& o, const std::string& checker, const std::vector<goal>& chosen);

void cut_into_chunks(const options& o, std::vector<goal>& goals);

/// The command that runs the checker for a part, without the number of executions.
std::vector<std::string> command_of(const options& o, const part& p, const std::optional<order_site>& weakened);

/// Seconds after which a run of the checker counts as hung.
double time_limit(std::uint64_t executions);

}  // namespace usher::cli::checking
