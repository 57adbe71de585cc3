// The subcommands of `usher`. Some are carried out by another executable, which replaces this process.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "support/command/components.hpp"
#include "support/command/subcommand.hpp"
#include "support/process/near.hpp"
#include "support/text/messages.hpp"

namespace usher::cli {
namespace {

constexpr const char* examples = R"(Examples:
  usher list                        show the locks and their guarantees
  usher run -- ./server --port 80   run a program under the default lock
  usher run --lock twa -- ./server  run it under another one
  usher try -- ./bench              find out which lock suits a program
  usher stat -- ./server            find out which mutex is hot, and why
  usher status 1234                 show the lock of a running process
  usher check twa                   look for mistakes in a lock
  usher predict usher.recording     predict what a recorded program would do
  usher sim mutexbench              simulate a benchmark on another machine
  usher bench mutexbench            run it on this one

'usher help SUBCOMMAND' shows the details.)";

/// Replaces this process by the other executable, with the same words. Returns only on failure.
int become(const component& other, char** words) {
  const std::filesystem::path program = helper_near_us(other.executable);
  if (program.empty()) {
    report_error("{}: {}", words[1], why_missing(other));
    return cannot_start;
  }
  execv(program.c_str(), words);
  report_error("{}: cannot start {}: {}", words[1], program.native(), std::strerror(errno));
  return cannot_start;
}

subcommand carried_out_by(const component& other, CLI::App& app, const char* name, const char* summary,
                          bool takes_command = false) {
  return {app.add_subcommand(name, summary), [&other](char** words) { return become(other, words); }, takes_command,
          true};
}

}  // namespace

std::vector<subcommand> subcommands(CLI::App& app) {
  app.footer(examples);
  std::vector<subcommand> all = {list(app),
                                 run(app),
                                 try_locks(app),
                                 status(app),
                                 check(app),
                                 carried_out_by(recorder, app, "stat", stat_summary, true),
                                 carried_out_by(simulator, app, "record", record_summary, true),
                                 carried_out_by(simulator, app, "sim", sim_summary),
                                 carried_out_by(simulator, app, "bench", bench_summary),
                                 carried_out_by(simulator, app, "predict", predict_summary)};
  app.add_subcommand("help", "Show the help of a subcommand: usher help run");  // main.cpp has it
  return all;
}

}  // namespace usher::cli
