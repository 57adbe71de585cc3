#include "lab/draw/curves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "lab/draw/axis.hpp"
#include "lab/draw/chart_style.hpp"
#include "lab/draw/lock_looks.hpp"
#include "lab/draw/overlaps.hpp"
#include "lab/draw/page.hpp"

namespace usher::lab {
namespace {

using namespace style;

constexpr double legend_height = 19, least_legend_height = 14, swatch = 40;
constexpr double usual_plot = 360, least_plot = 120, most_name = 190;
constexpr double inset = 14;                   // from the frame to the first and the last point
constexpr double line_width = 2, wider = 3.5;  // a line is wider by this for each line on top of it
constexpr double bar_width = 1.2, bar_end = 3.5;

constexpr font subtitle_font{12}, name_font{12};

axis horizontal(const curve_chart& c, double begin, double end) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const curve& one : c.curves)
    for (const curve_point& p : one.points) {
      low = std::min(low, p.x);
      high = std::max(high, p.x);
    }
  if (low > high) return {0, 1, false, begin, end};
  if (low == high) return {low - 1, high + 1, false, begin, end};
  return {low, high, is_logarithmic(c.x_scale, low > 0, high / low), begin, end};
}

/// A vertical axis with a logarithmic scale. Values of zero or below have no place on it and are drawn at the bottom.
axis logarithmic_vertical(const curve_chart& c, double bottom, double top) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  bool none = false;
  for (const curve& one : c.curves)
    for (const curve_point& p : one.points)
      for (const double v : {p.low, p.middle, p.high}) {
        if (v > 0) low = std::min(low, v);
        high = std::max(high, v);
        none = none || v <= 0;
      }
  if (low > high) return {0, 1, false, bottom, top};
  const double room = std::max(1.05, std::pow(high / low, 0.04));
  return {low / (none ? 2 * room : room), high * room, true, bottom, top};
}

axis vertical(const curve_chart& c, double bottom, double top) {
  if (c.y_scale == scale::logarithmic) return logarithmic_vertical(c, bottom, top);
  double high = 0;
  for (const curve& one : c.curves)
    for (const curve_point& p : one.points) high = std::max(high, p.high);
  return {0, high > 0 ? high * 1.04 : 1, false, bottom, top};
}

/// The caption of the chart. If the values do not allow a requested logarithmic scale, a remark says so.
std::vector<std::string> caption_of(const curve_chart& c) {
  std::vector<std::string> all = c.caption;
  if (c.x_scale == scale::logarithmic && !horizontal(c, 0, 1).logarithmic)
    all.insert(all.begin(), c.x_name + " is not logarithmic: it has one value, or values that are not above 0");
  return all;
}

/// The curves, highest last point first: their names stand in this order at the right, beside the ends of the lines.
std::vector<std::size_t> by_last_value(const curve_chart& c) {
  std::vector<std::size_t> order(c.curves.size());
  for (std::size_t i = 0; i < order.size(); i++) order[i] = i;
  const auto key = [&](std::size_t i) {
    const auto& points = c.curves[i].points;
    return points.empty() ? std::pair(-HUGE_VAL, 0.0) : std::pair(points.back().x, points.back().middle);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) > key(b); });
  return order;
}

bool has_range(const curve_point& p) {
  return p.low != p.high;
}

/// The positions of all parts of the chart. They are computed before the canvas is made, since its size depends on
/// them.
struct layout {
  layout(const curve_chart& c, const page& on);

  bool fits(const page& on) const { return right - left >= least_plot && (on.height == 0 || height <= on.height); }

  double width, height = 0;
  double names = 0, top = 0, bottom = 0, left = 0, right = 0, legend_step = legend_height;
  std::vector<std::string> caption, subtitle;

 private:
  void find_height(double asked, double curves);
};

layout::layout(const curve_chart& c, const page& on) : width(on.width) {
  for (const curve& one : c.curves) names = std::max(names, text_width(one.name, name_font));
  names = std::min(names, most_name);
  double numbers = 0;  // as wide as the widest
  for (const tick& t : ticks(vertical(c, 0, 1), style::most_ticks))
    numbers = std::max(numbers, text_width(t.label, style::number_font));
  std::string all;
  for (const std::string& part : caption_of(c)) all += (all.empty() ? "" : " · ") + part;
  if (!all.empty()) caption = broken(all, style::small_font, width - 2 * style::margin, 3);
  subtitle = broken(c.subtitle, subtitle_font, width - 2 * style::margin, 2);
  top = style::margin + 26 + style::line_height * static_cast<double>(subtitle.size()) + 24;
  left = style::margin + numbers + 8;
  right = width - style::margin - names - swatch - 2 * style::gap;
  find_height(on.height, static_cast<double>(c.curves.size()));
}

