#include "lab/draw/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lab/draw/axis.hpp"
#include "lab/draw/chart_style.hpp"
#include "lab/draw/lock_looks.hpp"
#include "lab/draw/page.hpp"

namespace usher::cli {
namespace {

using namespace style;

constexpr double row_height = 26;
constexpr double most_label = 200;  // pixels
constexpr double whisker_factor = 3;

constexpr font command_font{12, false, true}, label_font{13};

constexpr double most_stretched = 60;  // of a row
constexpr double least_plot = 120;

constexpr colour red{0.66, 0.12, 0.12};
constexpr colour good_ground{0.84, 0.91, 0.97}, bad_ground{0.99, 0.88, 0.78};

colour ground_of(mark m) {
  return m == mark::good ? good_ground : m == mark::bad ? bad_ground : white;
}

std::string number(double v) {
  const double size = std::fabs(v);
  if (size >= 1e6) return fmt::format("{:#.2g}", v);
  if (size >= 100) return fmt::format("{:.0f}", v);
  return size >= 0.095 || size == 0 ? fmt::format("{:.2f}", v) : fmt::format("{:#.2g}", v);
}

/// Whether the row has whiskers. One finite limit is enough: at an infinite one the whisker ends in an arrow at the end
/// of the axis.
bool has_whiskers(const chart_row& r) {
  return r.value && (std::isfinite(r.low) || std::isfinite(r.high));
}

std::string interval_text(const chart_row& r) {
  if (!has_whiskers(r)) return "";
  if (!std::isfinite(r.high)) return "from " + number(r.low);
  if (!std::isfinite(r.low)) return "up to " + number(r.high);
  return number(r.low) + "–" + number(r.high);
}

std::string quantity_of(const chart& c) {
  return fmt::format("{}; {} is better", c.quantity, c.less_is_better ? "less" : "more");
}

/// An axis from the lowest value to the highest. A whisker extends the axis to at most `whisker_factor` times the
/// highest value, or down to the lowest value divided by it, so that one outlier does not compress all other rows.
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
    if (!r.value) continue;
    if (std::isfinite(r.low)) least = std::min(least, positive ? std::max(r.low, low / whisker_factor) : r.low);
    if (std::isfinite(r.high)) most = std::max(most, positive ? std::min(r.high, high * whisker_factor) : r.high);
  }
  if (is_logarithmic(c.values, positive, most / least)) {
    const double room = std::max(1.02, std::pow(most / least, 0.03));
    return {least / room, most * room, true, begin, end};
  }
  // The axis spans at least 4 % of the reference, so that the symbols of similar values are close to each other.
  const double room = std::max(0.03 * (most - least), 0.02 * std::fabs(c.reference) - (most - least) / 2);
  return {least - room, most + room, false, begin, end};
}

/// The ticks of the axis: as many as possible without overlapping labels.
std::vector<tick> ticks_with_room(const axis& a) {
  const auto half = [](const tick& t) { return text_width(t.label, small_font) / 2 + 2; };
  const auto meet = [&](const tick& l, const tick& r) { return a.at(r.value) - a.at(l.value) < half(l) + half(r); };
  std::size_t most = most_ticks;
  std::vector<tick> all = ticks(a, most);
  while (most > 1 && std::adjacent_find(all.begin(), all.end(), meet) != all.end()) all = ticks(a, --most);
  return all;
}

struct laid_out_row {
  double top, height;
  std::vector<std::string> remark;
};

struct legend_entry {
  mark kind;
  std::string text;
  double x;
  std::size_t line;
};

/// The positions of all parts of the chart. They are computed before the canvas is made, since its size depends on
/// them.
struct layout {
  layout(const chart& c, const page& on);

  bool fits(const page& on) const {
    return plot_end - plot_begin >= least_plot && (on.height == 0 || height <= on.height);
  }

  double width, height = 0;
  double label_room = 0, value_room = 0, interval_room = 0;
  double plot_begin = 0, plot_end = 0, plot_top = margin + 68, plot_bottom = 0, caption_top = 0;
  std::vector<laid_out_row> rows;
  std::vector<legend_entry> legend;
  std::vector<std::string> caption;

 private:
  double legend_lines() const { return legend.empty() ? 0 : static_cast<double>(legend.back().line + 1); }
  void find_legend(const chart& c);
  void find_columns(const chart& c);
  /// Finds the positions of the rows. `more`: pixels to add to the height of each row.
  void find_rows(const chart& c, double more);
};

