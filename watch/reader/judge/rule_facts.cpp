#include "watch/reader/judge/rule_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "library/catalog/names.hpp"
#include "support/text/words.hpp"
#include "watch/reader/judge/stat_quantities.hpp"
#include "watch/reader/name/symbols.hpp"

namespace usher::reader {
namespace {

constexpr double full_cpus = 0.9;         // of the CPUs
constexpr double waiting_for_cpus = 0.5;  // threads, on average
// Threads that waited for a CPU per running thread. On a quiet machine the kernel wakes threads on the waker's CPU: a
// program whose threads take turns had 0.85 there, one with its threads bound to one CPU 2.6.
constexpr double beside_others = 0.5, beside_nobody = 1;
constexpr double second_thread = 1;
constexpr double least_for_one = 0.85, most_for_one = 1.1, several_cpus = 1.8;
constexpr double cost_of_wait = 10e-6, cost_of_acquisition = 100e-9;  // seconds
constexpr std::uint64_t enough_samples = 20;

/// The key with the most samples; empty if there are none.
std::string most_of(const std::map<std::string, std::uint64_t>& samples) {
  const auto most = std::max_element(samples.begin(), samples.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == samples.end() ? "" : most->first;
}

/// The module that made the most futex calls; empty: not known.
std::string most_of_futexes(const off_cpu& o) {
  std::map<std::string, std::uint64_t> samples;
  for (const off_cpu::place& p : o.places)
    if (p.call == "futex") samples[p.module] += p.samples;
  return most_of(samples);
}

std::string place_text(const frame& f) {
  const std::string function = short_name(f.function);
  if (!f.function.empty() && !f.file.empty())
    return fmt::format("{}:{} ({})", support::file_name(f.file), f.line, function);
  if (!f.function.empty()) return fmt::format("{} in {}", function, support::file_name(f.module));
  if (!f.module.empty()) return fmt::format("{}+{:#x}", support::file_name(f.module), f.offset);
  return hexadecimal(f.address);
}

/// The place in the program that probably calls the library most often in these calls, in words.
std::string below_text(const off_cpu& o, const std::string& module) {
  std::map<std::string, std::uint64_t> samples;
  std::uint64_t all = 0;
  for (const off_cpu::place& p : o.places) {
    if (p.call != "futex" || p.module != module) continue;
    all += p.samples;
    if (const frame* const f = p.below.place(); f != nullptr) samples[place_text(*f)] += p.samples;
  }
  const std::string most = most_of(samples);
  if (most.empty()) return "";
  return fmt::format(", {} below {}", 2 * samples[most] > all ? "probably most of it" : "some of it probably", most);
}

/// The time that threads waited for the lock, in lock calls or between trylocks.
double delay(const row& r) {
  return std::max(r.seen.waiting.total, says(r, {"polled"}) ? r.seen.tries.total : 0);
}

/// The first frame in the stacks outside of the C and C++ library; null: there is none.
const frame* own_place(const std::vector<charged_stack>& stacks) {
  for (const charged_stack& s : stacks)
    if (const frame* f = s.where.place(); f != nullptr && !is_of_a_library(*f)) return f;
  return nullptr;
}

double waited_for(const report& r, kind k) {
  return r.waited[contract::index_of(k)];
}

}  // namespace

row_facts::row_facts(const row& its_row, const report& its_report) : r(its_row), all(its_report) {
  const counts& c = r.seen;
  if (all.thread_seconds > 0) of_all = c.waiting.total / all.thread_seconds;
  if (all.seconds > 0 && !c.threads.empty()) of_thread = c.threads.front().waited / all.seconds;
  if (c.waiting.count != 0) mean_wait = c.waiting.total / static_cast<double>(c.waiting.count);
  // The holds of a read-write lock are the holds to write.
  const std::uint64_t holds = is(kind::rwlock) ? c.holding.count : c.acquisitions;
  if (c.holding.count != 0 && holds != 0) mean_hold = c.holding.total / static_cast<double>(holds);
  waiters = std::max(1.0, static_cast<double>(c.most_waiting));
}

program_facts::program_facts(const report& its_report) : r(its_report) {
  if (r.thread_seconds > 0) {
    of_all = (waited_for(r, kind::mutex) + waited_for(r, kind::rwlock) + waited_for(r, kind::spin)) / r.thread_seconds;
    to_run = waited_for(r, kind::condition) / r.thread_seconds;
  }
  for (const row& i : r.rows) {
    if (is_lock(i.what) && !says(i, {"cool", "uncontended"}) && (hottest == nullptr || delay(i) > delay(*hottest)))
      hottest = &i;
    if (i.what == kind::semaphore && credits == nullptr && says(i, {"no-credits", "semaphore-lock", "polled"}))
      credits = &i;
    if (i.what == kind::barrier && barrier == nullptr && says(i, {"last-one", "barrier"})) barrier = &i;
    if (i.what == kind::condition && waited_at == nullptr) waited_at = &i;
    if (i.what == kind::condition && herd == nullptr && says(i, {"herd", "slow-wake"})) herd = &i;
  }
}

bool is_lock(kind k) {
  return k == kind::mutex || k == kind::rwlock || k == kind::spin;
}

bool says(const row& r, std::initializer_list<const char*> rules) {
  return std::any_of(rules.begin(), rules.end(), [&](const char* name) { return r.rule == name; });
}

bool is_c_library(const report& all) {
  return all.lock.empty() || all.lock.starts_with("pthread");
}

bool are_cpus_full(const report& all) {
  return all.cpu && all.cpu->cpus > 0 && all.cpu->busy >= full_cpus * all.cpu->cpus &&
         all.cpu->waiting >= waiting_for_cpus;
}

bool lacks_cpus(const report& all) {
  if (!all.cpu || all.cpu->cpus <= 0 || all.cpu->busy >= full_cpus * all.cpu->cpus) return false;
  const double beside_running = all.others_cpu_share.value_or(0) > busy_machine ? beside_others : beside_nobody;
  return all.cpu->waiting >= std::max(waiting_for_cpus, beside_running * all.cpu->busy);
}

bool runs_one_at_a_time(const report& all) {
  return all.cpu && all.threads > 1 && all.cpu->cpus >= several_cpus && all.cpu->busy >= least_for_one &&
         all.cpu->busy <= most_for_one && all.cpu->waiting < second_thread;
}

double most_work(const report& all, std::uint64_t waits, std::uint64_t acquisitions) {
  if (!all.cpu || all.cpu->busy <= 0 || all.seconds <= 0) return 1;
  const double work =
      static_cast<double>(waits) * cost_of_wait + static_cast<double>(acquisitions) * cost_of_acquisition;
  return std::min(1.0, work / (all.cpu->busy * all.seconds));
}

double most_lock_work(const row_facts& f) {
  const counts& c = f.r.seen;
  const bool may_spin = !f.is(kind::mutex) || !is_c_library(f.all) || c.failed_tries > c.acquisitions;
  return may_spin ? 1 : most_work(f.all, c.waiting.count, c.acquisitions);
}

bool ends_by_tail_call(const stack& holder, const std::vector<charged_stack>& waiters) {
  if (holder.frames.empty()) return false;
  const std::uint64_t caller = holder.frames.front().address;
  const auto is_inside = [caller](const charged_stack& w) {
    const std::vector<frame>& frames = w.where.frames;
    return caller != 0 && !frames.empty() && frames.front().address != caller &&
           std::any_of(frames.begin(), frames.end(), [caller](const frame& f) { return f.address == caller; });
  };
  return std::any_of(waiters.begin(), waiters.end(), is_inside) ||
         (std::all_of(holder.frames.begin(), holder.frames.end(), is_of_a_library) && own_place(waiters) != nullptr);
}

std::string holder_place(const row& r) {
  for (const charged_stack& s : r.holders) {
    const frame* const f = s.where.place();
    if (f == nullptr) continue;
    if (!ends_by_tail_call(s.where, r.waiters)) return place_text(*f);
    break;
  }
  const frame* const f = own_place(r.waiters);
  return f != nullptr ? place_text(*f) + ", where it is entered" : r.name;
}

std::string held_text(const counts& c) {
  return (c.holding_is_exact ? "" : "about ") + share_text(c.held_share.value_or(0));
}

std::string cpus_text(const cpu_use& c) {
  return fmt::format("{:.1f} of {:.3g}", c.busy, c.cpus);
}

std::string full_cpus_text(const cpu_use& c) {
  return fmt::format("{} used, {:.1f} threads ready without one", cpus_text(c), c.waiting);
}

std::string lacking_cpus_text(const cpu_use& c) {
  return fmt::format("{:.1f} threads were ready without a CPU, while the program used {}", c.waiting, cpus_text(c));
}

double unseen_share(const report& r) {
  if (!r.asleep || r.asleep->samples < enough_samples) return 0;
  return static_cast<double>(r.asleep->in_futexes()) / static_cast<double>(r.asleep->samples);
}

std::string unseen_caller_text(const report& r) {
  if (!r.asleep) return "";
  const std::string module = most_of_futexes(*r.asleep);
  const std::string below = module.empty() ? "" : below_text(*r.asleep, module);
  return below.empty() ? below : fmt::format("; in {}{}", support::file_name(module), below);
}

std::string unseen_text(const report& r) {
  std::string text;
  if (const double share = unseen_share(r); share >= much_unseen) {
    text = fmt::format("; {} of the time that threads slept was in futex calls", share_text(share));
    if (const std::string module = most_of_futexes(*r.asleep); !module.empty())
      text += fmt::format(", the largest part in {}{}", support::file_name(module), below_text(*r.asleep, module));
    text += ", which no recorded object explains";
  }
  if (!r.sees_all_kinds) text += "; read-write locks, spin locks and barriers were not recorded";
  return text;
}

std::string deadlock_text(const deadlock& d) {
  std::string tids;
  for (std::size_t i = 0; i < d.threads.size(); i++)
    tids += (i == 0 ? "" : i + 1 == d.threads.size() ? " and " : ", ") + id_text(d.threads[i].tid);
  if (d.threads.size() == 1)
    return fmt::format("deadlock: thread {} locks it again while it holds it: a recursive mutex, or one lock call less",
                       tids);
  return fmt::format("deadlock: threads {} wait for each other, without a deadline: lock in the same order everywhere",
                     tids);
}

std::string try_command(const report& all) {
  return fmt::format("usher try {}-- {}", all.runs_on ? until_load + std::string(" ") : "",
                     all.command.empty() ? "CMD" : support::shell_line(all.command));
}

std::string details_command(const report& all) {
  if (all.attached) return fmt::format("usher stat --details -p {}", all.pid.seen);
  return fmt::format("usher stat --details -- {}", all.command.empty() ? "CMD" : support::shell_line(all.command));
}

std::string roomier_command(const report& all) {
  if (all.not_seen.objects == 0 || all.not_seen.objects > contract::capacities::most_objects) return "";
  return fmt::format("usher stat --objects {} {}", all.not_seen.objects,
                     all.attached ? fmt::format("-p {}", all.pid.seen)
                                  : "-- " + (all.command.empty() ? "CMD" : support::shell_line(all.command)));
}

std::string not_seen_text(const report& all) {
  std::string text;
  if (const std::uint64_t n = all.not_seen.calls; n != 0)
    text +=
        fmt::format("; {} that found no room in the record {} not seen", with_noun(n, "call"), n == 1 ? "was" : "were");
  if (const unsigned n = all.not_seen.threads; n != 0)
    text += fmt::format("; {} {} not searched for older deadlocks", with_noun(n, "thread"), n == 1 ? "was" : "were");
  return text;
}

std::string stat_command_under(const report& all, const char* lock, const char* other) {
  return fmt::format("usher stat --lock {} -- {}", all.lock == lock ? other : lock,
                     all.command.empty() ? "CMD" : support::shell_line(all.command));
}

}  // namespace usher::reader
