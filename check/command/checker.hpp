// Runs the checker's programs: finds them, lists their targets, and reads their output.
//
// The checker is not part of `usher`, because relacy replaces the allocator of the program that contains it. The
// checker consists of two programs in one folder. usher_check has the targets and the few mutants that the tests need.
// usher_check_mutants has all other mutants; it is a separate program because these mutants take longer to build than
// the rest.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "check/command/check_results.hpp"
#include "support/process/side_by_side.hpp"

namespace usher::check::command {

/// The reason why there is no checker; one line.
struct no_checker {
  std::string reason;
};

/// The path of usher_check: the one that USHER_CHECKER names, else the one near this program.
std::variant<std::string, no_checker> find_checker();

/// The text of a line of the sources that the checker was built from; empty if the file is not found. The file is
/// searched for at its path during the build, then near this program.
std::string source_line(const std::string& file, unsigned line);

/// A source file without the folders that depend on the machine: "usher/locks/twa.hpp".
std::string short_name(const std::string& file);

/// A lock, waiting list, condition variable or semaphore in one form, or a mutant of one.
struct target {
  std::string name, family;
  std::string mutation;  ///< what the mutant changes; empty: the shipped code
  std::vector<std::string> scenarios;
  unsigned usual_threads = 3;
  std::string checker;  ///< the path of the program that has it
};

/// Whether usher_check_mutants, which has the other mutants, is in the checker's folder.
bool has_all_mutants(const std::string& checker);

/// The targets of the checker and of usher_check_mutants beside it. Throws if one of these programs fails.
std::vector<target> all_targets(const std::string& checker);

/// The outcome of one run of the checker for one part.
struct verdict {
  enum class kind { pass, fail, crashed, hung, broken } way = kind::pass;  ///< broken: the checker itself failed
  std::string why;
  std::uint64_t executions = 0;
  std::uint64_t programs = 0;
  double seconds = 0;
  std::string state;  ///< of the execution that failed; empty: unknown

  bool failed() const { return way != kind::pass; }
};

/// The output of one run of the checker.
struct reply {
  std::vector<verdict> verdicts;
  std::vector<step> steps;
  std::vector<std::string> other;  ///< lines that are neither
};

/// Reads a run's output. If the run crashed or hung, the last verdict says so.
reply reply_of(const support::ended_run& run, double limit);

}  // namespace usher::check::command
