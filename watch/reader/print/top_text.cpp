#include "watch/reader/print/top_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "support/process/files.hpp"
#include "support/text/table.hpp"
#include "support/text/utf8.hpp"
#include "support/text/wrap.hpp"
#include "watch/reader/judge/stat_quantities.hpp"
#include "watch/reader/name/symbols.hpp"

namespace usher::reader {
namespace {

constexpr std::size_t shown_findings = 4, shown_waiters = 4, shown_frames = 5, shown_doings = 6, longest_finding = 6;

std::string seconds_text(double seconds) {
  return seconds < 9.95 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} s", seconds);
}

/// Lines of limited width and number.
class page {
 public:
  /// Adds a paragraph, whose further lines are indented by two more blanks.
  void add(const std::string& text, std::size_t indent = 0, std::size_t most = 3) {
    const std::string begin(indent, ' '), rest(indent + 2, ' ');
    const std::vector<std::string> lines = support::broken(text, page_columns - indent - 2);
    for (std::size_t i = 0; i < lines.size() && i < most; i++) {
      const std::string line = (i == 0 ? begin : rest) + shortened(lines[i], page_columns - indent - 2);
      lines_.push_back(i + 1 == most && lines.size() > most ? line.substr(0, line.find_last_not_of(' ') + 1) + " …"
                                                            : line);
      if (width_of(lines_.back()) > page_columns) lines_.back() = shortened(lines_.back(), page_columns);
    }
  }
  void blank() {
    if (!lines_.empty() && !lines_.back().empty()) lines_.emplace_back();
  }
  std::size_t left(std::size_t reserved = 0) const {
    return lines_.size() + reserved < page_lines ? page_lines - lines_.size() - reserved : 0;
  }
  std::size_t size() const { return lines_.size(); }
  void cut(std::size_t to) { lines_.resize(std::min(to, lines_.size())); }
  std::string text() const {
    std::string all;
    for (const std::string& l : lines_) all += l + "\n";
    return all;
  }

 private:
  std::vector<std::string> lines_;
};

std::string thread_text(const std::string& name, const shown_id& tid) {
  return fmt::format("{} ({})", name.empty() ? "?" : support::printable_line(name), id_text(tid));
}

std::string frame_text(const frame& f) {
  if (!f.function.empty()) {
    const std::string name = short_name(f.function);
    return f.file.empty() ? name : fmt::format("{} ({}:{})", name, support::file_name(f.file), f.line);
  }
  if (!f.module.empty()) return fmt::format("{}+{}", support::file_name(f.module), hexadecimal(f.offset));
  return hexadecimal(f.address);
}

/// "lock_b < worker (server.c:40) < …": from the first frame that is not the C library's.
std::string stack_text(const looked_stack& s) {
  const std::vector<frame>& all = s.where.frames;
  std::size_t first = 0;
  const frame* const place = own_place(s.where);
  for (std::size_t i = 0; i < all.size(); i++)
    if (&all[i] == place) first = i;
  std::string text;
  std::size_t n = 0;
  for (std::size_t i = first; i < all.size() && n < shown_frames; i++) {
    if (n != 0 && is_of_a_library(all[i])) continue;
    if (n++ != 0) text += " < ";
    if (s.uncertain_from && i >= *s.uncertain_from && (n == 1 || i == *s.uncertain_from)) text += "(uncertain:) ";
    text += shortened(frame_text(all[i]), 60);
  }
  return text;
}

const char* what_text(awaited what) {
  switch (what) {  // clang-format off
    case awaited::condition: return "condition variable";
    case awaited::rwlock: return "read-write lock";
    case awaited::internal_lock: return "lock inside of the C library";
    case awaited::futex: return "futex";
    case awaited::file_lock: return "file lock";
    case awaited::call: return "system call";
    default: return name_of(what);
  }  // clang-format on
}

void add_heading(const look_report& r, page& to) {
  to.add(fmt::format("usher top: {} (pid {}), {}, {}", r.process, id_text(r.pid), with_noun(r.threads_seen, "thread"),
                     r.looked == "recorded"
                         ? fmt::format("runs under Usher{}", r.lock.empty() ? "" : ", lock " + r.lock)
                         : "looked at from outside"));
  to.add(fmt::format("{}; {}; C library: {}; {} in {}", r.date, r.machine, r.libc.empty() ? "not known" : r.libc,
                     r.passes == 1 ? "1 pass" : fmt::format("{} passes", r.passes), seconds_text(r.seconds)));
  if (r.is_of_a_part) to.add("Passes looked at a random part of the threads only.");
}

void add_findings(const look_report& r, page& to) {
  if (r.findings.empty()) return;
  to.blank();
  for (std::size_t i = 0; i < std::min(r.findings.size(), shown_findings); i++) {
    const looked_finding& f = r.findings[i];
    to.add(fmt::format("{}{} (for at least {})", i == 0 && f.what == "circle" ? "=> " : "- ", f.text,
                       seconds_text(f.seconds)),
           0, longest_finding);
  }
  if (r.findings.size() > shown_findings) to.add(fmt::format("and {} more", r.findings.size() - shown_findings), 2);
}

void add_holder(const looked_holder& h, page& to) {
  std::string text = fmt::format("held by {}{}, which {}", thread_text(h.thread, h.tid),
                                 h.pid.seen != 0 ? fmt::format(" of process {}", id_text(h.pid)) : "", h.does);
  if (h.waited > 0) text += fmt::format(", for at least {}", seconds_text(h.waited));
  to.add(text, 2);
  if (const std::string stack = stack_text(h.where); !stack.empty()) to.add("in " + stack, 6, 2);
}

void add_wait(const looked_wait& w, page& to) {
  const bool is_call = w.what == awaited::call || w.what == awaited::unknown;
  std::string head = is_call ? w.name : fmt::format("{} {}", what_text(w.what), w.name);
  if (!is_call && (!w.kind.empty() || !w.library.empty()))
    head += fmt::format(" [{}{}{}]", w.library, w.library.empty() || w.kind.empty() ? "" : ": ", w.kind);
  if (w.address != 0) head += ", " + hexadecimal(w.address);
  to.add(head);
  if (!is_call) to.add(fmt::format("known by {}{}", w.known_by, w.seen.empty() ? "" : "; " + w.seen), 2, 2);
  if (w.holder && w.what != awaited::join) add_holder(*w.holder, to);
  if (w.is_free.value_or(false))
    to.add(fmt::format("free; its word has not changed for at least {}", seconds_text(w.unchanged)), 2);
  for (std::size_t i = 0; i < std::min(w.waiters.size(), shown_waiters); i++) {
    const looked_waiter& t = w.waiters[i];
    const char* const side = t.side == wanted_side::reading   ? " to read"
                             : t.side == wanted_side::writing ? " to write"
                                                              : "";
    to.add(fmt::format("{} {}{}, for at least {}{}", thread_text(t.thread, t.tid), is_call ? "is there" : "waits", side,
                       seconds_text(t.waited), t.has_time_limit ? ", with a time limit" : ""),
           2);
    const bool is_repeated = i > 0 && stack_text(t.where) == stack_text(w.waiters[i - 1].where);
    if (const std::string stack = stack_text(t.where); !stack.empty() && !is_repeated) to.add("in " + stack, 6, 2);
  }
  if (w.waiters.size() > shown_waiters)
    to.add(fmt::format("and {} more", with_noun(w.waiters.size() - shown_waiters, "waiting thread")), 2);
}

void add_doings(const look_report& r, page& to) {
  to.blank();
  to.add("All threads:");
  for (std::size_t i = 0; i < std::min(r.doings.size(), shown_doings); i++)
    to.add(fmt::format("{} × {}", r.doings[i].threads, r.doings[i].does), 2, 1);
  if (r.doings.size() > shown_doings) to.add(fmt::format("and {} more kinds", r.doings.size() - shown_doings), 2);
}

}  // namespace

