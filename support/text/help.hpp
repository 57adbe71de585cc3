// The help text of a subcommand: CLI11's text in the width of the terminal, with a usage line that shows the words after the options.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

namespace usher::support {

class help : public CLI::Formatter {
 public:
  explicit help(std::string usage) : usage_(std::move(usage)) {}

  std::string make_description(const CLI::App* app) const override;
  std::string make_usage(const CLI::App*, std::string) const override { return "Usage: " + usage_ + "\n"; }
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* subcommand) const override;
  std::string make_footer(const CLI::App* app) const override;

 private:
  std::string usage_;
};

}  // namespace usher::support
