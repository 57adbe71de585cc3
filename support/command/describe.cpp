#include "support/command/describe.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "support/text/help.hpp"

namespace usher::support {
namespace {

using nlohmann::ordered_json;

/// Whether the option may be given several times, or a positional argument has several words.
bool may_repeat(const CLI::Option& option) {
  return option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll ||
         (option.get_items_expected_max() > 1 && option.get_delimiter() == '\0');
}

ordered_json as_json(const CLI::Option& option, const help& style) {
  ordered_json names = ordered_json::array(), excluded = ordered_json::array();
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  for (const CLI::Option* other : option.get_excludes()) excluded.push_back(other->get_name());
  std::string value = style.make_option_opts(&option);
  value.erase(0, value.find_first_not_of(' '));
  if (names.empty() && value.empty()) value = option.get_name();
  return {{"names", std::move(names)},
          {"value", std::move(value)},
          {"text", option.get_description()},
          {"repeats", may_repeat(option)},
          {"excludes", std::move(excluded)}};
}

ordered_json as_json(const CLI::App& app) {
  const auto* const style = dynamic_cast<const help*>(app.get_formatter().get());
  if (style == nullptr) throw std::logic_error(app.get_name() + " has no help");
  ordered_json options = ordered_json::array(), parts = ordered_json::array();
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) options.push_back(as_json(*option, *style));
  for (const CLI::App* part : app.get_subcommands({})) parts.push_back(as_json(*part));
  return {{"name", app.get_name()},    {"summary", app.get_description()}, {"usage", style->make_usage(&app, "")},
          {"notes", app.get_footer()}, {"options", std::move(options)},    {"parts", std::move(parts)}};
}

}  // namespace

std::string described_options(const CLI::App& app) {
  return as_json(app).dump(1) + "\n";
}

}  // namespace usher::support
