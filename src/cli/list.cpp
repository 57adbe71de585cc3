// usher list: the catalogue, as a table or as JSON.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "help.hpp"
#include "locks.hpp"
#include "messages.hpp"
#include "subcommand.hpp"
#include "table.hpp"

namespace usher::cli {
namespace {

struct list_options {
  bool all = false;
  bool json = false;
};

std::string guarantees(const lock_traits& traits) {
  if (!traits.excludes) return "none: for measurements only";
  std::string words = traits.fifo ? "fifo, bypass " : "bypass ";
  words += traits.bypass == unbounded ? "unbounded" : std::to_string(traits.bypass);
  if (traits.starvation_free) words += traits.bounded_doorway ? ", starvation-free" : ", starvation-free once queued";
  if (traits.restricts) words += ", restricts";
  if (traits.context) words += ", node";
  return words;
}

/// The variants of a family, its plain name first.
using family = std::vector<const lock_table*>;

std::vector<family> families() {
  std::vector<family> found;
  for (const lock_table* lock : catalog()) {
    const auto same = [&](const family& f) { return std::string_view(f.front()->family) == lock->family; };
    const auto at = std::find_if(found.begin(), found.end(), same);
    if (at == found.end())
      found.push_back({lock});
    else
      at->push_back(lock);
  }
  return found;
}

std::string sizes(const family& f) {
  const auto smaller = [](const lock_table* a, const lock_table* b) { return a->size < b->size; };
  const auto [least, most] = std::minmax_element(f.begin(), f.end(), smaller);
  return (*least)->size == (*most)->size ? std::to_string((*least)->size)
                                         : fmt::format("{}-{}", (*least)->size, (*most)->size);
}

// How narrow columns may become on a terminal: no narrower than their longest words, and 80 columns are
// enough.
const column guarantee_column = {"guarantees", false, 16};
const column paper_column = {"paper", false, 11};

std::string grouped(std::size_t width) {
  std::vector<std::vector<std::string>> rows;
  for (const family& f : families()) {
    const lock_table& plain = *f.front();
    std::string variants;  // the endings
    for (const lock_table* lock : f)
      if (!lock->plain())
        variants +=
            (variants.empty() ? "" : ", ") + std::string(lock->name).substr(std::string_view(plain.family).size());
    rows.push_back({plain.family, variants, guarantees(*plain.traits), sizes(f), plain.traits->paper});
  }
  return format_table({{"lock"}, {"variants", false, 7}, guarantee_column, {"bytes", true}, paper_column}, rows, width);
}

std::string one_by_one(std::size_t width) {
  std::vector<std::vector<std::string>> rows;
  for (const lock_table* lock : catalog())
    rows.push_back({lock->name, std::string(to_string(lock->kind)), guarantees(*lock->traits),
                    std::to_string(lock->size), lock->traits->paper});
  return format_table({{"lock"}, {"waiting"}, guarantee_column, {"bytes", true}, paper_column}, rows, width);
}

std::string endings() {
  std::string lines;
  for (const way_of_waiting& way : ways_of_waiting)
    if (*way.suffix != '\0') lines += fmt::format("{:7} {}{}\n", way.suffix, way.in_words, way.wants_cpu ? " *" : "");
  return lines;
}

constexpr const char* legend = R"(
The default is {}. A plain name (twa) {}: it never
needs a CPU of its own. A name with an ending (twa-park) waits in another way:

{}
* needs a CPU of its own for every thread that waits. With more threads than CPUs it
can be slow beyond use, and -spin may never finish.
pthread and pthread-adaptive are the C library's own mutexes, to compare with.

fifo             threads get in in the order in which they arrived
bypass           how often, at most, a waiter past the lock's doorway is overtaken
starvation-free  every waiter gets in, for certain or with probability one;
                 "once queued": others can keep a thread from getting that far
restricts        lets only as many threads compete as the lock can use: a waiter, also
                 one that a condition variable has signalled, may be set aside for long
                 (mcscr: for a thousand unlocks on average, longer behind others)
node             a thread needs a queue node, which Usher keeps for it
)";

nlohmann::ordered_json as_json() {
  auto locks = nlohmann::ordered_json::array();
  for (const lock_table* lock : catalog()) {
    const lock_traits& t = *lock->traits;
    nlohmann::ordered_json object = {
        {"name", lock->name},
        {"family", lock->family},
        {"plain", lock->plain()},
        {"waiting", to_string(lock->kind)},
        {"fifo", t.fifo},
        {"bypass", nullptr},
        {"starvation_free", t.starvation_free},
        {"bounded_doorway", t.bounded_doorway},
        {"restricts", t.restricts},
        {"context", t.context},
        {"size", lock->size},
        {"words", t.words},
        {"paper", t.paper},
        {"summary", t.summary},
        {"native_only", t.native_only},
        {"excludes", t.excludes},
        {"default", std::string_view(lock->name) == default_lock},
        {"needs_own_cpu", needs_own_cpu(*lock)},
    };
    if (t.bypass != unbounded) object["bypass"] = t.bypass;
    locks.push_back(std::move(object));
  }
  return {{"locks", std::move(locks)}};
}

int carry_out(const list_options& options) {
  if (options.json)
    fmt::print("{}\n", as_json().dump(2));
  else
    fmt::print("{}{}", options.all ? one_by_one(terminal_width()) : grouped(terminal_width()),
               fmt::format(legend, default_lock, ways_of_waiting.front().in_words, endings()));
  return 0;
}

}  // namespace

subcommand list(CLI::App& app) {
  auto* sub = app.add_subcommand("list", "Show the locks, how they wait and what they promise");
  auto options = std::make_shared<list_options>();
  sub->add_flag("--all", options->all, "One row a variant, instead of one a family");
  sub->add_flag("--json", options->json, "All variants as JSON");
  sub->formatter(std::make_shared<help>("usher list [OPTIONS]"));
  sub->footer("Examples:\n  usher list\n  usher list --json | jq -r '.locks[].name'");
  return {sub, [options](char**) { return carry_out(*options); }};
}

}  // namespace usher::cli