void layout::find_columns(const chart& c) {
  value_room = text_width(c.value_heading, small_font);
  interval_room = text_width(c.interval_heading, small_font);
  for (const chart_row& r : c.rows) {
    label_room = std::max(label_room, text_width(r.label, label_font));
    if (r.value) value_room = std::max(value_room, text_width(number(*r.value), number_font));
    interval_room = std::max(interval_room, text_width(interval_text(r), number_font));
  }
  label_room = std::min(label_room, most_label);
}

/// Lays out the legend in lines. It explains only marks that rows have.
void layout::find_legend(const chart& c) {
  double x = margin;
  std::size_t line = 0;
  for (const auto& [kind, text] : c.legend) {
    const bool there =
        std::any_of(c.rows.begin(), c.rows.end(), [k = kind](const chart_row& r) { return r.value && r.kind == k; });
    if (!there) continue;
    const double room = 17 + text_width(text, small_font);
    if (x > margin && x + room > width - margin) {
      x = margin;
      ++line;
    }
    legend.push_back({kind, text, x, line});
    x += room + 1.5 * gap;
  }
}

void layout::find_rows(const chart& c, double more) {
  double y = plot_top + 4;
  rows.clear();
  for (const chart_row& r : c.rows) {
    laid_out_row l{y, row_height + more, {}};
    if (!r.remark.empty()) {
      l.remark = broken(r.remark, small_font, plot_end - plot_begin - 2 * gap, 2);
      const double lines = line_height * static_cast<double>(l.remark.size());
      l.height = more + (r.value ? row_height + lines : std::max(row_height, lines + 8));
    }
    y += l.height;
    rows.push_back(std::move(l));
  }
  plot_bottom = y + 4;
  caption_top = plot_bottom + 60 + line_height * legend_lines();
  height = std::ceil(caption_top + line_height * static_cast<double>(caption.size()) + margin / 2);
}

layout::layout(const chart& c, const page& on) : width(on.width) {
  find_columns(c);
  plot_begin = margin + label_room + gap;
  plot_end = width - margin - interval_room - gap - value_room - gap;
  std::string all;
  for (const std::string& part : c.caption) all += (all.empty() ? "" : " · ") + part;
  caption = broken(all, small_font, width - 2 * margin, 3);
  find_legend(c);
  find_rows(c, 0);
  if (on.height > height && !c.rows.empty())
    find_rows(c, std::min(most_stretched, (on.height - height) / static_cast<double>(c.rows.size())));
}

class drawing {
 public:
  drawing(const chart& c, const layout& l, canvas& on)
      : chart_(c), layout_(l), on_(on), axis_(axis_of(c, l.plot_begin, l.plot_end)) {
    std::vector<shown_lock> shown;
    shown.reserve(c.rows.size());
    for (const chart_row& r : c.rows) shown.push_back({r.label, r.lock.empty() ? r.label : r.lock});
    looks_ = looks_of(shown);
  }

  void all() {
    heading();
    scale();
    for (std::size_t i = 0; i < chart_.rows.size(); ++i) row(chart_.rows[i], layout_.rows[i], looks_[i]);
    legend();
    caption();
  }

 private:
  void heading();
  void scale();
  void row(const chart_row& r, const laid_out_row& l, const lock_look& look);
  void numbers(const chart_row& r, double y);
  void whiskers(const chart_row& r, double y, colour ink);
  void whisker_end(double value, double y, int direction, colour ink);
  void key(point at, mark m);
  void remark(const chart_row& r, const laid_out_row& l);
  void legend();
  void caption();

  const chart& chart_;
  const layout& layout_;
  canvas& on_;
  axis axis_;
  std::vector<lock_look> looks_;
};

void drawing::heading() {
  const double room = layout_.width - 2 * margin;
  on_.text({margin, margin + 12}, shortened(chart_.title, title_font, room), title_font, black);
  on_.text({margin, margin + 32}, shortened(chart_.subtitle, command_font, room), command_font, grey);
  const double y = layout_.plot_top - 7;
  const double begin = layout_.plot_begin, end = layout_.plot_end;
  const char* const left = chart_.less_is_better ? "better" : "worse";
  const char* const right = chart_.less_is_better ? "worse" : "better";
  on_.arrow_head({begin, y - 4}, -1, 8, grey);
  on_.text({begin + 12, y}, left, small_font, grey);
  on_.arrow_head({end, y - 4}, 1, 8, grey);
  on_.text({end - 12, y}, right, small_font, grey, align::right);
  on_.text({end + gap + layout_.value_room, y}, chart_.value_heading, small_font, grey, align::right);
  on_.text({layout_.width - margin, y}, chart_.interval_heading, small_font, grey, align::right);
}

