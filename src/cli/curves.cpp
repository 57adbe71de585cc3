#include "curves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>

#include "axis.hpp"
#include "chart_style.hpp"

namespace usher::cli {
namespace {

using namespace style;

constexpr double legend_height = 19, swatch = 26;
constexpr double least_plot = 360, most_name = 190;
constexpr double inset = 14;  // from the frame to the first and the last point

constexpr font subtitle_font{12}, name_font{12};

/// Okabe and Ito's, darker where they are too pale on white: to be told apart also by who does not see all colours.
constexpr std::array<colour, 8> inks{{{0.00, 0.40, 0.66},
                                      {0.80, 0.33, 0.00},
                                      {0.00, 0.56, 0.42},
                                      {0.72, 0.40, 0.60},
                                      {0.13, 0.13, 0.13},
                                      {0.85, 0.58, 0.00},
                                      {0.28, 0.64, 0.85},
                                      {0.50, 0.33, 0.18}}};

colour ink_of(std::size_t curve) {
  return inks[curve % inks.size()];
}

constexpr colour white{1, 1, 1};
constexpr double symbol_size = 5;  // at most, from the middle

/// Five symbols and eight colours: forty curves before two look alike.
void symbol(canvas& on, point at, std::size_t curve) {
  const colour ink = ink_of(curve);
  switch (curve % 5) {
    case 0:
      return on.dot(at, 4, ink);
    case 1:
      return on.box({at.x - 3.5, at.y - 3.5}, 7, 7, ink);
    case 2:
      return on.diamond(at, 5, ink);
    case 3:
      return on.arrow_head({at.x + 5, at.y}, 1, 9, ink);
    default:
      return on.arrow_head({at.x - 5, at.y}, -1, 9, ink);
  }
}

/// The symbol's outline.
void hollow(canvas& on, point at, std::size_t curve) {
  symbol(on, at, curve);
  on.dot({at.x + (curve % 5 == 3 ? -1 : curve % 5 == 4 ? 1 : 0), at.y}, 2.2, white);
}

axis horizontal(const curve_chart& c, double begin, double end) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const curve& one : c.curves)
    for (const curve_point& p : one.points) {
      low = std::min(low, p.x);
      high = std::max(high, p.x);
    }
  if (low > high) return {0, 1, false, begin, end};
  if (low == high) return {low - 1, high + 1, false, begin, end};
  return {low, high, low > 0 && (c.log_x || high / low > log_from), begin, end};
}

/// Nothing is nowhere on a logarithmic axis: it has the bottom for itself.
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
  if (c.log_y) return logarithmic_vertical(c, bottom, top);
  double high = 0;
  for (const curve& one : c.curves)
    for (const curve_point& p : one.points) high = std::max(high, p.high);
  return {0, high > 0 ? high * 1.04 : 1, false, bottom, top};
}

/// Where it ends: as the lines do at the right, so the names stand beside it.
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

class drawing {
 public:
  drawing(const curve_chart& c, canvas& measure) : chart_(c) {
    for (const curve& one : c.curves) names_ = std::max(names_, measure.text_width(one.name, name_font));
    names_ = std::min(names_, most_name);
    // As wide as its widest number.
    const axis raw = vertical(c, 0, 1);
    for (const tick& t : ticks(raw, most_ticks))
      numbers_ = std::max(numbers_, measure.text_width(t.label, number_font));
    std::string all;
    for (const std::string& part : c.caption) all += (all.empty() ? "" : " · ") + part;
    if (!all.empty()) caption_ = measure.broken(all, small_font, width - 2 * margin, 3);
    subtitle_ = measure.broken(c.subtitle, subtitle_font, width - 2 * margin, 2);
    top_ = margin + 26 + line_height * static_cast<double>(subtitle_.size()) + 24;
    bottom_ = top_ + std::max(least_plot, legend_height * static_cast<double>(c.curves.size()) + 8);
    left_ = margin + numbers_ + 8;
    right_ = width - margin - names_ - swatch - 2 * gap;
  }

  double height() const {
    return std::ceil(bottom_ + 40 + line_height * static_cast<double>(caption_.size()) + margin / 2 +
                     (caption_.empty() ? 0 : 8));
  }

  void all(canvas& on) {
    x_ = horizontal(chart_, left_ + inset, right_ - inset);
    y_ = vertical(chart_, bottom_, top_);
    heading(on);
    scales(on);
    for (std::size_t i = 0; i < chart_.curves.size(); i++) band(on, i);
    // The first is drawn last, and lies on top.
    for (std::size_t i = chart_.curves.size(); i-- > 0;) line(on, i);
    legend(on);
    double y = bottom_ + 58;
    for (const std::string& text : caption_) {
      on.text({margin, y}, text, small_font, grey);
      y += line_height;
    }
  }

 private:
  point at(double x, double y) const { return {x_.at(x), y_.at(y_.logarithmic ? std::max(y, y_.low) : y)}; }

