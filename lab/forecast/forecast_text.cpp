#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lab/forecast/forecast.hpp"
#include "support/text/table.hpp"
#include "support/text/utf8.hpp"
#include "support/text/wrap.hpp"

namespace usher::lab {
namespace {

std::string plural(std::uint64_t n, const char* one, const char* several) {
  return fmt::format("{} {}", n, n == 1 ? one : several);
}

/// Breaks a sentence into lines; the second and later lines are indented. Texts from the recording are made printable.
std::string wrapped(const std::string& sentence, std::size_t width, const char* indent) {
  std::string text;
  for (const std::string& line : support::broken(support::printable_line(sentence), width > 2 ? width - 2 : width))
    text += (text.empty() ? "" : indent) + line + "\n";
  return text;
}

/// Formats a number with three significant digits: "1.23", "0.0123", "123".
std::string short_number(double v) {
  if (v == 0) return "0";
  const int before = static_cast<int>(std::floor(std::log10(std::fabs(v))));
  return fmt::format("{:.{}f}", v, std::clamp(2 - before, 0, 6));
}

std::string duration(std::uint64_t ns) {
  if (ns < 1000) return fmt::format("{} ns", ns);
  if (ns < 1000000) return fmt::format("{} µs", short_number(static_cast<double>(ns) / 1e3));
  if (ns < 1000000000) return fmt::format("{} ms", short_number(static_cast<double>(ns) / 1e6));
  return fmt::format("{} s", short_number(static_cast<double>(ns) / 1e9));
}

std::string part_name(const predict::replay_plan& p, std::uint32_t object, unsigned part) {
  const std::string name = predict::name_of(p.objects, object);
  for (const predict::slot& s : p.slots)
    if (s.parts > 1 && !s.objects.empty() && s.objects.front() == object)
      return fmt::format("{}, part {} of {}", name, part + 1, s.parts);
  return name;
}

std::string percent(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

/// Returns a table with a row for each number of threads and a column for each lock.
template <class Cell>
std::string by_lock(const forecast& f, std::size_t width, Cell cell) {
  std::vector<support::column> columns{{"threads", true}};
  std::vector<std::string> locks;
  std::vector<unsigned> threads;
  for (const forecast_point& p : f.points) {
    if (std::find(locks.begin(), locks.end(), p.lock) == locks.end()) locks.push_back(p.lock);
    if (std::find(threads.begin(), threads.end(), p.threads) == threads.end()) threads.push_back(p.threads);
  }
  std::sort(threads.begin(), threads.end());
  for (const std::string& l : locks) columns.push_back({l, true});
  std::vector<std::vector<std::string>> rows;
  for (const unsigned t : threads) {
    std::vector<std::string> row{fmt::format("{}", t)};
    for (const std::string& l : locks) {
      const auto at = std::find_if(f.points.begin(), f.points.end(),
                                   [&](const forecast_point& p) { return p.lock == l && p.threads == t; });
      row.push_back(at != f.points.end() ? cell(*at) : "–");
    }
    rows.push_back(std::move(row));
  }
  return support::format_table(std::move(columns), rows, width);
}

std::string details_table(const forecast& f, const predict::replay_plan& p, std::size_t width) {
  std::vector<support::column> columns{
      {"lock"},          {"threads", true},     {"CPUs", true}, {"waiting", true},     {"signals", true},
      {"longest", true}, {"working set", true}, {"held", true}, {"busiest", false, 12}};
  std::vector<std::vector<std::string>> rows;
  for (const forecast_point& at : f.points)
    rows.push_back({at.lock, fmt::format("{}", at.threads), fmt::format("{:.1f}", at.cpus.middle),
                    percent(at.waiting.middle), percent(at.tokens.middle), duration(at.longest_wait),
                    fmt::format("{:.1f}", at.working_set.middle), percent(at.busiest.utilisation),
                    part_name(p, at.busiest.object, at.busiest.part)});
  return "\nCPUs in use; the share of the threads' time in waits for locks and in waits for signals, semaphores and "
         "barriers;\n"
         "the longest wait for a lock; the working set and the held time of the busiest lock:\n" +
         support::format_table(std::move(columns), rows, width);
}

std::string lines_in_words(const forecast& f) {
  if (f.lines_given)
    return fmt::format("Each section moves {}, as asked for.", plural(f.least_lines, "cache line", "cache lines"));
  if (!f.lines_measured)
    return "The cache lines that a section moves are not known from this recording: none are assumed (--lines N).";
  if (f.least_lines == f.most_lines)
    return fmt::format("Sections of the busiest mutex move {} by the recording.",
                       plural(f.least_lines, "cache line", "cache lines"));
  return fmt::format(
      "Sections of the busiest mutex move {} to {} cache lines by the recording; ranges cover both limits.",
      f.least_lines, f.most_lines);
}

std::string bottlenecks_in_words(const forecast& f, const predict::replay_plan& p) {
  std::string text;
  for (const bottleneck& b : f.bottlenecks)
    text += fmt::format("{}: {} is held or waited for nine tenths of the time from {} threads on\n", b.lock,
                        support::printable_line(part_name(p, b.object, b.part)), b.from_threads);
  return text.empty() ? "No lock is held or waited for nine tenths of the time.\n" : "Bottlenecks:\n" + text;
}

/// Describes the recording, the simulated machine, the replayed part and the changes of the program.
std::string replay_in_words(const forecast& f, const predict::replay_plan& p, std::size_t width) {
  std::string text = wrapped(fmt::format("{}: {} on {}{}, under {}: {} million lock operations a second", f.recording,
                                         plural(p.threads, "thread", "threads"), plural(p.machine.cpus, "CPU", "CPUs"),
                                         p.machine.processor.empty() ? "" : " (" + p.machine.processor + ")",
                                         p.machine.lock.empty() ? "an unknown lock" : p.machine.lock,
                                         short_number(p.operations_per_second / 1e6)),
                             width, "");
  text +=
      wrapped(fmt::format("Replayed on {} ({}). Work takes the recorded time on every machine.", f.machine, f.title),
              width, "");
  if (p.windows != f.all_windows || f.share_of_window < 1)
    text += wrapped(
        fmt::format("Of its {}, {} replayed.", plural(f.all_windows, "window", "windows"),
                    f.share_of_window < 1 ? fmt::format("the first {:.1f} % of {} is", 100 * f.share_of_window,
                                                        p.windows == 1 ? "one" : fmt::format("each of {}", p.windows))
                                          : fmt::format("{} are", p.windows)),
        width, "");
  for (const std::string& c : f.changes) text += wrapped(c, width, "");
  return text;
}

/// Describes how reliable the prediction is: earlier predictions, unknown numbers, and events that are not replayed as
/// recorded.
std::string reliability_in_words(const forecast& f, const predict::replay_plan& p, std::size_t width) {
  std::string text = "\nHow such predictions fared:\n";
  for (const std::string& s : track_record()) text += wrapped("- " + s, width, "  ");
  text += wrapped(lines_in_words(f), width, "");
  if (!f.effects.empty()) {
    const effect& e = f.effects.front();
    text += wrapped(
        fmt::format("The unknown that changes this prediction most, of those tried: if {}, {} makes {:+.0f} % with the "
                    "highest number of threads.",
                    e.what.words, e.lock, 100 * e.change),
        width, "");
  }
  if (const auto left = left_out_in_words(p); !left.empty()) {
    text += "Not replayed as recorded:\n";
    for (const std::string& s : left) text += wrapped("- " + s, width, "  ");
  }
  return text;
}

/// Returns the tables of throughputs; with several locks also relative to the first lock.
std::string throughput_tables(const forecast& f, std::size_t width) {
  std::string text = "\nMillion lock operations a second: median and range\n";
  text += by_lock(f, width, [](const forecast_point& at) {
    return fmt::format("{} {}–{}{}", short_number(at.operations.middle / 1e6), short_number(at.operations.least / 1e6),
                       short_number(at.operations.most / 1e6), at.unsettled != 0 ? "*" : "");
  });
  const auto any = [&f](auto is) { return std::any_of(f.points.begin(), f.points.end(), is); };
  if (any([](const forecast_point& at) { return at.unsettled != 0; }))
    text += "*: a run has not settled: the halves of a run differ\n";
  if (any([&f](const forecast_point& at) { return at.lock != f.points.front().lock; })) {
    text += fmt::format("\nRelative to {}\n", f.points.front().lock);
    text += by_lock(f, width, [](const forecast_point& at) {
      return at.to_first ? *at.to_first < 0.1 ? short_number(*at.to_first) : fmt::format("{:.2f}", *at.to_first) : "–";
    });
  }
  return text;
}

}  // namespace

std::vector<std::string> left_out_in_words(const predict::replay_plan& p) {
  std::vector<std::string> all;
  const predict::left_out& l = p.left;
  const auto add = [&all](std::uint64_t n, const std::string& text) {
    if (n != 0) all.push_back(text);
  };
  for (std::uint32_t c = 0; c < p.conditions.size(); c++) {
    const predict::condition_facts& f = p.conditions[c];
    add(f.unknown,
        fmt::format(
            "{}: {} of {} waits were ended by no recorded signal, and are replayed as sleeps of the recorded length",
            predict::name_of(p.objects, c), f.unknown, f.waits));
    add(f.rule == predict::signal_rule::matched ? 1 : 0,
        fmt::format("{}: what its threads wait for could not be inferred; each wait takes the token of a signal that "
                    "woke a thread in the "
                    "recording",
                    predict::name_of(p.objects, c)));
  }
  add(l.timed_out_waits,
      plural(l.timed_out_waits, "wait", "waits") + " that timed out: replayed as sleeps of the recorded length");
  add(l.unknown_semaphore_waits,
      plural(l.unknown_semaphore_waits, "wait", "waits") +
          " for semaphores that others than the recorded threads post: replayed as sleeps of the recorded length");
  for (const auto& [o, s] : p.semaphores)
    add(s.in_pairs && s.at_first >= 1 << 20 ? 1 : 0,
        fmt::format("{}: no thread waited for it, so it limits nothing here", predict::name_of(p.objects, o)));
  add(l.joins, plural(l.joins, "join", "joins") + ": replayed as sleeps of the recorded length");
  add(l.failed_tries, plural(l.failed_tries, "trylock", "trylocks") + " that failed: replayed as their work");
  add(l.against_order, plural(l.against_order, "nested lock", "nested locks") +
                           " against the order of most: tried only, and left out where the lock is not free");
  add(l.too_deep, plural(l.too_deep, "lock", "locks") + " beyond the eighth that a thread held: left out");
  add(l.lost, plural(l.lost, "call", "calls") + " lost by the recorder");
  add(l.impossible,
      plural(l.impossible, "call", "calls") + " with an object that does not exist or does not fit: left out");
  return all;
}

std::string forecast_text(const forecast& f, const predict::replay_plan& p, bool details, std::size_t width) {
  const std::size_t running = width == 0 ? 120 : width;
  std::string text = replay_in_words(f, p, running);
  text += reliability_in_words(f, p, running);
  text += throughput_tables(f, width);
  text += "\n" + bottlenecks_in_words(f, p);
  if (std::any_of(f.points.begin(), f.points.end(), [](const forecast_point& at) { return at.stalls > 0.01; }))
    text += wrapped(
        "More than one operation in a hundred found all other threads waiting for signals, and went on without one: "
        "the "
        "recording does not tell what the threads wait for, and this prediction is not to be relied on.",
        running, "");
  if (details) text += details_table(f, p, width);
  return text;
}

}  // namespace usher::lab
