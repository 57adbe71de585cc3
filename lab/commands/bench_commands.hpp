// The subcommands of the executable `usher_bench`.
#pragma once

#include "support/command/subcommand.hpp"

namespace usher::lab {

support::subcommand sim_command(CLI::App& app);  // `sim` is the simulated machine's namespace
support::subcommand bench_command(CLI::App& app);
support::subcommand predict_command(CLI::App& app);
support::subcommand record_command(CLI::App& app);

}  // namespace usher::lab
