#include "lab/recordings/living_threads.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "support/process/running_process.hpp"
#include "support/process/stat_line.hpp"

namespace usher::recording {
namespace {

/// The most processes that one look() searches for in /proc. Chosen, not measured.
constexpr unsigned most_searches = 256;

/// Returns the address of the process's first stack, which an exec changes; 0: unknown.
std::uint64_t stack_of(pid_t pid) {
  constexpr unsigned start_of_stack = 28;
  return support::stat_line::of_process(pid).number(start_of_stack).value_or(0);
}

}  // namespace

living_threads::living_threads(int file) : finder_(file) {}

/// Returns the entry of the slot's process. If another process has the slot's process number now, the entry is reset.
living_threads::process& living_threads::entry_of(const raw_thread& t) {
  process& p = processes_[t.process];
  if (p.own != t.pid || p.mapped_at != t.mapped_at) {
    p = {};
    p.own = t.pid;
    p.mapped_at = t.mapped_at;
  }
  return p;
}

void living_threads::search(std::uint32_t number, process& p, const std::string& name) {
  const auto is_taken = [&](const support::seen_process& found) {
    for (const auto& [other, q] : processes_)
      if (other != number && !q.has_ended && q.seen.pid == found.pid && q.seen.started == found.started) return true;
    return false;
  };
  const auto answer = finder_.find(p.own, name, is_taken, p.mapped_at);
  const bool may_be_hidden = support::are_processes_hidden() && p.own <= 0x7fffffff;
  const bool is_hidden = answer.is_possible || (may_be_hidden && support::has_process(static_cast<pid_t>(p.own)));
  p.has_ended = !answer.process && !is_hidden;
  if (!answer.process) return;
  p.seen = answer.process->process;
  p.is_inside = answer.process->is_inside;
  p.stack = stack_of(p.seen.pid);
}

void living_threads::look_again(process& p) {
  const auto now = support::read_process(p.seen.pid);
  p.has_ended = !now || now->started != p.seen.started || now->has_ended();
  if (p.has_ended) return;
  p.seen = *now;
  const std::uint64_t stack = stack_of(p.seen.pid);
  if (stack != 0 && p.stack != 0 && stack != p.stack) p.has_ended = true;
}

/// If several entries have the same pid, all but the one with the highest number have executed another program and
/// count as ended. look_again() cannot see that if addresses are not randomised: the stack is then at the same place.
void living_threads::end_replaced() {
  std::map<pid_t, process*> last;
  for (auto& [number, p] : processes_) {
    if (p.has_ended || p.seen.pid == 0) continue;
    process*& before = last[p.seen.pid];
    if (before != nullptr) before->has_ended = true;
    before = &p;
  }
}

void living_threads::look_at_thread(raw_thread& t) {
  process& p = processes_.at(t.process);
  t.seen_pid = p.seen.pid;
  t.is = p.has_ended ? raw_thread::life::over : raw_thread::life::unknown;
  if (p.has_ended || p.seen.pid == 0) return;
  const bool is_first = t.tid == p.own;
  t.seen_tid = is_first ? p.seen.pid : p.is_inside ? p.threads.seen(t.tid) : static_cast<pid_t>(t.tid);
  // A list of threads that was read while threads ended may be incomplete, so the list is read once more.
  if (t.seen_tid == 0 && std::exchange(p.listed_again, looks_) != looks_ && p.threads.read(p.seen.pid, true))
    t.seen_tid = p.threads.seen(t.tid);
  const bool lives = is_first ? !p.seen.has_first_ended()
                              : t.seen_tid > 0 && support::stat_line::of_thread(t.seen_pid, t.seen_tid).state() != '?';
  t.is = lives ? raw_thread::life::lives : raw_thread::life::over;
}

void living_threads::look(std::span<raw_thread> threads) {
  looks_++;
  finder_.begin_sample();
  std::map<std::uint32_t, std::string> names;  // by process: the name of its first thread, if that has a slot
  for (const raw_thread& t : threads)
    if (t.tid == t.pid) names[t.process] = t.name;
  unsigned searches = 0;
  for (const raw_thread& t : threads) {
    process& p = entry_of(t);
    if (std::exchange(p.looked, looks_) == looks_ || p.has_ended) continue;
    if (p.seen.pid != 0)
      look_again(p);
    else if (searches++ < most_searches)
      search(t.process, p, names[t.process]);
  }
  std::erase_if(processes_, [this](const auto& p) { return p.second.looked != looks_; });
  end_replaced();
  for (auto& [number, p] : processes_)
    if (!p.has_ended && p.seen.pid != 0 && p.is_inside) p.threads.read(p.seen.pid, true);
  for (raw_thread& t : threads) look_at_thread(t);
}

bool living_threads::has_no_filter(std::uint32_t process) const {
  const auto at = processes_.find(process);
  if (at == processes_.end() || at->second.has_ended || at->second.seen.pid == 0) return false;
  const pid_t pid = at->second.seen.pid;
  bool any = false, none = true;
  support::each_number(fmt::format("/proc/{}/task", pid).c_str(), [&](pid_t tid) {
    const std::string mode = support::status_field(fmt::format("{}/task/{}", pid, tid), "Seccomp");
    any = true;
    none = none && (mode == "0" || mode.empty());  // empty: the thread has ended, or the kernel has no filters
  });
  return any && none;
}

}  // namespace usher::recording
