// The main function of `usher` and of the executables behind some of its subcommands: finds the subcommand, parses its options, and
// carries it out.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "library/catalog/names.hpp"
#include "library/catalog/suggestion.hpp"
#include "support/command/describe.hpp"
#include "support/command/subcommand.hpp"
#include "support/text/help.hpp"
#include "support/text/messages.hpp"

namespace usher::support {
namespace {

constexpr const char* help_word = "help";

bool is_option(std::string_view word) {
  return word.size() > 1 && word.front() == '-';
}

/// The index in `words` (after the subcommand's name) of the command to start; `words.size()` if there is none.
///
/// CLI11 would take the words of the command for options and subcommands of Usher (`usher run -- list --all`), so the command is cut off
/// before parsing. "--" before the command may be omitted.
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

/// Reports a word that is no subcommand. Returns the exit status.
int refuse_subcommand(const std::vector<subcommand>& all, std::string_view word) {
  nearest_name nearest(word);
  for (const auto& s : all) nearest.consider(s.options->get_name());
  nearest.consider(help_word);
  if (nearest.best().empty())
    report_error("unknown subcommand '{}': the subcommands are {} (see usher --help)", word, names(all));
  else
    report_error("unknown subcommand '{}'{} (see usher --help)", word, did_you_mean(nearest.best()));
  return bad_usage;
}

/// The subcommand that was parsed, or the subcommand within it (`usher sim calibrate`).
const CLI::App& innermost(const CLI::App& app) {
  const auto inner = app.get_subcommands();
  return inner.empty() ? app : innermost(*inner.back());
}

/// The option of the subcommand with the name most similar to the word; empty if none is similar.
std::string option_near(const CLI::App& part, std::string_view word) {
  const auto without_dashes = [](std::string_view text) {
    return text.substr(std::min(text.find_first_not_of('-'), text.size()));
  };
  std::vector<std::string> options;
  for (const CLI::Option* option : part.get_options())
    for (const std::string& name : option->get_lnames()) options.push_back(name);
  nearest_name nearest(without_dashes(word));
  for (const std::string& name : options) nearest.consider(name);
  return nearest.best().empty() ? "" : "--" + std::string(nearest.best());
}

/// The reason of a parse error, without a full stop.
std::string reason(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(true);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr || unknown.empty()) return error.what();
  const std::string word = unknown.front().substr(0, unknown.front().find('='));
  if (!is_option(word)) return fmt::format("the word '{}' is one too many", unknown.front());
  return fmt::format("unknown option '{}'{}", word, did_you_mean(option_near(innermost(app), word)));
}

/// The names of the parsed subcommands: "sim calibrate".
std::string path_to(const CLI::App& app) {
  const auto inner = app.get_subcommands();
  if (inner.empty()) return "";
  const std::string rest = path_to(*inner.back());
  return inner.back()->get_name() + (rest.empty() ? "" : " ") + rest;
}

/// Parses the words up to `end`. Returns nullopt if the command line is to be carried out, or the exit status after
/// --help, --version or an error message.
std::optional<int> read_words(CLI::App& app, char** words, char** end) {
  try {
    app.parse(std::vector<std::string>(std::reverse_iterator(end),
                                       std::reverse_iterator(words)));  // CLI11 parses from the end
    return std::nullopt;
  } catch (const CLI::Success& e) {
    return app.exit(e);  // --help and --version, on stdout
  } catch (const CLI::ParseError& e) {
    const std::string path = path_to(app);
    report_error("{}{}{} (see usher {}{}--help)", path, path.empty() ? "" : ": ", reason(app, e), path,
                 path.empty() ? "" : " ");
    return bad_usage;
  }
}

/// The places at which the command line after a subcommand's name is cut.
struct cut_words {
  char** own_end;  ///< the first word that is not the subcommand's
  char** command;  ///< the program to start
};

cut_words cut(const subcommand& chosen, char** words, char** end) {
  if (!chosen.takes_command) return {end, end};
  char** const own_end = words + command_start(*chosen.options, {words, end});
  const bool dashes = own_end != end && *own_end == std::string_view("--");
  return {own_end, own_end + (dashes ? 1 : 0)};
}

/// Converts the words after "help" (`usher help SUBCOMMAND`) to "SUBCOMMAND --help". Returns nothing after an error
/// message.
std::vector<std::string> asked_of_help(const std::vector<subcommand>& all, const std::vector<std::string>& words) {
  std::vector<std::string> asked;
  for (const std::string& word : words)
    if (word != help_word && !is_option(word)) asked.push_back(word);
  if (asked.size() > 1 && find(all, asked[0]) != nullptr && find(all, asked[0])->takes_command) {
    report_error("help: the word '{}' is one too many: usher help {}", asked[1], asked[0]);
    return {};
  }
  asked.emplace_back("--help");
  return asked;
}

/// Carries out the command line, which does not begin with "help".
int carry_out_words(CLI::App& app, const std::vector<subcommand>& all, int argc, char** argv) {
  char** const end = argv + argc;
  char** const name = std::find_if_not(argv + std::min(1, argc), end, is_option);
  if (name == end) {
    if (const auto status = read_words(app, argv + 1, end)) return *status;
    report_error("which subcommand? They are {} (see usher --help)", names(all));
    return bad_usage;
  }
  const subcommand* const chosen = find(all, *name);
  if (chosen == nullptr && name == argv + 1) return refuse_subcommand(all, *name);
  if (chosen == nullptr) {
    report_error("options belong after the subcommand, which is one of {}: usher SUBCOMMAND {} … (see usher --help)",
                 names(all), argv[1]);
    return bad_usage;
  }
  if (chosen->elsewhere && name == argv + 1) return chosen->carry_out(argv);
  const cut_words words = cut(*chosen, name + 1, end);
  if (const auto status = read_words(app, argv + 1, words.own_end)) return *status;
  return chosen->carry_out(words.command);
}

int start(int argc, char** argv) {
  CLI::App app("Usher gives a program better locks.", "usher");
  app.set_version_flag("--version", "usher " USHER_VERSION, "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.require_subcommand(0, 1);
  app.formatter(std::make_shared<help>("usher SUBCOMMAND [OPTIONS]"));
  const std::vector<subcommand> all = subcommands(app);

  if (argc == 2 && argv[1] == std::string_view(describe_word)) {
    fmt::print("{}", described_options(app));
    return 0;
  }
  if (argc > 1 && argv[1] == std::string_view(help_word)) {
    std::vector<std::string> words = asked_of_help(all, {argv + 2, argv + argc});
    if (words.empty()) return bad_usage;
    std::vector<char*> pointers{argv[0]};
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    return carry_out_words(app, all, static_cast<int>(pointers.size()) - 1, pointers.data());
  }
  return carry_out_words(app, all, argc, argv);
}

}  // namespace
}  // namespace usher::support

int main(int argc, char** argv) {
  using namespace usher::support;
  try {
    const int status = start(argc, argv);
    // Reports output that could not be written, for example to a full disk.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      report_error("cannot write to standard output");
      return status == 0 ? int{cannot_start} : status;
    }
    return status;
  } catch (const std::exception& e) {
    report_error("{}", e.what());
    return cannot_start;
  }
}
