#include "watch/reader/print/standing_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "support/text/messages.hpp"
#include "watch/reader/judge/stat_quantities.hpp"
#include "watch/reader/name/naming.hpp"
#include "watch/reader/name/remote_symbols.hpp"
#include "watch/reader/print/text.hpp"

namespace usher::reader {
namespace {

constexpr std::size_t most_said = 16;  // number of reports, each of which looks up names; chosen
constexpr std::size_t longest_path = 4096;

/// Names of the static objects at these addresses, looked up in a private record that contains only their modules.
std::vector<std::string> names_at(const std::vector<std::uint64_t>& addresses,
                                  const std::vector<standing_module>& modules, const process_place& place,
                                  const std::shared_ptr<name_budget>& budget) {
  contract::capacities room;
  room.objects = room.details = room.threads = room.processes = room.windows = 1;
  room.chains = room.charges = 1;
  room.modules = standing_deadlocks::most_modules;
  room.text = static_cast<std::uint32_t>(standing_deadlocks::most_modules * longest_path);
  const std::uint64_t size = contract::view::size_for(room);
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(4096, size), &std::free);
  std::vector<std::string> names;
  for (const std::uint64_t a : addresses) names.push_back(hexadecimal(a));
  if (memory == nullptr) return names;
  std::memset(memory.get(), 0, size);
  const contract::view copy(memory.get(), room);
  std::uint32_t text = 0;
  const auto n = static_cast<std::uint32_t>(std::min({modules.size(), addresses.size(), std::size_t{room.modules}}));
  for (std::uint32_t i = 0; i < n; i++) {
    const standing_module& m = modules[i];
    const auto length = static_cast<std::uint32_t>(m.path.size());
    if (m.path.empty() || length > longest_path) continue;
    contract::module_slot& slot = copy.module(i);
    slot.begin = m.begin;
    slot.end = m.end;
    slot.bias = m.bias;
    slot.identity = m.identity;
    slot.path = text;
    slot.path_length = length;
    std::memcpy(copy.text() + text, m.path.data(), length);
    text += length;
    slot.ready.store(1);
  }
  copy.head().modules.store(n);
  copy.head().processes.store(1);
  const std::unique_ptr<symbols> found = names_of(copy, {}, place, budget);
  for (std::uint32_t i = 0; i < n; i++)
    if (copy.module(i).ready.load() != 0)
      if (const auto object = found->object_at(0, contract::word_of(addresses[i], i + 1)))
        names[i] = namer::static_name(*object);
  return names;
}

}  // namespace

standing_report::standing_report(pid_t pid, const process_place& place)
    : observed_(pid), place_(place), budget_(std::make_shared<name_budget>()) {
  budget_->seconds_a_file = budget_->seconds = 10;  // as for the record's deadlocks: stat.cpp
}

deadlock standing_report::describe(const standing_deadlocks::circle& c, const interruption& interrupted) {
  std::vector<std::uint64_t> addresses;
  for (const sleeping_thread& t : c) addresses.push_back(t.address);
  const auto names = names_at(addresses, observed_.modules_at(addresses, interrupted), place_, budget_);
  deadlock d;
  d.seconds = observed_.seconds(c);
  d.is_older = true;
  for (std::size_t i = 0; i < c.size(); i++) {
    deadlock::thread t;
    t.tid = {c[i].tid, c[i].own == static_cast<std::uint32_t>(c[i].tid) ? 0 : std::int64_t{c[i].own}};
    t.waits_for = names[i];
    t.address = c[i].address;
    d.threads.push_back(std::move(t));
  }
  return d;
}

/// Compares the circles of a new reading with the reported ones. A reading of a process that is about to end may miss
/// circles, so a circle has ended only if two readings miss it. A circle whose threads have run since the last reading
/// is not missed: a signal or a stop of the process wakes the threads, and they then repeat their calls. But a circle
/// counts as found only when its threads have slept from one reading to the next, since a reading looks at threads one
/// by one and may show a circle that never existed.
void standing_report::compare(const interruption& interrupted, const known_elsewhere& is_known) {
  if (interrupted()) return;  // the process has ended while deadlocked
  const auto& present = observed_.present();
  for (std::size_t i = 0; i < reported_.size();) {
    reported& r = reported_[i];
    const auto now =
        std::find_if(present.begin(), present.end(), [&](const auto& c) { return is_same_wait(c, r.circle); });
    r.is_there = now != present.end() && *now == r.circle;
    if (now != present.end()) r.missed = 0;
    if (r.is_there) {
      r.said.seconds = std::max(r.said.seconds, observed_.seconds(r.circle));
    } else if (now != present.end()) {
      r.circle = *now;
    } else if (++r.missed == 2) {
      const ended_circle ended = as_ended(r.said);
      support::report_error("{}", ended.line);
      remarks_.push_back(ended.remark);
      reported_.erase(reported_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    i++;
  }
  for (const standing_deadlocks::circle& c : observed_.circles()) {
    const bool is_old =
        std::any_of(reported_.begin(), reported_.end(), [&](const reported& r) { return is_same_wait(r.circle, c); }) ||
        std::any_of(c.begin(), c.end(), [&](const sleeping_thread& t) { return is_known(t.own); });
    if (is_old || said_ == most_said) continue;
    said_++;
    reported_.push_back({c, describe(c, interrupted)});
    support::report_error("{}", as_line(reported_.back().said));
  }
}

void standing_report::sample(const interruption& interrupted, const known_elsewhere& is_known) {
  if (observed_.sample(interrupted)) compare(interrupted, is_known);
}

void standing_report::finish(const interruption& interrupted, const known_elsewhere& is_known) {
  if (!observed_.finish(interrupted)) return;
  compare(interrupted, is_known);
  if (std::all_of(reported_.begin(), reported_.end(), [](const reported& r) { return r.is_there; })) return;
  std::this_thread::sleep_for(
      std::chrono::milliseconds(50));  // chosen: a process that is being killed has ended by then
  if (observed_.finish(interrupted)) compare(interrupted, is_known);
}

std::vector<deadlock> standing_report::deadlocks() const {
  std::vector<deadlock> all;
  for (const reported& r : reported_) all.push_back(r.said);
  return all;
}

}  // namespace usher::reader
