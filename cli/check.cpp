#include <CLI/CLI.hpp>

#include "subcommand.hpp"

namespace usher::cli {

subcommand check(CLI::App& app) {
  CLI::App* options = app.add_subcommand("check", "not written yet");
  return {options, [](char**) { return 2; }};
}

}  // namespace usher::cli
