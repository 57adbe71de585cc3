#include "lab/recordings/assemble.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace usher::recording {
namespace {

using contract::kind;
using contract::verb;

constexpr std::uint64_t tick_ns =
    4'000'000;  // the kernel's tick is at most this long in practice: a running thread's CPU time may lag by one

/// The search for a mutex that a thread held before the window ends after this many different locked mutexes. Chosen.
constexpr std::size_t most_locked = 64;

bool is_wait(const raw_call& c) {
  return c.what == verb::wait || c.what == verb::wait_timed_out;
}
bool is_wait(const event& e) {
  return e.what == verb::wait || e.what == verb::wait_timed_out;
}

/// Returns the mutex that the call releases, by an unlock or a wait; 0: it releases none.
std::uint64_t released_by(const raw_call& c) {
  return c.what == verb::unlock ? c.object : is_wait(c) ? c.other : 0;
}

const raw_call* first_call(const raw_thread& t) {
  const auto found =
      std::find_if(t.calls.begin(), t.calls.end(), [](const raw_call& c) { return c.what != verb::cpu_clock; });
  return found != t.calls.end() ? &*found : nullptr;
}

/// By process and mutex: the times in a window at which the mutex was released, and the releasing threads.
using releases =
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<std::pair<std::uint64_t, std::uint32_t>>>;

releases releases_of(const raw_window& w, const std::set<std::pair<std::uint32_t, std::uint64_t>>& wanted) {
  releases all;
  for (const raw_thread& t : w.threads)
    for (const raw_call& c : t.calls)
      if (const std::uint64_t m = released_by(c); m != 0 && wanted.contains({t.process, m}))
        all[{t.process, m}].emplace_back(c.what == verb::unlock ? c.end : c.begin, t.thread);
  for (auto& [mutex, times] : all) std::sort(times.begin(), times.end());
  return all;
}

/// Returns the thread's first call that releases a mutex without having locked it in the window: the thread had locked
/// the mutex before, or waited for it when the window opened.
const raw_call* first_release(const raw_thread& t) {
  std::set<std::uint64_t> locked;
  for (const raw_call& c : t.calls) {
    if (c.what == verb::lock) locked.insert(c.object);
    if (const std::uint64_t m = released_by(c); m != 0 && !locked.contains(m)) return &c;
    if (locked.size() > most_locked) break;
  }
  return nullptr;
}

/// Returns the lock call that the thread was waiting in when the window opened; nullopt: there was none. `release` is
/// the thread's first_release(). If another thread released the same mutex earlier in the window, this thread acquired
/// the mutex after that, so its lock call lasted from the window's opening until then. The call itself may be missing
/// in the recording: while no window is open, threads record only lock calls that wait, and a thread that calls lock at
/// the edge of the window may see no open window, and record nothing because it did not wait.
std::optional<raw_call> lock_before(const raw_window& w, const raw_thread& t, const raw_call* release,
                                    const releases& all) {
  if (release == nullptr) return std::nullopt;
  const raw_call* const first = first_call(t);
  const std::uint64_t m = released_by(*release);
  const auto found = all.find({t.process, m});
  if (found == all.end()) return std::nullopt;
  const auto& times = found->second;
  for (auto at = std::lower_bound(times.begin(), times.end(), std::pair{first->begin, std::uint32_t{0}});
       at != times.begin();) {
    --at;
    if (at->second == t.thread || at->first < w.opened) continue;
    raw_call lock;
    lock.what = verb::lock;
    lock.slow = true;
    lock.recursive = release->recursive;
    lock.object = m;
    lock.begin = w.opened;
    lock.end = at->first;
    return lock;
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t assembler::ns(std::uint64_t ticks) const {
  const double v = static_cast<double>(ticks) * how_.ns_a_tick;
  return v < 1e18 ? static_cast<std::uint64_t>(v + 0.5) : 0;
}

std::uint32_t assembler::object_of(kind kind, std::uint32_t process, std::uint64_t address, std::uint64_t caller) {
  const auto [at, is_new] = index_.try_emplace({kind, process, address}, static_cast<std::uint32_t>(objects_.size()));
  if (is_new) objects_.push_back({kind, process, address});
  found_object& o = objects_[at->second];
  if (o.caller == 0) o.caller = caller;
  return at->second;
}

event assembler::event_of(const raw_thread& t, const raw_call& c) {
  event e;
  e.what = c.what;
  e.object = object_of(contract::object_of(c.what), t.process, c.object, is_wait(c) ? 0 : c.other);
  if (is_wait(c)) e.other = object_of(kind::mutex, t.process, c.other, 0);
  if (c.recursive && objects_[e.object].kind == kind::mutex) objects_[e.object].kind = kind::recursive_mutex;
  return e;
}

/// Returns the most CPU time, in ticks, that the kernel's figure for the thread may lack at the window's end. Only one
/// thread of a CPU runs at a time, so this thread has run at most since the last call of another thread on its CPU.
std::uint64_t unseen_ticks(const raw_window& w, const raw_thread& t) {
  if (!t.after->runs) return 0;
  std::uint64_t since = w.opened;
  for (const raw_thread& other : w.threads)
    if (&other != &t && other.after && other.after->processor == t.after->processor && !other.calls.empty())
      since = std::max(since, other.calls.back().end);
  return w.closed > since ? w.closed - since : 0;
}

/// Makes the stream of one thread in one window. Splits the time between calls into work, time off the CPU, and time
/// `aside` (recording.hpp).
class assembler::stream_maker {
 public:
  /// `held_up`: the lock call in which the thread waited when the window opened, as lock_before() has found it.
  stream_maker(assembler& to, const raw_window& w, const raw_thread& t, const std::optional<raw_call>& held_up)
      : to_(to), window_(w), thread_(t) {
    const std::uint64_t first = t.calls.empty() ? w.closed : t.calls.front().begin;
    const bool from_the_edge = t.before || held_up || first < w.opened || (t.calls.empty() && t.sleeping);
    at_ = from_the_edge ? w.opened : first;
    made_.thread = t.thread;
    made_.begins = to_.ns(at_ - w.opened);
    if (t.before) {
      const bool is_earlier = t.before->at != 0 && t.before->at < w.opened;
      last_ = {t.before->cpu_ns, at_, std::nullopt, false, is_earlier ? w.opened - t.before->at : 0};
    }
    if (held_up) {
      made_.begins_in_call = true;
      emit(*held_up);
    }
  }

  stream made() && {
    for (const raw_call& c : thread_.calls) add_call(c);
    if (thread_.sleeping)
      add_unfinished(*thread_.sleeping);
    else if (window_.closed > at_ && thread_.after)
      add_last_gap(*thread_.after);
    event end;
    end.what = verb::end;
    move_times_to(end);
    made_.events.push_back(end);
    return std::move(made_);
  }

 private:
  /// A reading of the thread's CPU clock. Between the reading and `at_` the thread was on a CPU, except in calls that
  /// are followed by a new reading.
  struct clock_reading {
    std::uint64_t cpu_ns = 0;
    std::uint64_t at = 0;                   // time of the reading in ticks, at least the window's beginning
    std::optional<std::uint64_t> switches;  // how often the thread had given up its CPU; nullopt: unknown
    bool is_exact = false;                  // read by the thread itself, not taken from the kernel's statistics
    std::uint64_t before_window = 0;        // ticks from the reading to the window's beginning
  };

  /// Returns the difference of two times, each rounded to nanoseconds since the window's beginning, so that sums of
  /// durations are exact.
  std::uint64_t passed(std::uint64_t from, std::uint64_t until) const {
    return to_.ns(until - window_.opened) - to_.ns(from - window_.opened);
  }

  void add_call(raw_call c) {
    if (c.begin < window_.opened) {
      made_.begins_in_call = true;
      c.begin = window_.opened;
    }
    c.begin = std::max(c.begin, at_);
    c.end = std::max(c.end, c.begin);
    if (c.what == verb::cpu_clock) {
      add_reading(c);
    } else {
      work_ += passed(at_, c.begin);
      emit(c);
    }
  }

  void add_reading(const raw_call& c) {
    if (last_) {
      const auto& before = thread_.before;
      const bool gave_up = last_->switches ? c.object == 0 || c.object != *last_->switches : !before || !before->runs;
      split(c.begin, c.other, last_->before_window, 0, gave_up);
    } else {
      work_ += passed(at_, c.begin);
    }
    aside_ += passed(c.begin, c.end);
    at_ = c.end;
    last_ = {c.other, at_, c.object != 0 ? std::optional(c.object) : std::nullopt, true, 0};
  }

  /// Adds the call that has not returned at the window's end.
  void add_unfinished(raw_call c) {
    c.slow = true;
    c.begin = std::max({c.begin, at_, window_.opened});
    c.end = std::max(window_.closed, c.begin);
    work_ += passed(at_, c.begin);
    emit(c);
    made_.unfinished.push_back(made_.events.back());
    made_.events.pop_back();
  }

  /// Adds the time from the last call to the window's end.
  void add_last_gap(const thread_state& after) {
    const std::uint64_t gap = passed(at_, window_.closed);
    if (gap <= contract::long_gap_us * 1000 || !last_) {
      work_ += gap;
      return;
    }
    const std::uint64_t after_window = after.at > window_.closed ? after.at - window_.closed : 0;
    const std::uint64_t spare = last_->is_exact ? std::min(to_.ns(unseen_ticks(window_, thread_)), tick_ns) : 0;
    split(window_.closed, after.cpu_ns, last_->before_window + after_window, spare, !after.runs);
  }

  /// Splits the time from `at_` to `until` by a further reading of the CPU clock, `cpu_now`, which may lack `spare`
  /// nanoseconds. `outside`: ticks between the two readings that lie outside the window; CPU time counted there is
  /// subtracted in proportion. `gave_up`: the time off the CPU was the thread's own choice and not a preemption.
  void split(std::uint64_t until, std::uint64_t cpu_now, std::uint64_t outside, std::uint64_t spare, bool gave_up) {
    const std::uint64_t gap = passed(at_, until), before = passed(last_->at, at_);
    const std::uint64_t whole = gap + to_.ns(outside), counted = cpu_now > last_->cpu_ns ? cpu_now - last_->cpu_ns : 0;
    const std::uint64_t used =
        std::min(whole, counted - std::min(counted, before));  // limited, because the program may have written any time
    const double share = whole == 0 ? 1 : static_cast<double>(gap) / static_cast<double>(whole);
    const std::uint64_t on = std::min(gap, static_cast<std::uint64_t>(static_cast<double>(used) * share + 0.5) + spare);
    work_ += on;
    (gave_up ? away_ : aside_) += gap - on;
  }

  void emit(const raw_call& c) {
    event e = to_.event_of(thread_, c);
    move_times_to(e);
    e.wait = passed(c.begin, c.end);
    made_.events.push_back(e);
    at_ = c.end;
  }

  void move_times_to(event& e) {
    e.work = std::exchange(work_, 0);
    e.away = std::exchange(away_, 0);
    e.aside = std::exchange(aside_, 0);
  }

  assembler& to_;
  const raw_window& window_;
  const raw_thread& thread_;
  stream made_;
  std::uint64_t at_ = 0;                           // ticks; the time before is in events or in the three sums
  std::uint64_t work_ = 0, away_ = 0, aside_ = 0;  // of the next event
  std::optional<clock_reading> last_;
};

void assembler::add(const raw_window& raw) {
  if (!first_opened_) first_opened_ = raw.opened;
  window w;
  w.begins = raw.opened > *first_opened_ ? ns(raw.opened - *first_opened_) : 0;
  w.length = ns(raw.closed - raw.opened);
  w.lost = raw.lost;
  std::set<std::pair<std::uint32_t, std::uint64_t>> mutexes;
  std::vector<const raw_call*> first_releases;
  for (const raw_thread& t : raw.threads) {
    const raw_call* const release = first_releases.emplace_back(first_release(t));
    if (release != nullptr) mutexes.emplace(t.process, released_by(*release));
  }
  const releases all = releases_of(raw, mutexes);
  for (std::size_t i = 0; i < raw.threads.size(); i++) {
    const raw_thread& t = raw.threads[i];
    thread_names_[t.thread] = t.name;
    thread_of_self_[std::uint64_t{t.process} << 48 | t.self] = t.thread;
    if (t.calls.empty() && !t.sleeping && !(t.before && t.after)) continue;
    w.streams.push_back(stream_maker(*this, raw, t, lock_before(raw, t, first_releases[i], all)).made());
  }
  windows_.push_back(std::move(w));
}

std::size_t assembler::events() const {
  std::size_t n = 0;
  for (const window& w : windows_)
    for (const stream& s : w.streams) n += s.events.size() + s.unfinished.size();
  return n;
}

void assembler::thin_out() {
  std::vector<window> kept;
  for (std::size_t i = 0; i < windows_.size(); i += 2) kept.push_back(std::move(windows_[i]));
  windows_ = std::move(kept);
}

/// Returns which objects are kept: those that at least two threads have used. A wait needs both its condition and its
/// mutex, so if one of the two is kept, the other is kept, too.
std::vector<bool> assembler::kept_objects() const {
  constexpr std::uint32_t nobody = no_thread, several = no_thread - 1;
  std::vector<std::uint32_t> user(objects_.size(), nobody);
  std::vector<bool> kept(objects_.size());
  const auto for_each = [this](auto f) {
    for (const window& w : windows_)
      for (const stream& s : w.streams)
        for (const auto* events : {&s.events, &s.unfinished})
          for (const event& e : *events)
            if (e.what != verb::end) f(s.thread, e);
  };
  const auto use = [&user](std::uint32_t object, std::uint32_t thread) {
    std::uint32_t& u = user[object];
    u = u == nobody || u == thread ? thread : several;
  };
  for_each([&](std::uint32_t thread, const event& e) {
    use(e.object, thread);
    if (is_wait(e)) use(e.other, thread);
  });
  for (std::size_t i = 0; i < objects_.size(); i++)
    kept[i] = user[i] == several || (user[i] != nobody && objects_[i].kind == kind::thread);
  // Objects that waits connect, directly or by others, are kept together.
  std::vector<std::uint32_t> group(objects_.size());
  for (std::uint32_t i = 0; i < group.size(); i++) group[i] = i;
  const auto of = [&group](std::uint32_t i) {
    for (; group[i] != i; i = group[i]) group[i] = group[group[i]];
    return i;
  };
  for_each([&](std::uint32_t, const event& e) {
    if (!is_wait(e)) return;
    const std::uint32_t a = of(e.object), b = of(e.other);
    group[a] = b;
    if (kept[a]) kept[b] = true;
    if (kept[e.object] || kept[e.other]) kept[b] = true;
  });
  for (std::uint32_t i = 0; i < group.size(); i++)
    if (user[i] != nobody && kept[of(i)]) kept[i] = true;
  return kept;
}

/// Numbers the sites, the instructions that first used an object, in the order of the objects.
void assembler::name_sites(recording& r, const std::vector<std::uint32_t>& old_index) const {
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> sites;
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < r.objects.size(); i++) {
    const found_object& o = objects_[old_index[i]];
    if (o.caller == 0) {
      r.objects[i].site = next++;
      continue;
    }
    const auto [at, is_new] = sites.try_emplace({o.process, o.caller}, next);
    if (is_new) next++;
    r.objects[i].site = at->second;
    if (how_.site_name) r.objects[i].name = how_.site_name(o.process, o.caller);
  }
}

/// Threads are alike if the shares of their calls, by verb and site, overlap by so much. Chosen.
constexpr double alike = 0.7;

void assembler::find_roles(recording& r) const {
  std::map<std::uint32_t, std::map<std::pair<verb, std::uint32_t>, double>> shares;
  std::map<std::uint32_t, double> calls;
  for (const window& w : r.windows)
    for (const stream& s : w.streams) {
      shares[s.thread];
      for (const auto* events : {&s.events, &s.unfinished})
        for (const event& e : *events) {
          if (e.what == verb::end) continue;
          shares[s.thread][{e.what, r.objects[e.object].site}]++;
          calls[s.thread]++;
        }
    }
  struct group {
    std::uint32_t first;
    std::string name;
  };
  std::vector<group> groups;
  std::map<std::string, unsigned> times;
  for (auto& [thread, share] : shares) {
    for (auto& [what, n] : share) n /= calls[thread];
    const auto known = thread_names_.find(thread);
    const std::string name = known != thread_names_.end() ? known->second : "";
    if (how_.role)
      if (const std::optional<std::string> given = how_.role(name)) {
        r.roles.push_back({thread, *given});
        continue;
      }
    const auto overlap = [&](const group& g) {
      const auto& theirs = shares.at(g.first);
      if (share.empty() || theirs.empty()) return share.empty() == theirs.empty() ? 1.0 : 0.0;
      double sum = 0;
      for (const auto& [what, part] : share)
        if (const auto at = theirs.find(what); at != theirs.end()) sum += std::min(part, at->second);
      return sum;
    };
    auto g = std::find_if(groups.begin(), groups.end(), [&](const group& x) {
      if (how_.site_name && thread_names_.at(x.first) != name) return false;
      return overlap(x) >= alike;
    });
    if (g == groups.end()) {
      std::string role = std::to_string(groups.size());
      if (how_.site_name) {
        const unsigned n = ++times[name];
        role = n == 1 ? name : fmt::format("{}-{}", name, n);
      }
      groups.push_back({thread, role});
      g = std::prev(groups.end());
    }
    r.roles.push_back({thread, g->name});
  }
}

recording assembler::finish() {
  recording r;
  const std::vector<bool> kept = kept_objects();
  std::vector<std::uint32_t> new_index(objects_.size()), old_index;
  for (std::uint32_t i = 0; i < objects_.size(); i++) {
    if (!kept[i]) continue;
    new_index[i] = static_cast<std::uint32_t>(old_index.size());
    old_index.push_back(i);
    object o;
    o.kind = objects_[i].kind;
    if (o.kind == kind::thread)
      if (const auto at = thread_of_self_.find(std::uint64_t{objects_[i].process} << 48 | objects_[i].address);
          at != thread_of_self_.end())
        o.thread = at->second;
    r.objects.push_back(std::move(o));
  }
  for (window& w : windows_)
    for (stream& s : w.streams) {
      std::vector<event> events;
      std::uint64_t work = 0, away = 0, aside = 0;  // times of dropped calls, for the next kept one
      const auto own = static_cast<std::uint64_t>(how_.between_calls_ns + 0.5);
      const auto within = static_cast<std::uint64_t>(how_.within_call_ns + 0.5);
      const auto keep = [&](const event& e, std::vector<event>& to) {
        if (e.what != verb::end && !kept[e.object]) {
          // A call that did not wait is work.
          const bool waited = e.wait >= contract::long_call_us * 1000;
          const std::uint64_t recorded = std::min(own, e.work) + (waited ? 0 : std::min(within, e.wait));
          work += e.work + (waited ? 0 : e.wait) - recorded;
          away += e.away + (waited ? e.wait : 0);
          aside += e.aside + recorded;
          return;
        }
        event& k = to.emplace_back(e);
        k.work += std::exchange(work, 0);
        k.away += std::exchange(away, 0);
        k.aside += std::exchange(aside, 0);
        if (k.what == verb::end) return;
        k.object = new_index[e.object];
        if (is_wait(e)) k.other = new_index[e.other];
      };
      // The first call may be one that is dropped: then the stream begins with work.
      if (s.begins_in_call && !s.events.empty() && s.events.front().what != verb::end && !kept[s.events.front().object])
        s.begins_in_call = false;
      const event last = s.events.back();
      s.events.pop_back();
      for (const event& e : s.events) keep(e, events);
      std::vector<event> unfinished;
      for (const event& e : s.unfinished) keep(e, unfinished);
      keep(last, events);
      s.events = std::move(events);
      s.unfinished = std::move(unfinished);
    }
  r.windows = std::move(windows_);
  name_sites(r, old_index);
  find_roles(r);
  return r;
}

}  // namespace usher::recording
