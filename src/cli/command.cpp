// The subcommands of `usher`, and the way to those that another executable has.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "messages.hpp"
#include "near.hpp"
#include "subcommand.hpp"

namespace usher::cli {
namespace {

constexpr const char* examples = R"(Examples:
  usher list                        which locks there are, and what they promise
  usher run -- ./server --port 80   run a program under the default lock
  usher run --lock twa -- ./server  run it under another one
  usher try -- ./bench              find out which lock suits a program
  usher check twa                   look for mistakes in a lock
  usher sim mutexbench              simulate a benchmark on another machine
  usher bench mutexbench            run it on this one

'usher SUBCOMMAND --help' says more.)";

constexpr const char* simulator_name = "usher_bench";

/// Becomes the executable that has the simulator and the benchmarks, with the same words. Returns where that fails.
int become_simulator(char** words) {
  const std::filesystem::path program = helper_near_us(simulator_name);
  if (program.empty()) {
    complain(
        "{}: there is no {} near {}: it is built with USHER_BUILD_SIMULATOR=ON, which needs Boost.Context and toml++. "
        "On "
        "Debian: apt-get install libboost-context-dev libtomlplusplus-dev, then build Usher again (make build)",
        words[1], simulator_name, own_path().parent_path().native());
    return cannot_start;
  }
  execv(program.c_str(), words);
  complain("{}: cannot start {}: {}", words[1], program.native(), std::strerror(errno));
  return cannot_start;
}

subcommand simulators(CLI::App& app, const char* name, const char* summary) {
  subcommand s{app.add_subcommand(name, summary), become_simulator};
  s.elsewhere = true;
  return s;
}

}  // namespace

std::vector<subcommand> subcommands(CLI::App& app) {
  app.footer(examples);
  return {list(app),
          run(app),
          try_locks(app),
          check(app),
          simulators(app, "sim", sim_summary),
          simulators(app, "bench", bench_summary)};
}

}  // namespace usher::cli
