#include "chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "axis.hpp"
#include "chart_style.hpp"

namespace usher::cli {
namespace {

using namespace style;

constexpr double row_height = 26;
constexpr double most_label = 200;  // pixels
constexpr double whisker_factor = 3;

constexpr font command_font{12, false, true}, label_font{13};

constexpr colour white{1, 1, 1};
constexpr colour blue{0.07, 0.40, 0.66}, orange{0.80, 0.36, 0.05}, faded{0.60, 0.66, 0.72}, red{0.66, 0.12, 0.12};

colour colour_of(mark m) {
  switch (m) {
    case mark::reference:
      return black;
    case mark::good:
      return blue;
    case mark::bad:
      return orange;
    case mark::unclear:
      return faded;
  }
  return black;
}

std::string number(double v) {
  const double size = std::fabs(v);
  if (size >= 1e6) return fmt::format("{:#.2g}", v);
  if (size >= 100) return fmt::format("{:.0f}", v);
  return size >= 0.095 || size == 0 ? fmt::format("{:.2f}", v) : fmt::format("{:#.2g}", v);
}

bool has_whiskers(const chart_row& r) {
  return r.value && std::isfinite(r.low) && std::isfinite(r.high);
}

std::string interval_text(const chart_row& r) {
  return has_whiskers(r) ? number(r.low) + "–" + number(r.high) : "";
}

std::string quantity_of(const chart& c) {
  return fmt::format("{}; {} is better", c.quantity, c.less_is_better ? "less" : "more");
}

/// From the least to the most, with the whiskers as far as they are not much longer than all the rest: one wild run must
/// not press everything else together.
axis axis_of(const chart& c, double begin, double end) {
  double low = c.reference, high = c.reference;
  for (const chart_row& r : c.rows) {
    if (!r.value) continue;
    low = std::min(low, *r.value);
    high = std::max(high, *r.value);
  }
  const bool positive = low > 0;
  double least = low, most = high;
  for (const chart_row& r : c.rows) {
    if (!has_whiskers(r)) continue;
    least = std::min(least, positive ? std::max(r.low, low / whisker_factor) : r.low);
    most = std::max(most, positive ? std::min(r.high, high * whisker_factor) : r.high);
  }
  if (positive && most / least > log_from) {
    const double room = std::pow(most / least, 0.03);
    return {least / room, most * room, true, begin, end};
  }
  // Where all are much alike they shall look so.
  const double room = std::max(0.03 * (most - least), 0.02 * std::fabs(c.reference) - (most - least) / 2);
  return {least - room, most + room, false, begin, end};
}

struct laid_out_row {
  double top, height;
  std::vector<std::string> remark;
};

/// Where everything is; found with a canvas for measuring before the one to draw on can have its size.
struct layout {
  layout(const chart& c, canvas& measure);

  double label_room = 0, value_room = 0, interval_room = 0;
  double plot_begin, plot_end, plot_top, plot_bottom, height;
  std::vector<laid_out_row> rows;
  std::vector<std::string> caption;

 private:
  void find_columns(const chart& c, canvas& measure);
};

void layout::find_columns(const chart& c, canvas& measure) {
  value_room = measure.text_width(c.value_heading, small_font);
  interval_room = measure.text_width(c.interval_heading, small_font);
  for (const chart_row& r : c.rows) {
    label_room = std::max(label_room, measure.text_width(r.label, label_font));
    if (r.value) value_room = std::max(value_room, measure.text_width(number(*r.value), number_font));
    interval_room = std::max(interval_room, measure.text_width(interval_text(r), number_font));
  }
  label_room = std::min(label_room, most_label);
}

layout::layout(const chart& c, canvas& measure) {
  find_columns(c, measure);
  plot_begin = margin + label_room + gap;
  plot_end = width - margin - interval_room - gap - value_room - gap;
  plot_top = margin + 68;
  double y = plot_top + 4;
  for (const chart_row& r : c.rows) {
    laid_out_row l{y, row_height, {}};
    if (!r.remark.empty()) {
      l.remark = measure.broken(r.remark, small_font, plot_end - plot_begin - 2 * gap, 2);
      const double lines = line_height * static_cast<double>(l.remark.size());
      l.height = r.value ? row_height + lines : std::max(row_height, lines + 8);
    }
    y += l.height;
    rows.push_back(std::move(l));
  }
  plot_bottom = y + 4;
  std::string all;
  for (const std::string& part : c.caption) all += (all.empty() ? "" : " · ") + part;
  caption = measure.broken(all, small_font, width - 2 * margin, 3);
  height = std::ceil(plot_bottom + 72 + line_height * static_cast<double>(caption.size()) + margin / 2);
}

class drawing {
 public:
  drawing(const chart& c, const layout& l, canvas& on)
      : chart_(c), layout_(l), on_(on), axis_(axis_of(c, l.plot_begin, l.plot_end)) {}

  void all() {
    heading();
    scale();
    for (std::size_t i = 0; i < chart_.rows.size(); ++i) row(chart_.rows[i], layout_.rows[i]);
    legend();
    caption();
  }

 private:
  void heading();
  void scale();
  void row(const chart_row& r, const laid_out_row& l);
  void whiskers(const chart_row& r, double y);
  void whisker_end(double value, double y, int direction, colour ink);
  void symbol(point at, mark m);
  void remark(const chart_row& r, const laid_out_row& l);
  void legend();
  void caption();

