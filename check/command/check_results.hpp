// The results of a check: runs fill them, and reports read them. check_json.hpp converts them to JSON and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace usher::check::command {

/// The action of one thread in one step of an execution, and the line of the sources that it executes.
struct step {
  unsigned thread = 0;
  std::string file;  ///< as "usher/locks/twa.hpp"; empty: the step belongs to no line
  unsigned line = 0;
  std::string what;
  std::string code;  ///< the text of the line; empty: unknown
};

/// The execution with which a target failed.
struct failure {
  std::string lock;  ///< one form of it
  std::string scenario;
  unsigned threads = 0;
  std::string why;
  std::string replay;            ///< the argument of --replay; empty: the execution is unknown
  std::size_t steps_before = 0;  ///< steps of the execution that precede `steps`
  std::vector<step> steps;       ///< the last ones; empty: not recorded
};

/// All executions of one goal, or of one part of it, up to the first failure.
struct outcome {
  std::uint64_t executions = 0;
  std::uint64_t programs = 0;  ///< searched completely
  double seconds = 0;
  bool finished = true;  ///< false: interrupted without a failure
  std::optional<failure> failed;
};

/// One scenario of one form of a target, which must pass.
struct part_result {
  std::string lock, family, scenario;
  unsigned threads = 0;
  outcome seen;
};

struct mutant_result {
  std::string name, mutation;
  std::vector<std::string> forms;
  outcome seen;

  /// Whether the checker is known not to catch the mutant; docs/verification.md gives the reason. tools/mutants.py
  /// writes this suffix.
  bool may_escape() const { return mutation.ends_with("(known to escape)"); }
};

/// One weakened memory order.
struct order_result {
  std::string lock, file;
  unsigned line = 0, column = 0;
  std::string made;  ///< the order that it became, or "removed"
  std::string code;
  std::vector<std::string> forms;
  outcome seen;
};

enum class goal_kind {
  pass,     ///< each part must pass
  mutants,  ///< each mutant must be caught
  orders,   ///< each weakened order: caught, or not
};

struct results {
  static constexpr int format = 1;

  std::string usher, date;
  goal_kind kind = goal_kind::pass;
  std::string scheduler;
  unsigned differences = 0;    ///< of bound searches
  std::uint64_t programs = 0;  ///< that were to be searched; 0: as many as the executions allow
  unsigned acquisitions = 0;
  std::uint64_t seed = 0, executions = 0;  ///< of each part
  bool interrupted = false;
  bool good = true;  ///< the exit status is 0
  // `kind` says which of the three lists is filled.
  std::vector<part_result> parts;
  std::vector<mutant_result> mutants;
  std::vector<order_result> orders;

  bool random() const { return scheduler == "random"; }
  /// Whether all programs were searched. False: the limit of executions was reached before.
  bool is_complete(const outcome& o) const { return programs == 0 || o.programs >= programs; }
};

}  // namespace usher::check::command
