// A subcommand: its options, and the function that carries it out.
#pragma once

#include <functional>
#include <vector>

namespace CLI {
class App;
}

namespace usher::support {

struct subcommand {
  CLI::App* options;

  /// Returns the exit status. `command` is the program to start with its arguments, as in argv: ended by a
  /// null pointer, empty if none was given.
  std::function<int(char** command)> carry_out;

  /// Whether a command to start follows the options: `usher run --lock twa -- CMD ARGS…`.
  bool takes_command = false;

  /// Whether another executable carries out the subcommand. Then `carry_out` gets all words unparsed, from the
  /// subcommand's name on.
  bool elsewhere = false;
};

/// The subcommands of this executable. Each executable defines this function; each subcommand adds itself to `app`.
std::vector<subcommand> subcommands(CLI::App& app);

// Summaries of the subcommands of other executables, for `usher --help`.
inline constexpr const char* stat_summary = "Show which mutexes are hot, with holders and waiters";
inline constexpr const char* top_summary = "Show what the threads of a running process wait for";
inline constexpr const char* diff_summary = "Compare two recordings of usher stat: what became hotter";
inline constexpr const char* report_summary = "Make a page of results, to read in a browser or to send";
inline constexpr const char* record_summary = "Record what threads do with their locks, for predictions";
inline constexpr const char* sim_summary = "Simulate a benchmark on another machine";
inline constexpr const char* predict_summary = "Predict a recorded program on another machine";
inline constexpr const char* bench_summary = "Run a benchmark on this computer";

}  // namespace usher::support