std::string as_page(const look_report& r) {
  page to;
  add_heading(r, to);
  add_findings(r, to);
  for (const std::string& remark : r.remarks) to.add("Note: " + remark, 0, 2);
  const std::size_t for_doings = 3 + std::min(r.doings.size(), shown_doings + 1);
  std::size_t shown = 0, waited_for = 0;
  for (const looked_wait& w : r.waits)
    if (!w.waiters.empty()) waited_for++;
  for (const looked_wait& w : r.waits) {
    if (w.waiters.empty()) continue;
    const std::size_t before = to.size();
    to.blank();
    add_wait(w, to);
    if (to.left(for_doings + 1) == 0) {
      to.cut(before);
      break;
    }
    shown++;
  }
  if (shown < waited_for) to.add(fmt::format("and {} more objects or calls", waited_for - shown));
  if (waited_for == 0) to.add("No thread was seen waiting.");
  add_doings(r, to);
  to.cut(page_lines);
  return to.text();
}

std::string as_table(const look_report& r, std::size_t rows) {
  std::string text;
  page head;
  add_heading(r, head);
  add_findings(r, head);
  text = head.text();
  std::vector<std::vector<std::string>> cells;
  std::size_t left_out = 0;
  for (const looked_wait& w : r.waits) {
    if (w.samples == 0 && w.waiters.empty()) continue;
    if (cells.size() >= rows) {
      left_out++;
      continue;
    }
    cells.push_back({fmt::format("{}", w.waiters.size()), seconds_text(w.waited),
                     w.waiters.empty() ? "–" : seconds_text(w.waiters.front().waited), what_text(w.what),
                     shortened(support::printable_line(w.name), 36),
                     w.holder ? shortened(thread_text(w.holder->thread, w.holder->tid), 24) : ""});
  }
  if (cells.empty()) return text + "no thread was seen waiting\n";
  text += support::format_table({{"now", true}, {"waited", true}, {"longest", true}, {"kind"}, {"name"}, {"holder"}},
                                cells, 0);
  if (left_out != 0) text += fmt::format("and {} more\n", left_out);
  return text;
}

}  // namespace usher::reader
