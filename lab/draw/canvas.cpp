#include "lab/draw/canvas.hpp"

#include <fmt/format.h>

#include <cmath>

#include "support/text/utf8.hpp"

namespace usher::lab {
namespace {

std::string escaped(const std::string& text) {
  std::string all;
  for (const char c : text) {
    if (c == '&')
      all += "&amp;";
    else if (c == '<')
      all += "&lt;";
    else if (c == '>')
      all += "&gt;";
    else
      all += c;
  }
  return all;
}

/// The number rounded to a hundredth, without trailing zeros.
std::string number(double v) {
  return fmt::format("{:g}", std::round(v * 100) / 100 + 0.0);
}

std::string hex(colour c) {
  const auto part = [](double v) { return static_cast<unsigned>(std::lround(v * 255)); };
  return fmt::format("#{:02x}{:02x}{:02x}", part(c.red), part(c.green), part(c.blue));
}

std::string list_of(const std::vector<point>& points) {
  std::string all;
  for (const point& p : points) all += fmt::format("{}{},{}", all.empty() ? "" : " ", number(p.x), number(p.y));
  return all;
}

}  // namespace

void canvas::path(const std::vector<point>& points, const stroke& s) {
  std::string dashes;
  for (const double d : s.dashes) dashes += (dashes.empty() ? "" : " ") + number(d);
  if (!dashes.empty()) dashes = fmt::format(" stroke-dasharray=\"{}\"", dashes);
  elements_ += fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{} stroke-linejoin=\"round\"/>\n",
      list_of(points), hex(s.ink), number(s.width), dashes);
}

void canvas::area(const std::vector<point>& outline, colour ink, double opacity) {
  const std::string part = opacity == 1 ? "" : fmt::format(" fill-opacity=\"{}\"", number(opacity));
  elements_ += fmt::format("<polygon points=\"{}\" fill=\"{}\"{}/>\n", list_of(outline), hex(ink), part);
}

void canvas::dot(point centre, double radius, colour ink) {
  elements_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{}\"/>\n", number(centre.x), number(centre.y),
                           number(radius), hex(ink));
}

void canvas::text(point at, const std::string& what, const font& f, colour ink, align how) {
  const char* const anchor = how == align::left     ? ""
                             : how == align::centre ? " text-anchor=\"middle\""
                                                    : " text-anchor=\"end\"";
  elements_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\"{}{} fill=\"{}\">{}</text>\n", number(at.x),
                           number(at.y), number(f.size), f.bold ? " font-weight=\"bold\"" : "", anchor, hex(ink),
                           escaped(support::printable(what)));
}

std::string canvas::finish(const std::string& title, const std::string& description) const {
  const double w = width_ * scale_, h = height_ * scale_;
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}px\" height=\"{}px\" viewBox=\"0 0 {} {}\" role=\"img\" "
      "font-family=\"DejaVu Sans, Verdana, sans-serif\">\n"
      "<title>{}</title>\n<desc>{}</desc>\n"
      "<rect width=\"{}\" height=\"{}\" fill=\"#ffffff\"/>\n{}</svg>\n",
      number(width_), number(height_), number(w), number(h), escaped(support::printable(title)),
      escaped(support::printable(description)), number(w), number(h), elements_);
}

}  // namespace usher::lab
