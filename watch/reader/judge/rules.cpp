// Chooses the advice for each row and for the program. Each table is searched from the top, and the first rule that
// applies gives the verdict. The rules are in row_rules.cpp and program_rules.cpp.
//
// The rules use waiting times, the threads that waited, and the time for which a lock was held, not the number of lock
// calls or of contended ones. A sentence states no more than the figures of its rule: a recording does not see
// everything that a program waits for, so no rule claims a limit for all locks.
#include "watch/reader/judge/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "watch/reader/judge/rule_facts.hpp"
#include "watch/reader/judge/stat_quantities.hpp"

namespace usher::reader {
namespace {

template <class Rules>
std::vector<rule> texts_of(const Rules& rules) {
  std::vector<rule> all;
  for (const auto& r : rules) all.push_back(r.said);
  return all;
}

template <class Rules, class Facts>
const auto& first_that_fits(const Rules& rules, const Facts& f) {
  return *std::find_if(rules.begin(), rules.end(), [&](const auto& x) { return x.fits(f); });
}

/// A caution added to advice from waits, if threads also waited because they, or a holder, had no CPU. For mutexes the
/// rule cpus-taken does this, after the rules below that name one object or a place.
std::string caution_text(const report& r, const row_rule& of_row) {
  constexpr std::array from_waits = {"allocator", "one-of-many",    "spread",   "writers-hold", "readers-writers",
                                     "spun",      "semaphore-lock", "last-one", "barrier"};
  const auto is_this = [&](std::string_view name) { return name == of_row.said.name; };
  if (!lacks_cpus(r) || std::none_of(from_waits.begin(), from_waits.end(), is_this)) return "";
  return "; but " + lacking_cpus_text(*r.cpu) + ", and the waits contain that time: record again where they have CPUs";
}

}  // namespace

std::span<const rule> rules_of_rows() {
  static const std::vector<rule> all = texts_of(row_rules());
  return all;
}

std::span<const rule> rules_of_programs() {
  static const std::vector<rule> all = texts_of(program_rules());
  return all;
}

const rule* find_rule(const std::string& name) {
  for (const auto rules : {rules_of_rows(), rules_of_programs()})
    for (const rule& r : rules)
      if (name == r.name) return &r;
  return nullptr;
}

void judge(report& r) {
  // A trial of other locks is not conclusive while others use the CPUs, if threads hardly wait, or if waits for a lock
  // are in fact waits for a CPU. A condition variable may itself make more threads ready than there are CPUs.
  const bool is_busy = r.others_cpu_share.value_or(0) > busy_machine, lacks = lacks_cpus(r);
  bool any_command = false, any_for_lack = false;
  for (row& i : r.rows) {
    const row_facts f(i, r);
    const row_rule& found = first_that_fits(row_rules(), f);
    std::string verdict = found.sentence(f) + caution_text(r, found), command = found.command(f);
    any_command = any_command || !command.empty();
    i.rule = found.said.name;
    i.verdict = std::move(verdict);
    const bool is_of_usher = !i.embedded;  // USHER_LOCK, which the command uses, does not affect embedded locks
    const bool is_for_cpus = lacks && is_lock(i.what);
    any_for_lack = any_for_lack || (is_for_cpus && !command.empty());
    i.command = is_of_usher && !is_busy && !is_for_cpus && f.matters() ? std::move(command) : "";
  }
  const program_facts f(r);
  const program_rule& found = first_that_fits(program_rules(), f);
  std::string verdict = found.sentence(f), next = found.next(f);
  r.rule = found.said.name;
  r.verdict = std::move(verdict) + not_seen_text(r);
  if (next.empty() && r.deadlocks.empty()) next = roomier_command(r);
  const bool is_trial = next != details_command(r) && next != roomier_command(r);
  r.next = is_busy && is_trial ? "" : std::move(next);
  if ((is_busy && any_command) || any_for_lack)
    r.remarks.push_back("No command for a trial is recommended, since " +
                        (is_busy
                             ? fmt::format("others took {} of the CPU time meanwhile.", share_text(*r.others_cpu_share))
                             : lacking_cpus_text(*r.cpu) + "."));
}

}  // namespace usher::reader