void drawing::scale() {
  const double top = layout_.plot_top, bottom = layout_.plot_bottom;
  for (const tick& t : ticks_with_room(axis_)) {
    on_.line({axis_.at(t.value), top}, {axis_.at(t.value), bottom}, pale);
    on_.text({axis_.at(t.value), bottom + 15}, t.label, small_font, grey, align::centre);
  }
  on_.line({axis_.begin, bottom}, {axis_.end, bottom}, grey);
  on_.line({axis_.at(chart_.reference), top}, {axis_.at(chart_.reference), bottom}, black, 1.5);
  const std::string name = quantity_of(chart_) + (axis_.logarithmic ? "; logarithmic" : "");
  write_axis_name(on_, name, (axis_.begin + axis_.end) / 2, bottom + 32, layout_.width);
}

void drawing::row(const chart_row& r, const laid_out_row& l, const lock_look& look) {
  const double lines = line_height * static_cast<double>(l.remark.size());
  const double y = l.top + (r.value ? l.height - lines : l.height) / 2;
  const colour ink = r.value && r.kind == mark::unclear ? grey : black;
  on_.text({layout_.plot_begin - gap, y + 4.5}, shortened(r.label, label_font, layout_.label_room), label_font, ink,
           align::right);
  remark(r, l);
  if (!r.value) return;
  whiskers(r, y, ink_of(look));
  draw_symbol(on_, {axis_.at(*r.value), y}, look, 1.2, r.kind == mark::unclear);
  numbers(r, y);
}

void drawing::numbers(const chart_row& r, double y) {
  if (!r.value) return;
  const double end = layout_.plot_end + gap + layout_.value_room, right = layout_.width - margin;
  const colour ink = r.kind == mark::unclear ? grey : black;
  if (r.kind == mark::good || r.kind == mark::bad)
    on_.box({layout_.plot_end + gap - 5, y - 10}, right - layout_.plot_end - gap + 10, 20, ground_of(r.kind));
  on_.text({end, y + 4.5}, number(*r.value), number_font, ink, align::right);
  on_.text({right, y + 4.5}, interval_text(r), number_font, grey, align::right);
}

void drawing::whiskers(const chart_row& r, double y, colour ink) {
  if (!has_whiskers(r)) return;
  const double from = axis_.at(std::max(r.low, axis_.low)), to = axis_.at(std::min(r.high, axis_.high));
  on_.line({from, y}, {to, y}, ink, 2);
  whisker_end(r.low, y, -1, ink);
  whisker_end(r.high, y, 1, ink);
}

/// Draws the end of a whisker: a bar, or an arrow if the limit is outside the axis or infinite.
void drawing::whisker_end(double value, double y, int direction, colour ink) {
  if (value < axis_.low || value > axis_.high) {
    on_.arrow_head({direction < 0 ? axis_.begin : axis_.end, y}, direction, 9, ink);
    return;
  }
  on_.line({axis_.at(value), y - 5}, {axis_.at(value), y + 5}, ink, 2);
}

/// Draws the symbol of a legend entry: the C library's symbol, a box in the background colour of the mark, or a hollow
/// symbol.
void drawing::key(point at, mark m) {
  if (m == mark::reference) return draw_symbol(on_, at, c_library_look(), 1.2);
  if (m == mark::good || m == mark::bad) return on_.box({at.x - 6, at.y - 6}, 12, 12, ground_of(m));
  on_.dot(at, 5, grey);
  on_.dot(at, 2.5, white);
}

void drawing::remark(const chart_row& r, const laid_out_row& l) {
  const double lines = line_height * static_cast<double>(l.remark.size());
  double y = l.top + (r.value ? l.height - lines : (l.height - lines) / 2);
  for (const std::string& text : l.remark) {
    on_.box({layout_.plot_begin + gap - 3, y}, text_width(text, small_font) + 6, line_height, white);
    on_.text({layout_.plot_begin + gap, y + 11}, text, small_font, red);
    y += line_height;
  }
}

void drawing::legend() {
  for (const legend_entry& e : layout_.legend) {
    const double y = layout_.plot_bottom + 56 + line_height * static_cast<double>(e.line);
    key({e.x + 6, y - 4}, e.kind);
    on_.text({e.x + 17, y}, e.text, small_font, grey);
  }
}

void drawing::caption() {
  double y = layout_.caption_top;
  for (const std::string& line : layout_.caption) {
    y += line_height;
    on_.text({margin, y}, line, small_font, grey);
  }
}

/// The content of the chart in words, for screen readers and for searching.
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

std::string draw(const chart& c) {
  const auto fit = [&c](const page& on) { return layout(c, on); };
  return drawn<drawing>(c, fit, in_words(c));
}

}  // namespace usher::cli
