#include "lab/recordings/window_trace.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace usher::recording {

using contract::kind;
using contract::verb;

void window_trace::add(const raw_window& w, const time_of& ns) {
  std::size_t waits = 0;
  for (const raw_thread& t : w.threads)
    waits += static_cast<std::size_t>(std::count_if(t.calls.begin(), t.calls.end(), [](auto& c) { return c.slow; })) +
             (t.sleeping ? 1 : 0);
  if (all_.waits.size() + waits > most_traced_waits || left_out_ != 0) {
    left_out_++;
    return;
  }
  holds of_locks;
  for (const raw_thread& t : w.threads) add_holds(of_locks, w, t, thread_of(t));
  for (auto& [lock, list] : of_locks)
    std::sort(list.begin(), list.end(), [](const hold& a, const hold& b) { return a.from < b.from; });
  for (const raw_thread& t : w.threads) {
    const std::uint32_t index = thread_of(t);
    for (const raw_call& c : t.calls)
      if (c.slow) add_wait(t, index, c, true, of_locks, ns);
    if (t.sleeping) add_wait(t, index, *t.sleeping, false, of_locks, ns);
  }
  all_.recorded.push_back({ns(w.opened), ns(w.closed)});
}

/// Adds the times in which the thread held locks alone. A hold that began before the window has its beginning there.
void window_trace::add_holds(holds& to, const raw_window& w, const raw_thread& t, std::uint32_t index) {
  struct open_hold {
    std::uint64_t from;
    unsigned depth;
  };
  std::map<std::uint64_t, open_hold> open;  // by the lock's address
  const auto take = [&](std::uint64_t lock, std::uint64_t at, bool again) {
    const auto [known, is_new] = open.try_emplace(lock, open_hold{at, 1});
    if (is_new) return;
    if (again)
      known->second.depth++;
    else
      known->second = {at, 1};
  };
  const auto give = [&](std::uint64_t lock, const raw_call& c, bool is_alone) {
    const auto known = open.find(lock);
    if (known == open.end() && !is_alone) return;  // a reader's
    if (known != open.end() && --known->second.depth != 0) return;
    const std::uint64_t from = known != open.end() ? known->second.from : w.opened;
    to[{t.process, lock}].push_back({from, c.begin, c.what == verb::wait ? c.begin : c.end, index, true});
    if (known != open.end()) open.erase(known);
  };
  for (const raw_call& c : t.calls) {
    if (c.what == verb::lock || c.what == verb::write_lock) take(c.object, c.end, c.recursive);
    if (c.what == verb::unlock || c.what == verb::read_write_unlock) give(c.object, c, c.what == verb::unlock);
    if (c.what == verb::wait || c.what == verb::wait_timed_out) {
      give(c.other, c, true);
      take(c.other, c.end, false);
    }
  }
  for (const auto& [lock, hold_now] : open)
    to[{t.process, lock}].push_back({hold_now.from, w.closed, w.closed, index, false});
}

void window_trace::add_wait(const raw_thread& t, std::uint32_t index, const raw_call& c, bool has_ended,
                            const holds& all, const time_of& ns) {
  const kind what = contract::object_of(c.what);
  if (what == kind::none) return;
  access::timeline::wait one;
  one.thread = index;
  one.object = object_of(t.process, what, c);
  one.begin = ns(c.begin);
  one.end = has_ended ? ns(c.end) : 0;
  one.gave_up = c.what == verb::wait_timed_out || c.what == verb::try_lock_failed;
  if (what != kind::condition && names_) one.where = names_(t.process, c.other);
  const auto found = all.find({t.process, c.object});
  if ((what == kind::mutex || what == kind::rwlock) && found != all.end()) {
    const std::vector<hold>& list = found->second;
    const auto later = [](std::uint64_t at, const hold& h) { return at < h.from; };
    const auto after_begin = std::upper_bound(list.begin(), list.end(), c.begin, later);
    if (after_begin != list.begin()) {
      const hold& h = *std::prev(after_begin);
      if (h.unlock_ended >= c.begin && h.thread != index) one.owner = all_.threads[h.thread].tid;
    }
    const auto mine =
        std::lower_bound(list.begin(), list.end(), c.end, [](const hold& h, std::uint64_t at) { return h.from < at; });
    if (has_ended && !one.gave_up && c.what != verb::read_lock && mine != list.begin()) {
      const hold& h = *std::prev(mine);
      if (h.is_over && h.thread != index && h.unlock_began >= c.begin && h.unlock_began <= c.end) {
        one.releaser = h.thread;
        one.released = ns(h.unlock_began);
      }
    }
  }
  all_.waits.push_back(std::move(one));
}

std::uint32_t window_trace::thread_of(const raw_thread& t) {
  const auto [of, is_first] = processes_.try_emplace(t.process, static_cast<std::uint32_t>(all_.processes.size()));
  if (is_first) all_.processes.push_back({t.seen_pid != 0 ? t.seen_pid : std::int64_t{t.pid}, ""});
  if (t.tid == t.pid) all_.processes[of->second].name = t.name;
  const auto [at, is_new] = threads_.try_emplace(t.thread, static_cast<std::uint32_t>(all_.threads.size()));
  if (is_new) all_.threads.push_back({of->second, t.seen_tid != 0 ? t.seen_tid : std::int64_t{t.tid}, t.name});
  return at->second;
}

std::uint32_t window_trace::object_of(std::uint32_t process, kind what, const raw_call& c) {
  const auto [at, is_new] =
      objects_.try_emplace({{process, c.object}, what}, static_cast<std::uint32_t>(all_.objects.size()));
  if (!is_new) return at->second;
  constexpr const char* others[] = {"mutex", "thread"};
  const bool is_known = what <= kind::join;
  std::string name = fmt::format("{} {}", is_known ? contract::kind_names[int(what)] : others[what == kind::thread],
                                 all_.objects.size() + 1);
  const std::string site = names_ && what != kind::condition ? names_(process, c.other) : "";
  if (!site.empty()) name += fmt::format(" ({})", site);
  all_.objects.push_back({processes_.at(process), what, std::move(name)});
  return at->second;
}

}  // namespace usher::recording