void layout::find_height(double asked, double curves) {
  const double below =
      40 + style::line_height * static_cast<double>(caption.size()) + style::margin / 2 + (caption.empty() ? 0 : 8);
  double plot = std::max(usual_plot, legend_height * curves + 8);
  if (asked != 0) {
    plot = std::max({least_plot, least_legend_height * curves + 8, std::floor(asked - top - below)});
    legend_step = std::clamp((plot - 8) / std::max(1.0, curves), least_legend_height, legend_height);
  }
  bottom = top + plot;
  height = std::ceil(bottom + below);
}

class drawing {
 public:
  drawing(const curve_chart& c, const layout& l, canvas& on);

  void all() {
    heading();
    scales();
    for (std::size_t i = 0; i < chart_.curves.size(); i++) band(i);
    lines_below();
    // The first line is drawn last, on top of the others.
    for (std::size_t i = chart_.curves.size(); i-- > 0;) line(i);
    legend();
    double y = layout_.bottom + 58;
    for (const std::string& text : layout_.caption) {
      on_.text({style::margin, y}, text, style::small_font, style::grey);
      y += style::line_height;
    }
  }

 private:
  point at(double x, double y) const { return {x_.at(x), y_.at(y_.logarithmic ? std::max(y, y_.low) : y)}; }

  void heading();
  void scales();
  std::vector<double> x_ticks() const;
  void band(std::size_t i);
  void lines_below();
  void line(std::size_t i);
  void bar(const curve_point& p, colour ink);
  void legend();

  const curve_chart& chart_;
  const layout& layout_;
  canvas& on_;
  axis x_, y_;
  std::vector<lock_look> looks_;
  std::vector<std::vector<point>> paths_;
  overlaps below_;
};

drawing::drawing(const curve_chart& c, const layout& l, canvas& on)
    : chart_(c),
      layout_(l),
      on_(on),
      x_(horizontal(c, l.left + inset, l.right - inset)),
      y_(vertical(c, l.bottom, l.top)) {
  std::vector<shown_lock> shown;
  for (const curve& one : c.curves) {
    shown.push_back({one.name, one.lock.empty() ? one.name : one.lock});
    auto& path = paths_.emplace_back();
    path.reserve(one.points.size());
    for (const curve_point& p : one.points) path.push_back(at(p.x, p.middle));
  }
  looks_ = looks_of(shown);
  below_ = overlaps(paths_);
}

void drawing::heading() {
  const double room = layout_.width - 2 * style::margin;
  on_.text({style::margin, style::margin + 12}, shortened(chart_.title, style::title_font, room), style::title_font,
           style::black);
  double y = style::margin + 31;
  for (const std::string& text : layout_.subtitle) {
    on_.text({style::margin, y}, text, subtitle_font, style::grey);
    y += style::line_height;
  }
  const std::string name = chart_.y_name + (y_.logarithmic ? "; logarithmic" : "");
  on_.text({style::margin, layout_.top - 9}, shortened(name, style::small_font, room), style::small_font, style::grey);
}

void drawing::scales() {
  const double left = layout_.left, right = layout_.right, bottom = layout_.bottom;
  for (const tick& t : ticks(y_, style::most_ticks)) {
    on_.line({left, y_.at(t.value)}, {right, y_.at(t.value)}, t.value == 0 ? style::grey : style::pale);
    on_.text({left - 8, y_.at(t.value) + 4}, t.label, style::number_font, style::grey, align::right);
  }
  if (y_.logarithmic) on_.line({left, bottom}, {right, bottom}, style::grey);
  for (const double x : x_ticks()) {
    on_.line({x_.at(x), bottom}, {x_.at(x), bottom + 4}, style::grey);
    on_.text({x_.at(x), bottom + 17}, fmt::format("{:g}", x), style::number_font, style::grey, align::centre);
  }
  const std::string name = chart_.x_name + (x_.logarithmic ? "; logarithmic" : "");
  write_axis_name(on_, name, (left + right) / 2, bottom + 34, layout_.width);
}

