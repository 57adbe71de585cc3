#include "watch/reader/print/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <vector>

#include "support/text/table.hpp"
#include "support/text/utf8.hpp"
#include "support/text/words.hpp"
#include "support/text/wrap.hpp"
#include "watch/contract/format.hpp"
#include "watch/reader/judge/rule_facts.hpp"
#include "watch/reader/judge/rules.hpp"
#include "watch/reader/judge/stat_quantities.hpp"
#include "watch/reader/read/cpu_use.hpp"
#include "watch/reader/read/off_cpu.hpp"

namespace usher::reader {
namespace {

constexpr std::size_t page_width = 80;
constexpr std::size_t gap_width = 2;      // of format_table
constexpr std::size_t hottest_rows = 3;   // number of rows with stacks; --details gives all
constexpr std::size_t frames_shown = 8;   // of each stack
constexpr std::size_t threads_shown = 8;  // of each row
constexpr std::size_t narrowest_name = 16;

/// Breaks paragraphs into lines between words and indents them. words_to_break() makes the words printable. A word
/// longer than a line is not broken.
std::string wrap(std::string_view text, std::size_t indent, std::size_t hanging = 0) {
  std::string all, line(indent, ' ');
  bool is_empty = true;
  for (const std::string& word : support::words_to_break(text)) {
    if (!is_empty && width_of(line) + 1 + width_of(word) > page_width) {
      all += line + "\n";
      line.assign(indent + hanging, ' ');
      is_empty = true;
    }
    if (!is_empty) line += ' ';
    line += word;
    is_empty = false;
  }
  return all + line + "\n";
}

// ---- the tables -------------------------------------------------------------------------------------------------

struct shown_column {
  const char* heading;
  std::function<std::string(const counts&)> cell;
};

double contended_share(const counts& c) {
  const auto all = static_cast<double>(c.acquisitions + c.still_waiting);
  return all > 0 ? std::min(1.0, static_cast<double>(c.contended) / all) : 0;
}

std::string contended_cell(const counts& c) {
  if (c.acquisitions + c.still_waiting == 0 || (c.contended == 0 && c.waiting_is_hidden)) return unknown_text;
  return share_text(contended_share(c));
}

bool has_plus(const counts& c) {
  return c.waiting_is_hidden && c.waiting.total > 0;
}

std::string waited_cell(const counts& c) {
  if (c.waiting_is_hidden) return has_plus(c) ? time_text(c.waiting.total) + "+" : unknown_text;
  return time_text(c.waiting.total);
}

std::string held_cell(const counts& c) {
  if (!c.held_share) return unknown_text;
  const std::string share = share_text(*c.held_share);
  return c.holding_is_exact || share.starts_with("<") ? share : "~" + share;
}

std::string optional_time(const std::optional<double>& t) {
  return t ? time_text(*t) : unknown_text;
}

std::string unheard_cell(const counts& c) {
  if (c.signals == 0) return unknown_text;
  return share_text(static_cast<double>(c.unheard) / static_cast<double>(c.signals));
}

std::string acquired_cell(const counts& c) {
  return count_text(c.acquisitions);
}

std::string last_cell(const counts& c) {
  return c.last ? id_text(c.last->tid) : unknown_text;
}

struct section {
  kind what;
  const char *one, *many;
  std::vector<shown_column> columns;
};

const std::vector<section>& sections() {
  static const std::vector<section> all = {
      {kind::mutex,
       "mutex",
       "mutexes",
       {{"acquired", acquired_cell}, {"contended", contended_cell}, {"waited", waited_cell}, {"held", held_cell}}},
      {kind::rwlock,
       "read-write lock",
       "read-write locks",
       {{"read", [](const counts& c) { return count_text(c.sides ? c.sides->reading.acquisitions : 0); }},
        {"written", [](const counts& c) { return count_text(c.sides ? c.sides->writing.acquisitions : 0); }},
        {"contended", contended_cell},
        {"waited", waited_cell},
        {"held", held_cell}}},
      {kind::spin,
       "spin lock",
       "spin locks",
       {{"acquired", acquired_cell}, {"contended", contended_cell}, {"waited", waited_cell}, {"held", held_cell}}},
      {kind::condition,
       "condition variable",
       "condition variables",
       {{"waits", acquired_cell},
        {"signals", [](const counts& c) { return count_text(c.signals); }},
        {"unheard", unheard_cell},
        {"to run", [](const counts& c) { return optional_time(c.waiting.median); }}}},
      {kind::semaphore,
       "semaphore",
       "semaphores",
       {{"taken", acquired_cell},
        {"contended", contended_cell},
        {"waited", waited_cell},
        {"posted", [](const counts& c) { return count_text(c.signals); }}}},
      {kind::barrier, "barrier", "barriers", {{"waits", acquired_cell}, {"waited", waited_cell}, {"last", last_cell}}},
      {kind::join, "join", "joins", {{"waits", acquired_cell}, {"waited", waited_cell}}},
  };
  return all;
}

std::string full_name(const row& r) {
  std::string name = support::printable_line(r.name);
  if (r.objects > 1) name += " ×" + exact_count(r.objects);
  if (r.by_init) name += " (init)";
  if (r.embedded) name += " (embedded)";
  return name;
}

std::string in_table(const row& r) {
  const rule* const found = find_rule(r.rule);
  return found == nullptr ? "" : found->in_table;
}

/// Shortens words that are wider than the column: "…" replaces their middle.
std::string with_short_words(const std::string& text, std::size_t width) {
  std::string all;
  for (const std::string_view word : support::parts_of(text, " \n"))
    all += (all.empty() ? "" : " ") + shortened(std::string(word), width);
  return all;
}

/// Formats a table; the first column gets the width that the others leave.
std::string fitted_table(std::vector<support::column> columns, std::vector<std::vector<std::string>> rows) {
  std::size_t others = 0;
  for (std::size_t c = 1; c < columns.size(); c++) {
    std::size_t widest = width_of(columns[c].heading);
    for (const auto& r : rows) widest = std::max(widest, width_of(r[c]));
    others += widest + gap_width;
  }
  const std::size_t room = others + narrowest_name < page_width ? page_width - others : narrowest_name;
  columns[0].narrow = narrowest_name;
  for (auto& r : rows) r[0] = with_short_words(r[0], room);
  return support::format_table(columns, rows, page_width);
}

std::string table_of(const section& s, const std::vector<const row*>& rows) {
  std::vector<support::column> columns = {{s.one}};
  for (const shown_column& c : s.columns) columns.push_back({c.heading, true});
  columns.push_back({"verdict"});
  std::vector<std::vector<std::string>> cells;
  for (const row* r : rows) {
    std::vector<std::string> line = {full_name(*r)};
    for (const shown_column& c : s.columns) line.push_back(c.cell(r->seen));
    line.push_back(in_table(*r));
    cells.push_back(std::move(line));
  }
  return fitted_table(std::move(columns), std::move(cells));
}

// ---- below the tables --------------------------------------------------------------------------------------------

std::string source_of(const frame& f) {
  if (!f.file.empty()) return fmt::format("{}:{}", support::file_name(f.file), f.line);
  if (!f.module.empty()) return fmt::format("{}+{:#x}", support::file_name(f.module), f.offset);
  return hexadecimal(f.address);
}

std::string frame_line(const frame& f, std::size_t indent) {
  std::string source = support::printable_line(source_of(f));
  const std::string blanks(indent, ' '), inlined = f.is_inlined ? " (inlined)" : "";
  if (f.function.empty()) return blanks + shortened(source, page_width - indent) + inlined + "\n";
  source += inlined;
  const std::string function = support::printable_line(short_name(f.function));
  if (indent + width_of(function) + 2 + width_of(source) <= page_width)
    return fmt::format("{}{}  {}\n", blanks, function, source);
  return fmt::format("{}{}\n{}    {}\n", blanks, shortened(function, page_width - indent), blanks,
                     shortened(source, page_width - indent - 4));
}

/// Whether the frame is a function of the C++ library, which short stacks leave out.
bool is_library_wrapper(const frame& f) {
  const std::string name = short_name(f.function);
  return name.starts_with("std::") || name.starts_with("__gthread") || name.starts_with("__gnu_cxx::") ||
         name.starts_with("usher::");
}

std::string stack_text(const stack& s, std::size_t indent, bool all) {
  std::vector<const frame*> frames;
  for (const frame& f : s.frames)
    if (all || !is_library_wrapper(f)) frames.push_back(&f);
  if (frames.empty())
    for (const frame& f : s.frames) frames.push_back(&f);
  std::string text;
  const std::size_t shown = all ? frames.size() : std::min(frames.size(), frames_shown);
  for (std::size_t i = 0; i < shown; i++) text += frame_line(*frames[i], indent);
  const std::string blanks(indent, ' ');
  if (shown < frames.size()) {
    text += fmt::format("{}… {} more\n", blanks, with_noun(frames.size() - shown, "frame"));
  } else if (s.is_cut) {
    text += blanks + "… (could not be followed further)\n";
  }
  return text;
}

/// The heading of a holder's stack. If the holder's function ended with the call of unlock, its own frame is missing:
/// the stack begins with its caller, and does not show the place of the hold. Then the heading "held at" becomes "held
/// in a function called at".
std::string heading_of_holder(const stack& s, std::string heading, const std::vector<charged_stack>& waiters) {
  constexpr std::string_view at = " at";
  if (heading.ends_with(at) && ends_by_tail_call(s, waiters))
    heading.replace(heading.size() - at.size(), at.size(), " in a function called at");
  return heading;
}

/// The first stack, or all, each with its share of the total. `heading` tells what happened in the stacks ("held at").
/// `waiters`: the stacks of the lock's waiters, if `stacks` are those of holders.
std::string stacks_text(const std::vector<charged_stack>& stacks, std::string_view heading, bool all,
                        const std::vector<charged_stack>* waiters = nullptr) {
  const double sum =
      std::accumulate(stacks.begin(), stacks.end(), 0.0, [](double s, const charged_stack& c) { return s + c.waited; });
  std::string text;
  for (std::size_t i = 0; i < stacks.size() && (all || i == 0); i++) {
    const charged_stack& s = stacks[i];
    text += wrap(
        fmt::format(
            "{}{}:",
            waiters != nullptr ? heading_of_holder(s.where, std::string(heading), *waiters) : std::string(heading),
            sum > 0 ? fmt::format(" ({} of the waiting, {})", share_text(s.waited / sum), time_text(s.waited)) : ""),
        2);
    text += stack_text(s.where, 4, all);
  }
  return text;
}

/// The count as text, with "about" if it is large.
std::string rough_count(std::uint64_t n) {
  return (n > contract::counted_exactly ? "about " : "") + exact_count(n);
}
std::string rate_text(std::uint64_t n) {
  return n > contract::counted_exactly ? fmt::format(" (1 of {} counted)", contract::roughly) : "";
}

std::string durations_text(const durations& d, std::string_view what) {
  return fmt::format("{} {} in all; median {}, 99 % {}, longest {}", what, time_text(d.total), optional_time(d.median),
                     optional_time(d.p99), d.longest > 0 ? time_text(d.longest) : unknown_text);
}

std::string order_text(const admission& a) {
  return fmt::format("order of {} in {}: the owner changes {}; LWSS {:.1f}, MTTR {:.0f}, Gini {:.2f}, RSTDDEV {:.2f}",
                     with_noun(a.acquisitions, "acquisition"), with_noun(a.windows, "window"),
                     share_text(a.owner_changes), a.lwss, a.mttr, a.gini, a.rstddev);
}

/// For example "; 12 posts"; empty if the number is 0.
std::string some_text(std::uint64_t n, std::string_view words) {
  return n == 0 ? "" : fmt::format("; {} {}", exact_count(n), words);
}

std::string longest_text(double seconds) {
  return seconds > 0 ? fmt::format(", {} at the longest", time_text(seconds)) : "";
}

std::string side_text(const lock_side& s, std::string_view what) {
  return fmt::format("{} to {}, {} contended; waited {}{}", with_noun(s.acquisitions, "acquisition"), what,
                     exact_count(s.contended), time_text(s.waited), longest_text(s.longest));
}

/// The side's waiting time, divided by what held the lock; empty if there was none.
std::string behind_text(const lock_side& s, std::string_view side) {
  std::string text;
  if (s.behind_writer > 0) text = fmt::format("{} waited {} behind a writer", side, time_text(s.behind_writer));
  if (s.behind_readers > 0)
    text += (text.empty() ? fmt::format("{} waited ", side) : ", ") + time_text(s.behind_readers) + " behind readers";
  return text;
}

/// Adds the detail lines of a kind of object. `line` wraps and indents a line.
template <class Line>
void add_condition(const counts& c, Line line) {
  line(fmt::format("{}, {} ended by a signal{}{}", with_noun(c.acquisitions, "wait"), exact_count(c.woken),
                   some_text(c.timeouts, "by time"), some_text(c.still_waiting, "still waiting")));
  line(fmt::format("{} and broadcasts, {} without a waiter{}", with_noun(c.signals, "signal"),
                   rough_count(c.unheard) + rate_text(c.unheard),
                   c.herd > 1 ? fmt::format("; one woke {}", with_noun(c.herd, "thread")) : ""));
  line(durations_text(c.waiting, "from signal to running"));
}

template <class Line>
void add_sides(const lock_sides& s, Line line) {
  line(side_text(s.reading, "read"));
  line(side_text(s.writing, "write"));
  const std::string readers = behind_text(s.reading, "readers"), writers = behind_text(s.writing, "writers");
  if (!readers.empty() || !writers.empty()) line(readers + (readers.empty() || writers.empty() ? "" : "; ") + writers);
  if (s.most_readers > 0) line(fmt::format("{} at once", with_noun(s.most_readers, "reader")));
}

template <class Line>
void add_acquisitions(kind what, const counts& c, Line line) {
  if (what == kind::barrier)
    line(with_noun(c.acquisitions, "wait") + (c.last
                                                  ? fmt::format("; thread {} came last most often, {}",
                                                                id_text(c.last->tid), with_noun(c.last->waits, "time"))
                                                  : ""));
  else
    line(fmt::format(
        "{}, {} contended{}{}{}", with_noun(c.acquisitions, what == kind::join ? "wait" : "acquisition"),
        c.waiting_is_hidden ? exact_count(c.contended) + " or more" : exact_count(c.contended),
        c.failed_tries == 0
            ? ""
            : fmt::format("; {} failed trylocks{}", rough_count(c.failed_tries), rate_text(c.failed_tries)),
        some_text(c.timeouts, "given up in time"), what == kind::semaphore ? some_text(c.signals, "posts") : ""));
  if (c.sides) add_sides(*c.sides, line);
  if (c.tries.count != 0)
    line(fmt::format("{} came after failed trylocks, {} from the first failure{}",
                     with_noun(c.tries.count, "acquisition"), time_text(c.tries.total), longest_text(c.tries.longest)));
  line(durations_text(c.waiting, "waited") +
       (c.most_waiting > 0 ? fmt::format("; {} at once", with_noun(c.most_waiting, "thread")) : "") +
       some_text(c.still_waiting, "still waiting"));
}

std::string counts_text(kind what, const counts& c) {
  std::string text;
  const auto line = [&text](const std::string& words) { text += wrap(words, 2, 2); };
  if (what == kind::condition)
    add_condition(c, line);
  else
    add_acquisitions(what, c, line);
  if (c.ways)
    line(fmt::format("waiters looked {} times, slept {} times; {}", exact_count(c.ways->polls),
                     exact_count(c.ways->sleeps), with_noun(c.ways->grants, "hand-over")));
  if (c.holding.count != 0) {
    const char* const held = c.sides ? "held to write" : c.holding_is_exact ? "held" : "held about";
    line(durations_text(c.holding, held) +
         (c.holding_is_exact || c.holds_timed == 0
              ? ""
              : fmt::format(" (1 of {} holds timed)",
                            exact_count(std::max<std::uint64_t>(1, c.acquisitions / c.holds_timed)))));
  }
  if (!c.threads.empty() && c.waiting.total > 0) {
    std::string threads;
    for (std::size_t i = 0; i < std::min(c.threads.size(), threads_shown); i++)
      threads += fmt::format("{} {} ({})", i == 0 ? "" : ",", id_text(c.threads[i].tid),
                             share_text(std::min(1.0, c.threads[i].waited / c.waiting.total)));
    if (c.threads.size() > threads_shown || c.has_more_threads) threads += " and others";
    line("by threads" + threads);
  }
  return text;
}

std::string objects_table(const row& r, std::size_t top) {
  if (r.objects < 2 || r.each.empty()) return "";
  const bool has_contention = r.what != kind::barrier && r.what != kind::join,
             has_held = contract::has_holds(r.what) || r.what == kind::rwlock;
  std::vector<support::column> columns = {{"object"}, {"process", true}, {has_contention ? "acquired" : "waits", true}};
  if (has_contention) columns.push_back({"contended", true});
  columns.push_back({"waited", true});
  if (has_held) columns.push_back({"held", true});
  std::vector<std::vector<std::string>> cells;
  const std::size_t shown = std::min(top, r.each.size());
  for (std::size_t i = 0; i < shown; i++) {
    const object_row& o = r.each[i];
    std::vector<std::string>& line = cells.emplace_back();
    line = {support::printable_line(o.name), id_text(o.pid), count_text(o.seen.acquisitions)};
    if (has_contention) line.push_back(contended_cell(o.seen));
    line.push_back(waited_cell(o.seen));
    if (has_held) line.push_back(held_cell(o.seen));
  }
  std::string text = "\n" + fitted_table(std::move(columns), std::move(cells));
  const std::uint64_t left = r.objects - r.gone - std::min<std::uint64_t>(shown, r.objects - r.gone);
  if (left != 0) text += fmt::format("and {} more\n", exact_count(left));
  if (r.gone != 0) text += fmt::format("and {} that are gone\n", exact_count(r.gone));
  return text + "\n";
}

std::string block_of(const row& r, const text_options& o) {
  std::string text = "\n" + wrap(full_name(r), 0, 2);
  if (!r.verdict.empty()) text += wrap(r.verdict, 2);
  if (!r.command.empty()) text += "  Next: " + support::printable_line(r.command) + "\n";
  if (!r.first_locked.empty())
    text += wrap(fmt::format("its memory was first locked elsewhere, perhaps as another object: {}",
                             support::printable_line(r.first_locked)),
                 2);
  if (o.details) {
    text += counts_text(r.what, r.seen);
    if (r.order) text += wrap(order_text(*r.order), 2, 2);
    if (!r.module.empty()) text += wrap("in " + r.module, 2, 2);
    text += objects_table(r, std::max(o.top, std::size_t{1}));
    if (!r.place.frames.empty())
      text += (r.by_init ? "  initialised at:\n" : "  first used at:\n") + stack_text(r.place, 4, true);
  }
  text += stacks_text(r.holders, r.what == kind::barrier ? "came last at" : "held at", o.details, &r.waiters);
  const bool is_taken = is_lock(r.what) || r.what == kind::semaphore;
  text += stacks_text(r.waiters, is_taken ? "waited for at" : "waits at", o.details);
  return text;
}

/// The table of a section: its first rows, and a line with the sum of the others; then the stacks and verdicts of the
/// hottest rows.
std::string section_text(const section& s, const report& r, const text_options& o, bool& any_plus) {
  std::vector<const row*> rows;
  std::size_t others = 0;
  double waited = 0;
  for (const row& i : r.rows) {
    // Most programs wait long for their threads to end, so only the longest joins are shown.
    if (i.what != s.what || (s.what == kind::join && !o.details && &i >= r.rows.data() + hottest_rows)) continue;
    if (rows.size() < o.top) {
      rows.push_back(&i);
    } else {
      others++;
      waited += i.seen.waiting.total;
    }
  }
  if (rows.empty() && others == 0) return "";
  std::string text = "\n" + table_of(s, rows);
  if (others != 0)
    text += fmt::format("and {} {} more, {} in all; --top {} shows them\n", exact_count(others),
                        others == 1 ? s.one : s.many,
                        s.what == kind::condition ? time_text(waited) + " to run" : "waited " + time_text(waited),
                        rows.size() + others);
  std::size_t blocks = 0;
  for (const row* i : rows) {
    any_plus = any_plus || (s.what != kind::condition && has_plus(i->seen));
    // A row without waiting needs no stacks. Nor does a condition variable whose threads only wait for work.
    const bool is_worth_it =
        i->seen.waiting.total > 0 && s.what != kind::join && (s.what != kind::condition || i->rule != "condition");
    if (o.details || (is_worth_it && blocks < hottest_rows)) {
      text += block_of(*i, o);
      blocks++;
    }
  }
  return text;
}

/// The module of the place at which the row's objects were held or, if unknown, awaited, if that place has no function
/// name; else empty.
std::string module_without_names(const row& r) {
  for (const auto* stacks : {&r.holders, &r.waiters})
    for (const charged_stack& s : *stacks)
      if (const frame* f = s.where.place();
          f != nullptr && (stacks == &r.waiters || !ends_by_tail_call(s.where, r.waiters)))
        return f->function.empty() ? std::string(support::file_name(f->module)) : "";
  return "";
}

/// A hint on missing symbols, for the first contended row whose place has no function name; else empty.
std::string hint_on_names(const report& r) {
  for (const row& i : r.rows) {
    if (i.rule == "cool" || i.rule == "uncontended" || i.what == kind::condition || i.what == kind::join) continue;
    if (const std::string module = module_without_names(i); !module.empty())
      return fmt::format(
          "{} gives no names to these places. If it is stripped, its debug symbols (Debian: a package that ends in "
          "-dbgsym) or a build with -g give names and lines. No debuginfod server is asked.",
          module);
  }
  return "";
}

/// The remarks of the report, and further remarks that follow from its figures.
std::vector<std::string> all_remarks(const report& r) {
  std::vector<std::string> all = r.remarks;
  if (std::string hint = hint_on_names(r); !hint.empty()) all.push_back(std::move(hint));
  if (r.others_cpu_share.value_or(0) > busy_machine)
    all.push_back(fmt::format(
        "Others and the hypervisor took {:.0f} % of the CPU time meanwhile. That is much: record again when "
        "the machine is quiet.",
        100 * *r.others_cpu_share));
  return all;
}

std::string with_capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

/// Text on what sleeping threads waited for, and on the use of the CPUs.
std::string sampled_text(const report& r, const text_options& o) {
  std::string text;
  for (const std::string& sentence : {off_cpu_text(r), cpu_text(r)})
    if (!sentence.empty()) text += wrap(with_capital(sentence), 0, 2);
  if (o.details && r.asleep)
    for (const off_cpu::place& p : r.asleep->places) {
      text += wrap(fmt::format("{} in {}, {}, called{} by:", with_noun(p.samples, "sample"), p.call,
                               p.module.empty() ? "unknown code" : support::file_name(p.module),
                               p.is_certain ? "" : " probably"),
                   2, 2);
      text += stack_text(p.where, 4, true);
      if (!p.below.frames.empty()) text += wrap("probably below:", 2, 2) + stack_text(p.below, 4, true);
    }
  return text.empty() ? "" : "\n" + text;
}

std::string heading_of(const report& r) {
  const std::string lock = r.lock.empty() || r.lock == "pthread" ? "the C library's mutex" : r.lock;
  const std::string title =
      r.command.empty() ? fmt::format("process {}", id_text(r.pid)) : support::shell_line(r.command);
  return wrap(title, 0, 2) +
         wrap(fmt::format("{} under {}; {} in {}", time_text(r.seconds), lock, with_noun(r.threads, "thread"),
                          r.processes == 1 ? "1 process" : exact_count(r.processes) + " processes"),
              0, 2);
}

}  // namespace

std::string as_line(const deadlock& d) {
  std::string text;
  if (d.threads.size() == 1) {
    text = fmt::format("deadlock: thread {} has waited {}{} for {}, which it holds itself", id_text(d.threads[0].tid),
                       d.is_older ? "more than " : "", time_text(d.seconds), d.threads[0].waits_for);
  } else {
    text = fmt::format("deadlock: {} threads have waited {}{} for each other:", d.threads.size(),
                       d.is_older ? "more than " : "", time_text(d.seconds));
    for (std::size_t i = 0; i < d.threads.size(); i++)
      text += fmt::format("{} {} for {}", i == 0 ? "" : ",", id_text(d.threads[i].tid), d.threads[i].waits_for);
  }
  return support::printable_line(text);
}

std::string as_text(const deadlock& d) {
  std::string text = wrap(as_line(d), 0, 2);
  for (std::size_t i = 0; i < d.threads.size(); i++) {
    const deadlock::thread& t = d.threads[i];
    const std::string holder = id_text(d.threads[(i + 1) % d.threads.size()].tid);
    text += wrap(fmt::format("thread {} waits for {}, which {} holds:", id_text(t.tid), t.waits_for,
                             d.threads.size() == 1 ? "it" : fmt::format("thread {}", holder)),
                 2);
    text += t.where.frames.empty() ? "    (its stack is not known)\n" : stack_text(t.where, 4, false);
  }
  return text;
}

ended_circle as_ended(const deadlock& d) {
  std::string tids;
  for (const deadlock::thread& t : d.threads) tids += (tids.empty() ? "" : ", ") + id_text(t.tid);
  const bool is_one = d.threads.size() == 1;
  const char* const whom = is_one ? "itself" : "each other";
  return {fmt::format("{} {} no longer wait{} for {}: no deadlock", is_one ? "thread" : "threads", tids,
                      is_one ? "s" : "", whom),
          fmt::format("{} waited for {}{} for at least {} and then went on ({}): no deadlock.",
                      is_one ? "A thread" : fmt::format("{} threads", d.threads.size()), whom,
                      is_one ? "" : " in a circle", time_text(d.seconds), tids)};
}

std::string as_text(const report& r, const text_options& o) {
  std::string text = heading_of(r);
  bool any_plus = false;
  for (const section& s : sections()) text += section_text(s, r, o, any_plus);
  if (any_plus)
    text += "\n" + wrap(
                       "+: and what threads waited when they locked it again inside the C library's pthread_cond_wait, "
                       "which nobody sees.",
                       0);
  for (const deadlock& d : r.deadlocks) text += "\n" + as_text(d);
  text += sampled_text(r, o);
  const std::vector<std::string> remarks = all_remarks(r);
  if (!remarks.empty()) text += "\n";
  for (const std::string& remark : remarks) text += wrap(remark, 0, 2);
  if (!r.verdict.empty()) text += "\n" + wrap("Verdict: " + r.verdict, 0, 2);
  if (!r.next.empty()) text += "Next: " + support::printable_line(r.next) + "\n";
  if (text.find(until_load) != std::string::npos)
    text += wrap(
        "LOAD stands for a command that puts load on the program and then ends. Leave --until out if the program ends "
        "by itself.",
        2);
  return text;
}

}  // namespace usher::reader
