// usher stat: which mutex is hot, who holds it, who waits, and what to do about it.
#include <CLI/CLI.hpp>
#include <memory>

#include "help.hpp"
#include "subcommand.hpp"

namespace usher::cli {

subcommand stat_command(CLI::App& app) {
  auto* sub = app.add_subcommand("stat", stat_summary);
  return {sub, [](char**) { return 0; }, true};
}

}  // namespace usher::cli
