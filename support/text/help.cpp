#include "support/text/help.hpp"

#include <algorithm>
#include <cstddef>

#include "support/text/table.hpp"
#include "support/text/wrap.hpp"

namespace usher::support {
namespace {

constexpr std::size_t subcommand_column = 13;

/// The column at which descriptions of options begin. On a narrow terminal a description is below its option.
std::size_t option_column(std::size_t width) {
  return width < 70 ? 8 : 28;
}

}  // namespace

std::string help::make_description(const CLI::App* app) const {
  return filled(app->get_description(), text_width());
}

std::string help::make_option(const CLI::Option* option, bool is_positional) const {
  const std::size_t width = text_width();
  std::string left = make_option_name(option, is_positional) + make_option_opts(option);
  // Of a positional argument only the placeholder of its value is shown.
  if (const std::size_t blank = left.find(' '); is_positional && blank != std::string::npos) left.erase(0, blank + 1);
  return beside("  " + left, make_option_desc(option), option_column(width), width);
}

/// The placeholder of an option's value. CLI11 appends the allowed values, which are left out here; error messages list
/// them.
std::string help::make_option_opts(const CLI::Option* option) const {
  if (option->get_type_size() == 0 || option->get_type_name().empty()) return "";
  std::string type = option->get_type_name();
  for (const char* added : {":INT in [", ":UINT in [", ":FLOAT in [", ":{"})
    type.erase(std::min(type.find(added), type.size()));
  return " " + type;
}

std::string help::make_option_desc(const CLI::Option* option) const {
  std::string text = option->get_description();
  // The help names the option that excludes this one, if there is exactly one. An option that excludes many others is a
  // mode of the subcommand, which the option's own description explains.
  if (const auto& others = option->get_excludes(); others.size() == 1)
    text += " (not with " + (*others.begin())->get_name() + ")";
  return text;
}

std::string help::make_subcommand(const CLI::App* subcommand) const {
  return beside("  " + subcommand->get_name(), subcommand->get_description(), subcommand_column, text_width());
}

std::string help::make_footer(const CLI::App* app) const {
  return filled(app->get_footer(), text_width());
}

}  // namespace usher::support