  void heading(canvas& on) {
    on.text({margin, margin + 12}, on.shortened(chart_.title, title_font, width - 2 * margin), title_font, black);
    double y = margin + 31;
    for (const std::string& text : subtitle_) {
      on.text({margin, y}, text, subtitle_font, grey);
      y += line_height;
    }
    on.text({margin, top_ - 9}, chart_.y_name + (y_.logarithmic ? "; logarithmic" : ""), small_font, grey);
  }

  void scales(canvas& on) {
    for (const tick& t : ticks(y_, most_ticks)) {
      on.line({left_, y_.at(t.value)}, {right_, y_.at(t.value)}, t.value == 0 ? grey : pale);
      on.text({left_ - 8, y_.at(t.value) + 4}, t.label, number_font, grey, align::right);
    }
    if (y_.logarithmic) on.line({left_, bottom_}, {right_, bottom_}, grey);
    for (const double x : x_ticks(on)) {
      on.line({x_.at(x), bottom_}, {x_.at(x), bottom_ + 4}, grey);
      on.text({x_.at(x), bottom_ + 17}, fmt::format("{:g}", x), number_font, grey, align::centre);
    }
    const std::string name = chart_.x_name + (x_.logarithmic ? "; logarithmic" : "");
    on.text({(left_ + right_) / 2, bottom_ + 34}, name, small_font, grey, align::centre);
  }

  /// Where there are points; of many, at round values. As many as there is room for; the last and the first before the others.
  std::vector<double> x_ticks(canvas& on) const {
    std::set<double> values;
    for (const curve& one : chart_.curves)
      for (const curve_point& p : one.points) values.insert(p.x);
    if (values.empty()) return {};
    const double first = *values.begin(), last = *values.rbegin();
    if (values.size() > 2 * most_ticks) {
      values = {first};
      for (const tick& t : ticks(x_, most_ticks)) values.insert(t.value);
    }
    std::vector<double> shown;
    const auto half = [&](double x) { return on.text_width(fmt::format("{:g}", x), number_font) / 2 + 4; };
    const auto add = [&](double x) {
      for (const double s : shown)
        if (std::fabs(x_.at(x) - x_.at(s)) < half(x) + half(s)) return;
      shown.push_back(x);
    };
    add(last);
    for (const double x : values) add(x);
    return shown;
  }

  void band(canvas& on, std::size_t i) {
    const auto& points = chart_.curves[i].points;
    if (points.size() == 1) {
      const curve_point& p = points.front();
      if (p.low != p.high) on.line(at(p.x, p.low), at(p.x, p.high), ink_of(i), 2);
      return;
    }
    if (std::all_of(points.begin(), points.end(), [](const curve_point& p) { return p.low == p.high; })) return;
    std::vector<point> outline;
    for (const curve_point& p : points) outline.push_back(at(p.x, p.high));
    for (auto p = points.rbegin(); p != points.rend(); ++p) outline.push_back(at(p->x, p->low));
    on.area(outline, ink_of(i), 0.15);
  }

  void line(canvas& on, std::size_t i) {
    std::vector<point> path;
    path.reserve(chart_.curves[i].points.size());
    for (const curve_point& p : chart_.curves[i].points) path.push_back(at(p.x, p.middle));
    on.path(path, ink_of(i), 2);
    const point* last = nullptr;
    for (std::size_t k = 0; k < path.size(); k++) {
      const bool settled = chart_.curves[i].points[k].settled;
      if (last != nullptr && path[k].x - last->x < 2 * symbol_size && settled) continue;
      settled ? symbol(on, path[k], i) : hollow(on, path[k], i);
      last = &path[k];
    }
  }

  void legend(canvas& on) {
    double y = top_ + 12;
    const double x = right_ + gap;
    for (const std::size_t i : by_last_value(chart_)) {
      on.line({x, y - 4}, {x + swatch, y - 4}, ink_of(i), 2);
      symbol(on, {x + swatch / 2, y - 4}, i);
      on.text({x + swatch + 8, y}, on.shortened(chart_.curves[i].name, name_font, names_ + 0.5), name_font, black);
      y += legend_height;
    }
  }

  const curve_chart& chart_;
  double names_ = 0, numbers_ = 0, top_, bottom_, left_, right_;
  std::vector<std::string> caption_, subtitle_;
  axis x_{}, y_{};
};

/// The same in words, for those who cannot see it and for searching.
std::string in_words(const curve_chart& c) {
  std::string all = fmt::format("{}; by {}", c.y_name, c.x_name);
  for (const curve& one : c.curves) {
    all += fmt::format("\n{}:", one.name);
    for (const curve_point& p : one.points) {
      all += fmt::format("{} {:g}: {:.4g}", &p == &one.points.front() ? "" : ",", p.x, p.middle);
      if (p.low != p.high) all += fmt::format(" ({:.4g}–{:.4g})", p.low, p.high);
      if (!p.settled) all += " not settled";
    }
  }
  for (const std::string& part : c.caption) all += "\n" + part;
  return all;
}

}  // namespace

std::string draw(const curve_chart& c, image_format format) {
  canvas measure(image_format::png, 1, 1);
  drawing d(c, measure);
  canvas on(format, width, d.height());
  d.all(on);
  return on.finish(c.title + ": " + c.subtitle, in_words(c));
}

}  // namespace usher::cli
