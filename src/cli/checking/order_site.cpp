#include "cli/checking/order_site.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <regex>

#include "cli/checking/checker.hpp"

namespace usher::cli::checking {
namespace {

constexpr std::array orders{"relaxed",         "acquire",         "release", "acq_rel",
                            "failure-relaxed", "failure-acquire", "removed"};

}  // namespace

order_site order_site_from(const std::string& text) {
  static const std::regex shape(fmt::format("(.+):([0-9]+):([0-9]+)(:({}))?", fmt::join(orders, "|")));
  std::smatch found;
  order_site s;
  s.text = text;
  if (std::regex_match(text, found, shape)) {
    s.file = found[1];
    s.line = static_cast<unsigned>(std::stoul(found[2]));
    s.column = static_cast<unsigned>(std::stoul(found[3]));
    s.made = found[5];
  }
  return s;
}

std::string name_of(const order_site& s) {
  return fmt::format("{}:{}", short_name(s.file), s.line);
}

std::string order_names() {
  return fmt::format("{}", fmt::join(orders, ", "));
}

}  // namespace usher::cli::checking
