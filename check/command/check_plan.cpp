#include "check/command/check_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "support/command/lock_facts.hpp"
#include "support/locks.hpp"
#include "support/process/process.hpp"
#include "support/process/side_by_side.hpp"
#include "support/text/messages.hpp"
#include "support/text/progress.hpp"

namespace usher::check::command {
namespace {

constexpr std::uint64_t most_in_a_run = 10000;  // executions: a second or less, mostly

using forms_of_one = std::vector<const target*>;

bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// The form in a target's name: "spin" of "twa-spin"; "plain" of "twa", which spins and then parks.
std::string form_of(const target& t) {
  return t.name.size() > t.family.size() ? t.name.substr(t.family.size() + 1) : "plain";
}

/// Returns the form with this name or, if it is the name of a family, all forms of the family.
forms_of_one named(const std::vector<target>& all, const std::string& name) {
  forms_of_one forms;
  for (const target& t : all)
    if (t.name == name) forms.push_back(&t);
  if (!forms.empty() && forms[0]->name != forms[0]->family) return forms;
  forms.clear();
  for (const target& t : all)
    if (t.family == name) forms.push_back(&t);
  return forms;
}

std::string nearest(const std::vector<target>& all, std::string_view name) {
  nearest_name near(name);
  for (const target& t : all) near.consider(t.name);
  return std::string(near.best());
}

/// Returns the name of the form that the checker uses in place of this lock: ways of waiting in which a lock goes
/// through the same states are one form in the checker. Empty if the lock is checked under its own name, or if there is
/// no such form.
std::string form_with_same_states(const std::vector<target>& all, const lock_table& lock) {
  const waiting_kind kind = first_with_states_of(lock.kind);
  const std::string form = std::string(lock.family) + way_of(kind).suffix;
  return kind != lock.kind && !named(all, form).empty() ? form : std::string();
}

void report_unknown(const std::string& checker, const std::vector<target>& all, const std::string& name) {
  const lock_table* const lock = find_lock(name);
  if (lock == nullptr)
    support::report_error("check: unknown lock '{}'{} (usher check --list shows all{})", name,
                          did_you_mean(nearest(all, name)),
                          has_all_mutants(checker) ? "" : "; most mutants are not built: make mutants");
  else if (!lock->traits->excludes)
    support::report_error("check: {} excludes nobody: there is nothing to check", name);
  else if (lock->traits->native_only)
    support::report_error(
        "check: {} is the C library's own mutex, and only locks of ours can be compiled for the checker", name);
  else if (const std::string form = form_with_same_states(all, *lock); !form.empty())
    support::report_error("check: to the checker {} waits as {} does: check that", name, form);
  else
    support::report_error("check: {} was built without the lock {}: build it again", checker, name);
}

/// The families that --all, or --mutants without names, stands for. The forms of a family are adjacent in `all`.
std::vector<std::string> families(const std::vector<target>& all, bool mutants) {
  std::vector<std::string> names;
  for (const target& t : all)
    if (t.mutation.empty() != mutants && (names.empty() || names.back() != t.family)) names.push_back(t.family);
  return names;
}

bool is_wanted_form(const options& o, const target& t) {
  return o.forms.empty() || contains(o.forms, form_of(t));
}

bool is_wanted_scenario(const options& o, const std::string& scenario) {
  if (!o.scenario.empty()) return o.scenario == scenario;
  // A systematic search cannot run the scenarios "progress" and "served", because their schedules are fair and random.
  return o.random() || (scenario != "progress" && scenario != "served");
}

std::vector<part> parts_of(const options& o, const forms_of_one& forms) {
  std::vector<part> parts;
  for (const target* t : forms)
    for (const unsigned threads : o.threads.empty() ? std::vector{t->usual_threads} : o.threads)
      for (const std::string& scenario : t->scenarios)
        if (is_wanted_scenario(o, scenario)) parts.push_back({t, scenario, threads});
  return parts;
}

void report_nothing_chosen(const options& o) {
  if (!o.scenario.empty())
    support::report_error(
        "check: no scenario '{}' for what is to be checked (usher check --list shows which there are)", o.scenario);
  else
    support::report_error("check: nothing is left to check: no such form of what is named");
}

/// A form of a lock (the lock with one way of waiting), and the places in the source whose memory orders its code executes.
/// `goal`: the index of the request that names the lock.
struct form_with_sites {
  std::size_t goal;
  const target* form;
  std::vector<std::string> sites;
};

/// Asks the checker for the orders that each form executes. False: a run of the checker failed.
bool find_sites(const options& o, std::vector<form_with_sites>& forms) {
  support::progress bar(forms.size(), o.quiet);
  bool all_replied = true;
  std::size_t next = 0;
  support::run_side_by_side(
      o.jobs,
      [&]() -> std::optional<support::command_to_run> {
        if (next == forms.size()) return std::nullopt;
        const target& t = *forms[next].form;
        bar.show("looking for orders: " + t.name);
        std::vector<std::string> words = {t.checker, "--lock", t.name, "--sites", "--executions", "1000"};
        if (!o.scenario.empty()) words.insert(words.end(), {"--scenario", o.scenario});
        return support::command_to_run{words, time_limit(100000), next++};
      },
      [&](std::size_t id, const support::ended_run& run) {
        bar.one_done();
        all_replied = all_replied && run.end.way == support::ended::how::exited && run.end.status == 0;
        forms[id].sites = reply_of(run, time_limit(100000)).other;
      });
  return all_replied;
}

/// The rank of a file when the orders of a lock are sorted: the lock's own header, then headers of other locks, then
/// shared headers.
int rank_of(const std::string& file, const support::lock_facts* facts) {
  const std::string_view locks = "usher/locks/";
  if (file.starts_with("mutants/")) return 0;
  if (!file.starts_with(locks)) return 2;
  return facts != nullptr && file.substr(locks.size()) == facts->header ? 0 : 1;
}

/// All orders that the forms of a goal execute, sorted by rank_of() and place. An order is listed once, even if the
/// forms include its header by different paths.
std::vector<order_site> sites_of(const std::vector<form_with_sites>& forms, std::size_t goal) {
  std::map<std::tuple<int, std::string, unsigned, unsigned, std::string>, order_site> sites;
  for (const form_with_sites& f : forms)
    if (f.goal == goal)
      for (const std::string& text : f.sites) {
        const order_site s = order_site_from(text);
        const std::string file = short_name(s.file);
        sites[{rank_of(file, support::facts_of(f.form->family)), file, s.line, s.column, s.made}] = s;
      }
  std::vector<order_site> sorted;
  for (const auto& [key, site] : sites) sorted.push_back(site);
  return sorted;
}

/// The goal for a weakened order: one of the parts whose form executes the order must fail.
goal goal_of(const goal& whole, const order_site& site, const std::vector<form_with_sites>& forms) {
  goal g;
  g.family = whole.family;
  g.mutation = whole.mutation;
  g.weakened = site;
  g.must_fail = true;
  for (const part& p : whole.parts)
    for (const form_with_sites& f : forms)
      if (f.form == p.form && contains(f.sites, site.text)) g.parts.push_back(p);
  return g;
}

}  // namespace

std::optional<std::vector<goal>> choose(const options& o, const std::string& checker, const std::vector<target>& all) {
  std::vector<std::string> names;
  for (const std::string& n : o.locks) names.emplace_back(without_default_suffix(n));
  if (o.all || (o.mutants && names.empty())) names = families(all, o.mutants);
  std::vector<goal> goals;
  std::set<std::string> chosen;
  for (const std::string& name : names) {
    auto forms = named(all, name);
    if (forms.empty()) return report_unknown(checker, all, name), std::nullopt;
    if (o.mutants && forms[0]->mutation.empty()) {
      support::report_error("check: --mutants: {} is no mutant (usher check --list shows which there are)", name);
      return std::nullopt;
    }
    std::erase_if(forms, [&](const target* t) { return !is_wanted_form(o, *t) || !chosen.insert(t->name).second; });
    if (forms.empty()) continue;
    goal g;
    g.family = forms[0]->family;
    g.mutation = forms[0]->mutation;
    g.must_fail = o.mutants;
    g.parts = parts_of(o, forms);
    if (!g.parts.empty()) goals.push_back(std::move(g));
  }
  if (goals.empty()) return report_nothing_chosen(o), std::nullopt;
  return goals;
}

std::optional<std::vector<goal>> weaken(const options& o, const std::string& checker, const std::vector<goal>& chosen) {
  std::vector<form_with_sites> forms;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    for (const part& p : chosen[i].parts)
      if (forms.empty() || forms.back().form != p.form) forms.push_back({i, p.form, {}});
  const bool all_replied = find_sites(o, forms);
  if (support::interrupted() == 0 && !all_replied) {
    support::report_error("check: {} does not say which orders a lock has", checker);
    return std::nullopt;
  }
  std::vector<goal> goals;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    for (const order_site& site : sites_of(forms, i)) goals.push_back(goal_of(chosen[i], site, forms));
  return goals;
}

/// Divides the executions of each goal into chunks, in the order in which they run. If all parts must pass, one part is
/// finished before the next begins. If one part must fail, every part first gets a few executions.
void cut_into_chunks(const options& o, std::vector<goal>& goals) {
  const std::uint64_t all = o.executions;
  for (goal& g : goals) {
    std::vector<std::uint64_t> ends = {all};
    if (g.must_fail && o.random()) ends = {std::min<std::uint64_t>(all, 500), std::min<std::uint64_t>(all, 5000), all};
    std::uint64_t begin = 0;
    for (const std::uint64_t end : ends) {
      for (std::size_t p = 0; p < g.parts.size(); ++p)
        for (std::uint64_t at = begin; at < end;) {
          // A bounded or full search is one chunk, because the number of its executions is not known before.
          const std::uint64_t n = o.random() ? std::min(end - at, most_in_a_run) : end - at;
          g.chunks.push_back({p, o.seed + at, n, {}});
          at += n;
        }
      begin = end;
    }
  }
}

std::vector<std::string> command_of(const options& o, const part& p, const std::optional<order_site>& weakened) {
  std::vector<std::string> words = {
      p.form->checker,           "--lock", p.form->name, "--scenario", p.scenario, "--threads",
      std::to_string(p.threads), "--lines"};
  if (weakened) words.insert(words.end(), {"--weaken-at", weakened->text});
  if (o.acquisitions != default_acquisitions)
    words.insert(words.end(), {"--acquisitions", std::to_string(o.acquisitions)});
  return words;
}

double time_limit(std::uint64_t executions) {
  return 120 + 0.02 * static_cast<double>(std::min<std::uint64_t>(executions, most_in_a_run)) +
         0.0005 * static_cast<double>(executions);
}

}  // namespace usher::check::command
