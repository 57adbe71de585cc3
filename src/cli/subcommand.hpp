// What a subcommand gives to main: its options, and the function that carries it out.
#pragma once

#include <functional>

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
};

// One a file. Each adds itself to `app`.
subcommand list(CLI::App& app);
subcommand run(CLI::App& app);
subcommand try_locks(CLI::App& app);
subcommand check(CLI::App& app);
subcommand sim_command(CLI::App& app);  // `sim` is the simulated machine's namespace
subcommand bench_command(CLI::App& app);

}  // namespace usher::cli
