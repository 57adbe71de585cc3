// A subcommand's help text: CLI11's, with a usage line that says what follows the options.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

namespace usher::cli {

class help : public CLI::Formatter {
 public:
  explicit help(std::string usage) : usage_(std::move(usage)) {}

  std::string make_usage(const CLI::App*, std::string) const override { return "Usage: " + usage_ + "\n"; }

 private:
  std::string usage_;
};

}  // namespace usher::cli
