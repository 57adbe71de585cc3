// usher list: a summary of the catalogue, one lock in full, one row for each form, or all as JSON.
#include <pthread.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "library/catalog/read_write_names.hpp"
#include "support/command/lock_facts.hpp"
#include "support/locks.hpp"
#include "support/process/library_names.hpp"
#include "support/process/near.hpp"
#include "support/text/help.hpp"
#include "support/text/messages.hpp"
#include "support/text/table.hpp"
#include "support/text/wrap.hpp"
#include "tool/commands.hpp"

namespace usher::tool {
namespace {

struct list_options {
  std::vector<std::string> locks;
  bool all = false;
  bool json = false;
};

/// A lock for everyday use, and the situation that it suits: the rows of README.md, "Which lock?".
struct everyday_lock {
  std::string_view name;
  const char* situation;
};
constexpr everyday_lock everyday[] = {
    {default_lock, "the default: don't know, or more threads than CPUs"},
    {"loiter-park", "tried beside the default by usher try: waiters sleep at once"},
    {"mcscr", "a few threads too many thrash the caches; fair in the long run"},
    {"twa", "strict order of arrival, and a CPU for each thread"},
    {"ticket", "fair with few waiters: order of arrival, simple"},
    {"fairlock", "fair with few waiters: round-robin"},
    {"ttas", "short critical sections, and fairness does not matter"},
    {"tas", "the same: the shortest path"},
    {"futex", "the same, sleeps at once: what C libraries ship, as our lock"},
};

bool is_everyday(std::string_view family) {
  return std::any_of(std::begin(everyday), std::end(everyday),
                     [&](const everyday_lock& e) { return e.name == family; });
}

/// The forms of a lock, its plain name first.
using forms = std::vector<const lock_table*>;

forms forms_of(std::string_view family) {
  forms found;
  for (const lock_table* lock : catalog())
    if (lock->family == family) found.push_back(lock);
  return found;
}

// ---- summary -------------------------------------------------------------------------------------------------

std::string everyday_rows(std::size_t width) {
  std::string text;
  for (const everyday_lock& e : everyday)
    if (find_lock(e.name) != nullptr) text += support::beside("  " + std::string(e.name), e.situation, 15, width);
  return text;
}

std::string all_rows(std::size_t width) {
  std::string text;
  std::string_view heading;
  for (const lock_table* lock : catalog()) {
    if (!lock->plain()) continue;
    if (const support::lock_facts* facts = support::facts_of(lock->family);
        facts != nullptr && facts->heading != heading) {
      heading = facts->heading;
      text += fmt::format("\n{}\n", heading);
    }
    text += support::beside((is_everyday(lock->family) ? "* " : "  ") + std::string(lock->name), lock->traits->summary,
                            22, width);
  }
  return text;
}

std::string endings(std::size_t width) {
  std::string lines;
  for (const way_of_waiting& way : ways_of_waiting)
    if (*way.suffix != '\0')
      lines += support::beside(fmt::format("  {}", way.suffix),
                               fmt::format("{}{}", way.in_words, way.wants_cpu ? " (*)" : ""), 12, width);
  return lines;
}

constexpr const char* own_cpu =
    "(*) needs a CPU of its own for every thread that waits: with more threads than CPUs it can be slow beyond use, "
    "and "
    "-spin may never finish.";

std::string read_write_locks(std::size_t width) {
  std::string names;
  for (const std::string_view name : read_write_names) names += (names.empty() ? "" : ", ") + std::string(name);
  return support::filled("Read-write locks, experimental, for 'usher run --rwlock': " + names + ".", width);
}

std::string in_short(std::size_t width) {
  return support::filled("For everyday use ('usher try -- CMD' finds out what suits a program):", width) + "\n" +
         everyday_rows(width) + "\n" +
         support::filled("All locks; * marks those above. 'usher list LOCK' shows one in full.", width) +
         all_rows(width) + "\n" +
         support::filled(
             fmt::format("A plain name {}: it never needs a CPU of its own. With an ending (twa-park) a lock waits in "
                         "another way:",
                         ways_of_waiting.front().in_words),
             width) +
         endings(width) + support::filled(own_cpu, width) + "\n" + read_write_locks(width);
}

// ---- one lock in full ----------------------------------------------------------------------------------------

std::string order_of(const lock_table& lock) {
  const lock_traits& t = *lock.traits;
  if (!t.excludes) return "no lock at all: for measurements only";
  std::string text = "a waiter may be overtaken any number of times";
  if (t.fifo)
    text = "first come, first served: threads are admitted in the order in which they queued";
  else if (t.bypass != unbounded)
    text = fmt::format("a thread that has queued is overtaken {} times at most", t.bypass);
  else if (t.fifo_leaders)
    text += "; groups of waiters are admitted in the order in which their leaders queued";
  if (t.by_priority) text += "; of threads that sleep, those with a real-time priority are admitted first";
  if (support::waits_for_parked(lock))
    text += "; while a signal handler keeps a waiter, as collectors' handlers do, others may wait for it";
  return text;
}

std::string starvation_of(const lock_traits& t) {
  if (!t.starvation_free) return "possible: no waiter is certain to be admitted";
  if (t.bounded_doorway) return "none: every waiter is admitted, for certain or with probability one";
  return "none once a thread has queued: it is admitted, for certain or with probability one. Arriving threads can in "
         "theory keep it from queueing as long as they arrive";
}

std::string size_of(const lock_table& lock) {
  constexpr std::size_t room = sizeof(pthread_mutex_t);
  std::string text = fmt::format("{} bytes; {} a pthread_mutex_t ({} bytes)", lock.size,
                                 lock.size <= room ? "fits into" : "does not fit into", room);
  if (lock.inflated_size != 0)
    text += fmt::format(". While threads contend it has {} bytes more, from a pool", lock.inflated_size);
  return text;
}

/// The library that has the lock for whole programs.
std::string_view library_with(std::string_view family) {
  return support::is_unusual(family) ? support::full_library_name : support::library_name;
}

std::string cost_of(const support::lock_facts* facts) {
  if (facts == nullptr || facts->instructions == 0) return "";
  return fmt::format(
      "{:.0f} instructions, {:.0f} of them locked, for lock and unlock without contention, through {} (counted in "
      "the code of gcc {})",
      facts->instructions, facts->locked, library_with(facts->family), support::counted_with);
}

/// The place of the lock's section in the documentation; empty if it has no section.
std::string page_of(std::string_view family) {
  if (const support::lock_facts* const facts = support::facts_of(family); facts != nullptr && !facts->has_section)
    return "";
  const std::filesystem::path page = support::document_near_us("locks.md");
  return page.empty() ? fmt::format("docs/locks.md#{} in Usher's source", family)
                      : fmt::format("{}, section {}", page.native(), family);
}

std::string in_full(const lock_table& asked, std::size_t width) {
  const forms all = forms_of(asked.family);
  const lock_table& plain = *all.front();
  const lock_traits& t = *plain.traits;
  std::string text = support::filled(fmt::format("{}: {}", plain.name, t.summary), width) + "\n";
  const auto row = [&](const char* label, const std::string& words) {
    if (!words.empty()) text += support::beside(label, words, 13, width);
  };
  row("Order", order_of(plain));
  if (t.excludes) row("Starvation", starvation_of(t));
  if (t.restricts)
    row("Concurrency",
        "only as many threads compete as the lock can use; the others are set aside and may wait for long");
  if (t.context) row("Queue nodes", "a thread needs one while it waits or holds the lock; Usher keeps them");
  row("Size", size_of(plain));
  row("Cost", cost_of(support::facts_of(plain.family)));
  if (t.excludes && !t.native_only)
    row("Library", fmt::format("{}, which usher run preloads", library_with(plain.family)));
  row("Paper", t.paper);
  row("Page", page_of(plain.family));
  if (const support::lock_facts* const facts = support::facts_of(plain.family); facts != nullptr && !t.native_only)
    row("C++", fmt::format("#include <usher/locks/{}>", facts->header));
  text += "\nForms\n";
  bool any_wants_cpu = false;
  for (const lock_table* form : all) {
    const way_of_waiting& way = way_of(form->kind);
    any_wants_cpu = any_wants_cpu || way.wants_cpu;
    text += support::beside(
        fmt::format("  {}", form->name),
        fmt::format("{}{}", t.native_only ? "as the C library has it" : way.in_words, way.wants_cpu ? " (*)" : ""), 26,
        width);
  }
  return text + (any_wants_cpu ? support::filled(own_cpu, width) : "");
}

// ---- one row for each form -----------------------------------------------------------------------------------

std::string guarantees(const lock_traits& traits) {
  if (!traits.excludes) return "none: for measurements only";
  std::string words = traits.fifo ? "fifo, bypass " : "bypass ";
  words += traits.bypass == unbounded ? "unbounded" : std::to_string(traits.bypass);
  if (traits.starvation_free) words += traits.bounded_doorway ? ", starvation-free" : ", starvation-free once queued";
  if (traits.restricts) words += ", restricts";
  if (traits.context) words += ", node";
  return words;
}

std::string one_by_one(std::size_t width) {
  // The least width of a column on a terminal is its longest word. With these widths all columns fit into 80.
  const support::column guarantee_column = {"guarantees", false, 16};
  const support::column paper_column = {"paper", false, 11};
  std::vector<std::vector<std::string>> rows;
  for (const lock_table* lock : catalog())
    rows.push_back({lock->name, std::string(support::to_string(lock->kind)), guarantees(*lock->traits),
                    std::to_string(lock->size), lock->traits->paper});
  return support::format_table({{"lock"}, {"waiting"}, guarantee_column, {"bytes", true}, paper_column}, rows, width);
}

constexpr const char* legend = R"(
fifo             threads are admitted in the order in which they arrived
bypass           how often, at most, a waiter past the lock's doorway is overtaken
starvation-free  every waiter is admitted, for certain or with probability one;
                 "once queued": other threads can keep a thread from queueing
restricts        lets only as many threads compete as the lock can use: a waiter, also
                 one that a condition variable has signalled, may be set aside for long
                 (mcscr: for a thousand unlocks on average, longer behind others)
node             a thread needs a queue node, which Usher keeps for it
)";

// ---- JSON ----------------------------------------------------------------------------------------------------

nlohmann::ordered_json as_json(const lock_table& lock) {
  const lock_traits& t = *lock.traits;
  nlohmann::ordered_json object = {
      {"name", lock.name},
      {"family", lock.family},
      {"plain", lock.plain()},
      {"waiting", support::to_string(lock.kind)},
      {"fifo", t.fifo},
      {"bypass", nullptr},
      {"starvation_free", t.starvation_free},
      {"bounded_doorway", t.bounded_doorway},
      {"restricts", t.restricts},
      {"context", t.context},
      {"size", lock.size},
      {"words", t.words},
      {"paper", t.paper},
      {"summary", t.summary},
      {"native_only", t.native_only},
      {"excludes", t.excludes},
      {"default", std::string_view(lock.name) == default_lock},
      {"needs_own_cpu", support::needs_own_cpu(lock)},
      {"library", library_with(lock.family)},
  };
  if (t.bypass != unbounded) object["bypass"] = t.bypass;
  return object;
}

nlohmann::ordered_json as_json(const forms& locks) {
  auto list = nlohmann::ordered_json::array();
  for (const lock_table* lock : locks) list.push_back(as_json(*lock));
  return {{"locks", std::move(list)}};
}

// ---- the subcommand ------------------------------------------------------------------------------------------

/// The locks of these names; false after an error message.
bool find_all(const std::vector<std::string>& names, forms& found) {
  for (const std::string& name : names) {
    found.push_back(find_lock(name));
    if (found.back() != nullptr) continue;
    support::report_error("list: unknown lock '{}'{} (usher list shows all)", name, did_you_mean(nearest_lock(name)));
    return false;
  }
  return true;
}

int carry_out(const list_options& options) {
  forms chosen;
  if (!find_all(options.locks, chosen)) return support::bad_usage;
  if (options.json) {
    fmt::print("{}\n", as_json(chosen.empty() ? forms(catalog().begin(), catalog().end()) : chosen).dump(2));
  } else if (options.all) {
    fmt::print("{}{}", one_by_one(support::terminal_width()), legend);
  } else if (chosen.empty()) {
    fmt::print("{}", in_short(support::text_width()));
  } else {
    for (const lock_table* lock : chosen)
      fmt::print("{}{}", lock == chosen.front() ? "" : "\n", in_full(*lock, support::text_width()));
  }
  return 0;
}

}  // namespace

support::subcommand list(CLI::App& app) {
  auto* sub = app.add_subcommand("list", "Show the locks, or one of them in full");
  auto options = std::make_shared<list_options>();
  CLI::Option* locks =
      sub->add_option("LOCK", options->locks, "Show these in full: guarantees, size and cost")->type_name("");
  sub->add_flag("--all", options->all, "One row for each form")->excludes(locks);
  sub->add_flag("--json", options->json, "All data of the catalogue, as JSON");
  sub->formatter(std::make_shared<support::help>("usher list [OPTIONS] [LOCK...]"));
  sub->footer("Examples:\n  usher list\n  usher list steady\n  usher list --json | jq -r '.locks[].name'");
  return {sub, [options](char**) { return carry_out(*options); }};
}

}  // namespace usher::tool
