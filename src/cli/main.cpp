// The `usher` command, and the executable behind some of its subcommands: finds the subcommand, reads its options, carries it out.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "help.hpp"
#include "messages.hpp"
#include "subcommand.hpp"

namespace usher::cli {
namespace {

bool is_option(std::string_view word) {
  return word.size() > 1 && word.front() == '-';
}

/// Where in `words` (after the subcommand's name) the command to start begins; `words.size()` if there is
/// none.
///
/// CLI11 would take the command's words for options and subcommands of ours (`usher run -- list --all`), so
/// the command is cut off before it looks. "--" before the command may be left out.
std::size_t command_start(const CLI::App& options, const std::vector<std::string_view>& words) {
  std::size_t i = 0;
  while (i < words.size() && words[i] != "--" && is_option(words[i])) {
    const CLI::Option* option = options.get_option_no_throw(std::string(words[i]));
    const bool value_follows = option != nullptr && option->get_items_expected_max() > 0;
    ++i;
    if (value_follows && i < words.size() && words[i] != "--") ++i;
  }
  return i;
}

const subcommand* find(const std::vector<subcommand>& all, std::string_view name) {
  for (const auto& s : all)
    if (s.options->get_name() == name) return &s;
  return nullptr;
}

std::string names(const std::vector<subcommand>& all) {
  std::string list;
  for (const auto& s : all) list += (list.empty() ? "" : ", ") + s.options->get_name();
  return list;
}

int start(int argc, char** argv) {
  CLI::App app("Usher gives a program better locks.", "usher");
  app.set_version_flag("--version", "usher " USHER_VERSION, "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.require_subcommand(0, 1);
  app.formatter(std::make_shared<help>("usher SUBCOMMAND [OPTIONS]"));
  const std::vector<subcommand> all = subcommands(app);

  // Our own words, up to the command to start.
  int own = argc;
  int name_at = 1;
  while (name_at < argc && is_option(argv[name_at])) ++name_at;
  const subcommand* chosen = nullptr;
  char** command = argv + argc;  // argv ends with a null pointer: an empty command
  if (name_at < argc) {
    chosen = find(all, argv[name_at]);
    if (chosen == nullptr) {
      if (name_at > 1)
        complain("options belong after the subcommand, which is one of {}: usher SUBCOMMAND {} … (see usher --help)",
                 names(all), argv[1]);
      else
        complain("unknown subcommand '{}': the subcommands are {} (see usher --help)", argv[name_at], names(all));
      return bad_usage;
    }
    if (chosen->elsewhere && name_at == 1) return chosen->carry_out(argv);
    if (chosen->takes_command) {
      const std::vector<std::string_view> words(argv + name_at + 1, argv + argc);
      own = name_at + 1 + static_cast<int>(command_start(*chosen->options, words));
      const bool dashes = own < argc && argv[own] == std::string_view("--");
      command = argv + own + (dashes ? 1 : 0);
    }
  }

  try {
    // CLI11 takes the words from the back of the vector.
    std::vector<std::string> backwards;
    for (int i = own - 1; i > 0; --i) backwards.emplace_back(argv[i]);
    app.parse(backwards);
  } catch (const CLI::Success& e) {
    return app.exit(e);  // --help and --version, on stdout
  } catch (const CLI::ParseError& e) {
    const std::string where = chosen == nullptr ? "" : chosen->options->get_name();
    complain("{}{}{} (see usher {}{}--help)", where, where.empty() ? "" : ": ", e.what(), where,
             where.empty() ? "" : " ");
    return bad_usage;
  }
  if (chosen == nullptr) {
    complain("which subcommand? They are {} (see usher --help)", names(all));
    return bad_usage;
  }
  return chosen->carry_out(command);
}

}  // namespace
}  // namespace usher::cli

int main(int argc, char** argv) {
  using namespace usher::cli;
  try {
    const int status = start(argc, argv);
    // A full disk must not look like success.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      complain("cannot write to standard output");
      return status == 0 ? int{cannot_start} : status;
    }
    return status;
  } catch (const std::exception& e) {
    complain("{}", e.what());
    return cannot_start;
  }
}
