#include "lab/draw/chart_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "support/text/messages.hpp"

namespace usher::lab {
namespace {

constexpr unsigned least_pixels = 200, most_pixels = 10000;

/// Removes a number of pixels from the beginning of the text.
std::optional<unsigned> take_pixels(std::string_view& text) {
  unsigned n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || n < least_pixels || n > most_pixels) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return n;
}

std::optional<image_size> size_of(std::string_view text) {
  const auto width = take_pixels(text);
  if (!width || !text.starts_with('x')) return std::nullopt;
  text.remove_prefix(1);
  const auto height = take_pixels(text);
  if (!height || !text.empty()) return std::nullopt;
  return image_size{*width, *height};
}

std::string check_size(const std::string& text) {
  if (size_of(text)) return "";
  return fmt::format("'{}' is not WIDTHxHEIGHT in pixels, each from {} to {}, as 800x600", text, least_pixels,
                     most_pixels);
}

std::string check_log(const std::string& text) {
  for (const char* axes : {"x", "y", "xy", "none"})
    if (text == axes) return "";
  return fmt::format("'{}' is none of x, y, xy and none", text);
}

}  // namespace

bool is_chart_name(const std::string& name) {
  constexpr std::string_view ending = ".svg";
  const auto is_svg = std::ranges::equal(name.substr(name.size() - std::min(name.size(), ending.size())), ending, {},
                                         [](unsigned char c) { return std::tolower(c); });
  const bool good = name.empty() || (is_svg && name.size() > ending.size());
  if (!good)
    support::report_error("--chart {}: the file's name must end in .svg (rsvg-convert makes a PNG of an SVG)", name);
  return good;
}

image_size chart_options::pixels() const {
  return size_of(size).value_or(image_size{});
}

scale chart_options::horizontal() const {
  if (log == "none") return scale::linear;
  return log.starts_with('x') ? scale::logarithmic : scale::automatic;
}

scale chart_options::vertical() const {
  return log.ends_with('y') ? scale::logarithmic : scale::automatic;
}

void add_chart_options(CLI::App& to, chart_options& o, const std::string& log) {
  to.add_option("--title", o.title, "With --chart: its title")->type_name("TEXT");
  to.add_option("--size", o.size, "With --chart: its size in pixels (default: 800 wide)")
      ->type_name("WxH")
      ->check(check_size);
  for (const char* name : {"--title", "--size"}) to.get_option(name)->needs(to.get_option("--chart"));
  if (log.empty()) return;
  to.add_option("--log", o.log, "With --chart: " + log)->type_name("x|y|xy|none")->check(check_log);
  to.get_option("--log")->needs(to.get_option("--chart"));
}

}  // namespace usher::lab
