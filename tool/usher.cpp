// The subcommands of `usher`. Some are carried out by another executable, which replaces this process.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "check/command/check.hpp"
#include "support/command/components.hpp"
#include "support/process/near.hpp"
#include "support/text/messages.hpp"
#include "tool/commands.hpp"

namespace usher::tool {
namespace {

constexpr const char* examples = R"(Examples:
  usher list                        show the locks and their guarantees
  usher run -- ./server --port 80   run a program under the default lock
  usher run --lock twa -- ./server  run it under another one
  usher try -- ./bench              find out which lock suits a program
  usher stat -- ./server            find out which mutex is hot, and why
  usher top 1234                    show what the threads of a process wait for
  usher status 1234                 show the lock of a running process

'usher help SUBCOMMAND' shows the details.)";

/// Replaces this process by the other executable, with the same words. Returns only on failure.
int become(const support::component& other, char** words) {
  const std::filesystem::path program = support::helper_near_us(other.executable);
  if (program.empty()) {
    support::report_error("{}: {}", words[1], support::why_missing(other));
    return support::cannot_start;
  }
  execv(program.c_str(), words);
  support::report_error("{}: cannot start {}: {}", words[1], program.native(), std::strerror(errno));
  return support::cannot_start;
}

support::subcommand carried_out_by(const support::component& other, CLI::App& app, const char* name,
                                   const char* summary, bool takes_command = false) {
  return {app.add_subcommand(name, summary), [&other](char** words) { return become(other, words); }, takes_command,
          true};
}

}  // namespace

}  // namespace usher::tool

std::vector<usher::support::subcommand> usher::support::subcommands(CLI::App& app) {
  app.footer(tool::examples);
  std::vector<subcommand> all = {tool::list(app),
                                 tool::run(app),
                                 tool::try_locks(app),
                                 tool::status(app),
                                 check::command::check(app),
                                 tool::carried_out_by(recorder, app, "stat", stat_summary, true),
                                 tool::carried_out_by(recorder, app, "top", top_summary),
                                 tool::carried_out_by(recorder, app, "diff", diff_summary),
                                 tool::carried_out_by(recorder, app, "report", report_summary),
                                 tool::carried_out_by(simulator, app, "record", record_summary, true),
                                 tool::carried_out_by(simulator, app, "sim", sim_summary),
                                 tool::carried_out_by(simulator, app, "bench", bench_summary),
                                 tool::carried_out_by(simulator, app, "predict", predict_summary)};
  app.add_subcommand("help", "Show the help of a subcommand: usher help run");  // main.cpp has it
  return all;
}