/// The ticks of the horizontal axis, at the points, or at round values if there are many points. Ticks whose labels
/// would overlap are left out, except the first and the last.
std::vector<double> drawing::x_ticks() const {
  std::set<double> values;
  for (const curve& one : chart_.curves)
    for (const curve_point& p : one.points) values.insert(p.x);
  if (values.empty()) return {};
  const double first = *values.begin(), last = *values.rbegin();
  if (values.size() > 2 * style::most_ticks) {
    values = {first};
    for (const tick& t : ticks(x_, style::most_ticks)) values.insert(t.value);
  }
  std::vector<double> shown;
  const auto half = [&](double x) { return text_width(fmt::format("{:g}", x), style::number_font) / 2 + 4; };
  const auto add = [&](double x) {
    for (const double s : shown)
      if (std::fabs(x_.at(x) - x_.at(s)) < half(x) + half(s)) return;
    shown.push_back(x);
  };
  add(last);
  for (const double x : values) add(x);
  return shown;
}

void drawing::band(std::size_t i) {
  const auto& points = chart_.curves[i].points;
  if (points.size() < 2 || std::none_of(points.begin(), points.end(), has_range)) return;
  std::vector<point> outline;
  outline.reserve(2 * points.size());
  for (const curve_point& p : points) outline.push_back(at(p.x, p.high));
  for (auto p = points.rbegin(); p != points.rend(); ++p) outline.push_back(at(p->x, p->low));
  on_.area(outline, ink_of(looks_[i]), 0.12);
}

/// Where several lines coincide, draws the covered ones wider than those above them, so that they are visible at both
/// sides.
void drawing::lines_below() {
  for (std::size_t depth = overlaps::most; depth > 0; depth--)
    for (std::size_t i = 0; i < paths_.size(); i++)
      for (std::size_t k = 0; k + 1 < paths_[i].size(); k++)
        if (below_.along_segment(i, k) == depth)
          on_.line(paths_[i][k], paths_[i][k + 1], ink_of(looks_[i]), line_width + wider * static_cast<double>(depth));
}

void drawing::line(std::size_t i) {
  const lock_look& look = looks_[i];
  const auto& path = paths_[i];
  const auto& points = chart_.curves[i].points;
  on_.path(path, {ink_of(look), line_width, dashes_of(look)});
  const point* last = nullptr;
  for (std::size_t k = 0; k < path.size(); k++) {
    if (last != nullptr && path[k].x - last->x < 3 * symbol_radius && points[k].settled) continue;
    bar(points[k], ink_of(look));
    draw_symbol(on_, path[k], look, 1 + 0.5 * static_cast<double>(below_.at_point(i, k)), !points[k].settled);
    last = &path[k];
  }
}

/// Draws a bar from the least to the greatest value, if it is longer than the symbol.
void drawing::bar(const curve_point& p, colour ink) {
  const point low = at(p.x, p.low), high = at(p.x, p.high);
  if (low.y - high.y < symbol_radius) return;
  on_.line(low, high, ink, bar_width);
  for (const point& end : {low, high}) on_.line({end.x - bar_end, end.y}, {end.x + bar_end, end.y}, ink, bar_width);
}

void drawing::legend() {
  double y = layout_.top + 12;
  const double x = layout_.right + style::gap;
  for (const std::size_t i : by_last_value(chart_)) {
    on_.path({{x, y - 4}, {x + swatch, y - 4}}, {ink_of(looks_[i]), line_width, dashes_of(looks_[i])});
    draw_symbol(on_, {x + swatch / 2, y - 4}, looks_[i]);
    const std::string name = shortened(chart_.curves[i].name, name_font, layout_.names + 0.5);
    on_.text({x + swatch + 8, y}, name, name_font, style::black);
    y += layout_.legend_step;
  }
}

/// The content of the chart in words, for screen readers and for searching.
std::string in_words(const curve_chart& c) {
  std::string all = fmt::format("{}; by {}", c.y_name, c.x_name);
  for (const curve& one : c.curves) {
    all += fmt::format("\n{}:", one.name);
    for (const curve_point& p : one.points) {
      all += fmt::format("{} {:g}: {:.4g}", &p == &one.points.front() ? "" : ",", p.x, p.middle);
      if (has_range(p)) all += fmt::format(" ({:.4g}–{:.4g})", p.low, p.high);
      if (!p.settled) all += " not settled";
    }
  }
  for (const std::string& part : caption_of(c)) all += "\n" + part;
  return all;
}

}  // namespace

std::string draw(const curve_chart& c) {
  const auto fit = [&c](const page& on) { return layout(c, on); };
  return drawn<drawing>(c, fit, in_words(c));
}

}  // namespace usher::lab
