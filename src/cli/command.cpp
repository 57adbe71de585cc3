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
  usher stat -- ./server            find out which mutex is hot, and why
  usher check twa                   look for mistakes in a lock
  usher sim mutexbench              simulate a benchmark on another machine
  usher bench mutexbench            run it on this one

'usher SUBCOMMAND --help' says more.)";

/// An executable beside this one that carries out some subcommands.
struct other_executable {
  const char* name;
  const char* built_with;  ///< option of the build, what it needs, and Debian's packages for that
  const char* packages;
};
constexpr other_executable simulator{"usher_bench", "USHER_BUILD_SIMULATOR=ON, which needs Boost.Context and toml++",
                                     "libboost-context-dev libtomlplusplus-dev"};
constexpr other_executable recorder{"usher_stat", "USHER_BUILD_STAT=ON, which needs elfutils, protozero and zlib",
                                    "libdw-dev libprotozero-dev zlib1g-dev"};

/// Becomes the other executable, with the same words. Returns where that fails.
int become(const other_executable& other, char** words) {
  const std::filesystem::path program = helper_near_us(other.name);
  if (program.empty()) {
    complain(
        "{}: there is no {} near {}: it is built with {}. On Debian: apt-get install {}, then build Usher again "
        "(make build)",
        words[1], other.name, own_path().parent_path().native(), other.built_with, other.packages);
    return cannot_start;
  }
  execv(program.c_str(), words);
  complain("{}: cannot start {}: {}", words[1], program.native(), std::strerror(errno));
  return cannot_start;
}

subcommand carried_out_by(const other_executable& other, CLI::App& app, const char* name, const char* summary) {
  subcommand s{app.add_subcommand(name, summary), [&other](char** words) { return become(other, words); }};
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
          carried_out_by(recorder, app, "stat", stat_summary),
          carried_out_by(simulator, app, "sim", sim_summary),
          carried_out_by(simulator, app, "bench", bench_summary)};
}

}  // namespace usher::cli
