// What a subcommand gives to main: its options, and the function that carries it out.
#pragma once

#include <functional>
#include <vector>

namespace CLI {
class App;
}

namespace usher::cli {

struct subcommand {
  CLI::App* options;

  /// Returns the exit status. `command` is the program to start with its arguments, as in argv: ended by a
  /// null pointer, empty if none was given.
  std::function<int(char** command)> carry_out;

  /// Whether a command follows the options: `usher run --lock twa -- CMD ARGS…`.
  bool takes_command = false;

  /// Whether another executable carries it out: its words, which begin with the subcommand's name, are given to `carry_out` unread.
  bool elsewhere = false;
};

/// What this executable has; the command and the simulator's each define it. Each subcommand adds itself to `app`.
std::vector<subcommand> subcommands(CLI::App& app);

// One a file.
subcommand list(CLI::App& app);
subcommand run(CLI::App& app);
subcommand try_locks(CLI::App& app);
subcommand status(CLI::App& app);
subcommand check(CLI::App& app);
subcommand sim_command(CLI::App& app);  // `sim` is the simulated machine's namespace
subcommand bench_command(CLI::App& app);
subcommand stat_command(CLI::App& app);

// What `usher --help` says of those of other executables.
inline constexpr const char* stat_summary = "Show which mutex is hot, who holds it and who waits";
inline constexpr const char* sim_summary = "Simulate a benchmark on another machine";
inline constexpr const char* bench_summary = "Run a benchmark on this computer";

}  // namespace usher::cli