  const chart& chart_;
  const layout& layout_;
  canvas& on_;
  axis axis_;
};

void drawing::heading() {
  const double room = width - 2 * margin;
  on_.text({margin, margin + 12}, on_.shortened(chart_.title, title_font, room), title_font, black);
  on_.text({margin, margin + 32}, on_.shortened(chart_.subtitle, command_font, room), command_font, grey);
  const double y = layout_.plot_top - 7;
  const double begin = layout_.plot_begin, end = layout_.plot_end;
  const char* const left = chart_.less_is_better ? "better" : "worse";
  const char* const right = chart_.less_is_better ? "worse" : "better";
  on_.arrow_head({begin, y - 4}, -1, 8, grey);
  on_.text({begin + 12, y}, left, small_font, grey);
  on_.arrow_head({end, y - 4}, 1, 8, grey);
  on_.text({end - 12, y}, right, small_font, grey, align::right);
  on_.text({end + gap + layout_.value_room, y}, chart_.value_heading, small_font, grey, align::right);
  on_.text({width - margin, y}, chart_.interval_heading, small_font, grey, align::right);
}

void drawing::scale() {
  const double top = layout_.plot_top, bottom = layout_.plot_bottom;
  for (const tick& t : ticks(axis_, most_ticks)) {
    on_.line({axis_.at(t.value), top}, {axis_.at(t.value), bottom}, pale);
    on_.text({axis_.at(t.value), bottom + 15}, t.label, small_font, grey, align::centre);
  }
  on_.line({axis_.begin, bottom}, {axis_.end, bottom}, grey);
  on_.line({axis_.at(chart_.reference), top}, {axis_.at(chart_.reference), bottom}, black, 1.5);
  const std::string name = quantity_of(chart_) + (axis_.logarithmic ? "; logarithmic" : "");
  on_.text({(axis_.begin + axis_.end) / 2, bottom + 32}, name, small_font, grey, align::centre);
}

void drawing::row(const chart_row& r, const laid_out_row& l) {
  const double y = l.top + (r.value ? row_height : l.height) / 2;
  const colour ink = r.value && r.kind == mark::unclear ? grey : black;
  on_.text({layout_.plot_begin - gap, y + 4.5}, on_.shortened(r.label, label_font, layout_.label_room), label_font, ink,
           align::right);
  remark(r, l);
  if (!r.value) return;
  whiskers(r, y);
  symbol({axis_.at(*r.value), y}, r.kind);
  on_.text({layout_.plot_end + gap + layout_.value_room, y + 4.5}, number(*r.value), number_font, ink, align::right);
  on_.text({width - margin, y + 4.5}, interval_text(r), number_font, grey, align::right);
}

void drawing::whiskers(const chart_row& r, double y) {
  if (!has_whiskers(r)) return;
  const colour ink = colour_of(r.kind);
  const double from = axis_.at(std::max(r.low, axis_.low)), to = axis_.at(std::min(r.high, axis_.high));
  on_.line({from, y}, {to, y}, ink, 2);
  whisker_end(r.low, y, -1, ink);
  whisker_end(r.high, y, 1, ink);
}

/// A bar, or an arrow where the whisker is longer than the axis.
void drawing::whisker_end(double value, double y, int direction, colour ink) {
  if (value < axis_.low || value > axis_.high) {
    on_.arrow_head({direction < 0 ? axis_.begin : axis_.end, y}, direction, 9, ink);
    return;
  }
  on_.line({axis_.at(value), y - 5}, {axis_.at(value), y + 5}, ink, 2);
}

void drawing::symbol(point at, mark m) {
  if (m == mark::reference)
    on_.diamond(at, 6, colour_of(m));
  else if (m == mark::unclear)
    on_.ring(at, 5, colour_of(m));
  else
    on_.dot(at, 5, colour_of(m));
}

void drawing::remark(const chart_row& r, const laid_out_row& l) {
  const double lines = line_height * static_cast<double>(l.remark.size());
  double y = l.top + (r.value ? row_height : (l.height - lines) / 2);
  for (const std::string& text : l.remark) {
    on_.box({layout_.plot_begin + gap - 3, y}, on_.text_width(text, small_font) + 6, line_height, white);
    on_.text({layout_.plot_begin + gap, y + 11}, text, small_font, red);
    y += line_height;
  }
}

void drawing::legend() {
  double x = margin;
  const double y = layout_.plot_bottom + 56;
  for (const auto& [kind, text] : chart_.legend) {
    const bool there = std::any_of(chart_.rows.begin(), chart_.rows.end(),
                                   [k = kind](const chart_row& r) { return r.value && r.kind == k; });
    if (!there) continue;
    symbol({x + 6, y - 4}, kind);
    on_.text({x + 17, y}, text, small_font, grey);
    x += 17 + on_.text_width(text, small_font) + 1.5 * gap;
  }
}

void drawing::caption() {
  double y = layout_.plot_bottom + 76;
  for (const std::string& line : layout_.caption) {
    on_.text({margin, y}, line, small_font, grey);
    y += line_height;
  }
}

/// The same in words, for those who cannot see it and for searching.
std::string in_words(const chart& c) {
  std::string all = quantity_of(c);
  for (const chart_row& r : c.rows) {
    all += fmt::format("\n{}:", r.label);
    if (r.value) all += fmt::format(" {}", number(*r.value));
    if (has_whiskers(r)) all += fmt::format(" ({} {})", c.interval_heading, interval_text(r));
    for (const auto& [kind, text] : c.legend)
      if (r.value && kind == r.kind) all += ", " + text;
    if (!r.remark.empty()) all += (r.value ? ", " : " ") + r.remark;
  }
  for (const std::string& part : c.caption) all += "\n" + part;
  return all;
}

}  // namespace

std::string draw(const chart& c, image_format format) {
  canvas measure(image_format::png, 1, 1);
  const layout l(c, measure);
  canvas on(format, width, l.height);
  drawing(c, l, on).all();
  return on.finish(c.title + ": " + c.subtitle, in_words(c));
}

}  // namespace usher::cli
