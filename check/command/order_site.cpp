#include "check/command/order_site.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <re2/re2.h>

#include <array>

#include "check/command/checker.hpp"

namespace usher::check::command {
namespace {

constexpr std::array orders{"relaxed",         "acquire",         "release", "acq_rel",
                            "failure-relaxed", "failure-acquire", "removed"};

}  // namespace

order_site order_site_from(const std::string& text) {
  static const re2::RE2 shape(fmt::format("(.+):([0-9]+):([0-9]+)(:({}))?", fmt::join(orders, "|")));
  order_site s;
  if (!re2::RE2::FullMatch(text, shape, &s.file, &s.line, &s.column, nullptr, &s.made)) s = {};
  s.text = text;
  return s;
}

std::string name_of(const order_site& s) {
  return fmt::format("{}:{}", short_name(s.file), s.line);
}

std::string order_names() {
  return fmt::format("{}", fmt::join(orders, ", "));
}

}  // namespace usher::check::command
