// The checker: programs of their own, for relacy puts its own allocator in the place of everybody's. Where they are, how they
// are asked, and what they answer.
//
// usher_check has the locks, and beside it usher_check_mutants the seeded mistakes, but for a few: those take longer to build.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/process/side_by_side.hpp"

namespace usher::cli {

/// Why there is no checker, for people; one line.
struct no_checker {
  std::string reason;
};

/// The path of usher_check: the one that USHER_CHECKER names, else the one near this program.
std::variant<std::string, no_checker> find_checker();

/// The text of a line of the sources that the checker was built from; empty if the file is not to be found.
/// They are looked for where they were when it was built, and near this program.
std::string source_line(const std::string& file, unsigned line);

/// A file of the sources, as people call it: "usher/locks/twa.hpp".
std::string short_name(const std::string& file);

/// A lock in one form, or what else can be checked.
struct checkable {
  std::string name, family;
  std::string bug;  ///< what is wrong with it on purpose, if anything
  std::vector<std::string> clients;
  unsigned usual_threads = 3;  ///< so many where nobody says how many
  std::string checker;         ///< the path of the program that has it
};

/// Whether the program with all seeded mistakes is there, beside the checker.
bool has_all_mistakes(const std::string& checker);

/// What can be checked, by the checker or the program with the mistakes beside it. Throws where one does not answer.
std::vector<checkable> what_can_be_checked(const std::string& checker);

/// A step of an execution.
struct step {
  unsigned thread = 0;
  std::string file;
  unsigned line = 0;
  std::string what;
};

/// What the checker said about one client of one lock.
struct verdict {
  enum class kind { pass, fail, crashed, hung, broken } way = kind::pass;  ///< broken: the checker itself
  std::string client;
  unsigned threads = 0;
  std::string why;
  std::uint64_t executions = 0;
  std::uint64_t programs = 0;
  double seconds = 0;
  std::string state;  ///< of the execution that failed, if that is known
};

/// All that one run of the checker printed.
struct answer {
  std::vector<verdict> verdicts;
  std::vector<step> steps;
  std::vector<std::string> other;  ///< lines that are neither
};

/// Understands a run's output. A run that crashed or hung has a last verdict that says so.
answer understand(const ended_run& run, double limit);

}  // namespace usher::cli
