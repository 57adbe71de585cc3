#include "lab/predict/replay_plan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace usher::predict {
namespace {

using contract::kind;
using contract::verb;
using recording::event;

/// The objects of a site may form an array (one slot) if they are at least this many. Chosen, not measured.
constexpr std::size_t fewest_of_array = 4;
/// The order of slots is made of at most this many nested pairs, the most frequent ones. An acquisition in another pair
/// only tries the lock. Chosen, not measured.
constexpr std::size_t most_pairs = 4096;
/// If a semaphore has fewer posts than this share of its waits, its posts are missing in the recording, and its waits
/// are replayed as sleeps. Chosen, not measured.
constexpr double fewest_posts = 0.9;
constexpr std::uint32_t no_limit = 1 << 20;
/// Credits are used in pairs if at least this share of the posts follow an acquisition by the same thread. Chosen, not
/// measured.
constexpr double most_in_pairs = 0.9;
/// A semaphore wait of at least this time found the semaphore empty; a shorter one may be the cost of the call. Chosen,
/// not measured.
constexpr std::uint64_t long_wait_ns = 1000;
/// The estimate of the cache lines that a section moves needs at least this many sections after a hand-over, and as
/// many others. Chosen, not measured.
constexpr std::uint64_t fewest_sections = 50;

/// Mean of values, and the variance of that mean.
class sample {
 public:
  void add(double x) {
    n_++;
    const double d = x - mean_;
    mean_ += d / static_cast<double>(n_);
    squares_ += d * (x - mean_);
  }
  std::uint64_t count() const { return n_; }
  double mean() const { return mean_; }
  double variance_of_mean() const {
    return n_ < 2 ? 0 : squares_ / static_cast<double>(n_ - 1) / static_cast<double>(n_);
  }

 private:
  std::uint64_t n_ = 0;
  double mean_ = 0, squares_ = 0;
};

std::int64_t middle(std::vector<std::int64_t>& v) {
  std::nth_element(v.begin(), v.begin() + std::ptrdiff_t(v.size() / 2), v.end());
  return v[v.size() / 2];
}

/// The 90th percentile of the values, which are reordered.
std::int64_t high(std::vector<std::int64_t>& v) {
  const std::size_t at = (v.size() - 1) * 9 / 10;
  std::nth_element(v.begin(), v.begin() + std::ptrdiff_t(at), v.end());
  return v[at];
}

/// Subtracts the cost of recording, between_ns for each call, from the recorded times between calls. A time that is
/// shorter than the cost leaves a debt, at most twice the cost, which is subtracted from the next times: a coarse clock
/// shows some times too short and others too long.
class usual_cost {
 public:
  explicit usual_cost(double ns) : ns_(std::clamp(ns, 0.0, most)) {}
  std::uint64_t taken_out_of(std::uint64_t gap) {
    owed_ = std::min(owed_ + ns_, 2 * ns_);
    const std::uint64_t taken = std::min(gap, static_cast<std::uint64_t>(owed_));
    owed_ -= static_cast<double>(taken);
    return gap - taken;
  }

 private:
  static constexpr double most = 1e6;
  double ns_, owed_ = 0;
};

class maker {
 public:
  maker(const recording::recording& r, const plan_changes& changes)
      : recording_(r), changes_(changes), signals_(find_signals(r)) {
    plan_.objects = r.objects;
    plan_.conditions = signals_.conditions;
    plan_.machine = r.machine;
    plan_.windows = r.windows.size();
  }

  replay_plan made() && {
    find_roles();
    count_uses();
    make_slots();
    find_semaphores();
    find_pairs();
    for (std::uint32_t w = 0; w < recording_.windows.size(); w++)
      for (std::uint32_t s = 0; s < recording_.windows[w].streams.size(); s++) add_stream(w, s);
    find_order();
    find_lines();
    finish_roles();
    return std::move(plan_);
  }

 private:
  struct held_lock {
    std::uint32_t object = none;
    unsigned depth = 0;
    bool replayed = true;
    std::uint64_t section = 0;  ///< recorded work since it was acquired
    bool handed_over = false;
    bool whole = true;  ///< no thread waited on a condition within the section
  };

  struct use {
    std::uint64_t operations = 0;
    std::set<std::uint32_t> threads;
  };

  void find_roles() {
    std::map<std::uint32_t, std::string> named;
    for (const recording::thread_role& t : recording_.roles) named[t.thread] = t.role;
    std::map<std::string, std::uint32_t> index;
    std::map<std::uint32_t, std::set<std::uint32_t>> threads;
    for (const recording::window& w : recording_.windows) {
      plan_.seconds += static_cast<double>(std::min(w.length, longest_ns)) / 1e9;
      plan_.left.lost += w.lost;
      for (const recording::stream& s : w.streams) {
        const auto found = named.find(s.thread);
        const std::string& name = found != named.end() ? found->second : others_;
        const auto [at, is_new] = index.emplace(name, std::uint32_t(plan_.roles.size()));
        if (is_new) plan_.roles.emplace_back().name = name;
        role_of_[s.thread] = at->second;
      }
    }
  }

  template <class F>
  void for_each_event(const F& f) {
    for (const recording::window& w : recording_.windows)
      for (const recording::stream& s : w.streams)
        for (const event& e : s.events)
          if (is_known(recording_, e)) f(s, e);
  }

  void count_uses() {
    uses_.resize(recording_.objects.size());
    std::uint64_t operations = 0;
    for_each_event([&](const recording::stream& s, const event& e) {
      if (!is_operation(e)) return;
      operations++;
      uses_[e.object].operations++;
      uses_[e.object].threads.insert(s.thread);
    });
    if (plan_.seconds > 0) plan_.operations_per_second = static_cast<double>(operations) / plan_.seconds;
  }

  /// The sites whose objects form an array: each section at such a site draws one of the objects.
  std::set<std::uint32_t> arrays() const {
    struct site {
      std::size_t objects = 0, users = 0;
      std::set<std::uint32_t> threads;
      bool possible = true;
    };
    std::set<std::uint32_t> guards;
    for (const condition_facts& c : plan_.conditions)
      if (c.mutex != none) guards.insert(c.mutex);
    std::map<std::uint32_t, site> sites;
    for (std::uint32_t o = 0; o < recording_.objects.size(); o++) {
      if (!is_mutex(o) || uses_[o].operations == 0) continue;
      site& s = sites[recording_.objects[o].site];
      s.objects++;
      s.users += uses_[o].threads.size();
      s.threads.insert(uses_[o].threads.begin(), uses_[o].threads.end());
      s.possible = s.possible && !guards.contains(o) && !changes_.split.contains(o);
    }
    std::set<std::uint32_t> found;
    for (const auto& [number, s] : sites)
      if (s.possible && s.objects >= fewest_of_array && 2 * s.users < s.objects * s.threads.size())
        found.insert(number);
    return found;
  }

  bool is_mutex(std::uint32_t o) const {
    const kind k = recording_.objects[o].kind;
    return k == kind::mutex || k == kind::recursive_mutex;
  }

  void make_slots() {
    const std::set<std::uint32_t> drawn = arrays();
    std::map<std::uint32_t, std::uint32_t> of_site;
    slot_of_.assign(recording_.objects.size(), none);
    for (const auto& [object, parts] : changes_.split)
      if (object >= recording_.objects.size() || !is_mutex(object))
        throw bad_recording("object " + std::to_string(object) +
                            " is not a mutex of the recording, and cannot be split");
    for (std::uint32_t o = 0; o < recording_.objects.size(); o++) {
      const bool is_read_write = recording_.objects[o].kind == kind::rwlock;
      if (!is_read_write && !is_mutex(o)) continue;
      const std::uint32_t site = recording_.objects[o].site;
      const bool shares = is_mutex(o) && drawn.contains(site);
      if (shares && uses_[o].operations == 0) continue;
      const auto [at, is_new] =
          shares ? of_site.emplace(site, std::uint32_t(plan_.slots.size())) : std::pair{of_site.end(), true};
      slot_of_[o] = is_new ? std::uint32_t(plan_.slots.size()) : at->second;
      if (is_new) plan_.slots.emplace_back().is_read_write = is_read_write;
      slot& s = plan_.slots[slot_of_[o]];
      const auto split = changes_.split.find(o);
      s.parts = split != changes_.split.end() ? std::max(1u, split->second) : 1;
      for (unsigned part = 0; part < s.parts; part++) {
        s.objects.push_back(o);
        s.up_to.push_back((s.up_to.empty() ? 0 : s.up_to.back()) + (s.parts == 1 ? uses_[o].operations : 1));
      }
    }
    for (std::uint32_t c = 0; c < plan_.conditions.size(); c++) {
      const condition_facts& f = plan_.conditions[c];
      if (f.mutex == none) continue;
      slot& s = plan_.slots[slot_of_[f.mutex]];
      s.has_condition = true;
      if (s.parts != 1)
        throw bad_recording(name_of(plan_.objects, f.mutex) + " cannot be split: threads wait on a condition with it");
    }
  }

  /// Finds each semaphore's number of credits at the beginning of a window. The number is 0 when a thread begins a long
  /// wait, and posts and waits give the difference to the beginning. If no thread waits long, the result is the least
  /// number with which the count never falls below 0.
  void find_semaphores() {
    struct step {
      std::uint64_t at;
      int change;  // 0: a long wait begins
    };
    std::map<std::uint32_t, std::vector<std::int64_t>> at_waits, needed;
    for (const recording::window& w : recording_.windows) {
      const auto times = times_of(w);
      std::map<std::uint32_t, std::vector<step>> steps;
      for (std::size_t s = 0; s < w.streams.size(); s++)
        for (std::size_t i = 0; i < w.streams[s].events.size(); i++) {
          const event& e = w.streams[s].events[i];
          if (!is_known(recording_, e)) continue;
          if (e.what == verb::semaphore_post) steps[e.object].push_back({times[s][i].called, 1});
          if (e.what != verb::semaphore_wait) continue;
          steps[e.object].push_back({times[s][i].returned, -1});
          if (e.wait >= long_wait_ns) steps[e.object].push_back({times[s][i].called, 0});
        }
      for (auto& [semaphore, all] : steps) {
        std::sort(all.begin(), all.end(),
                  [](const step& a, const step& b) { return a.at != b.at ? a.at < b.at : a.change > b.change; });
        std::int64_t now = 0, least = 0;
        std::vector<std::int64_t> waits;
        for (const step& s : all) {
          if (s.change == 0) waits.push_back(now);
          now += s.change;
          least = std::min(least, now);
          if (s.change > 0) plan_.semaphores[semaphore].posts++;
          if (s.change < 0) plan_.semaphores[semaphore].waits++;
        }
        needed[semaphore].push_back(-least);
        if (!waits.empty()) at_waits[semaphore].push_back(-middle(waits));
      }
    }
    for (auto& [semaphore, numbers] : needed) {
      semaphore_facts& f = plan_.semaphores[semaphore];
      const auto known = at_waits.find(semaphore);
      const std::int64_t first = middle(known != at_waits.end() ? known->second : numbers);
      f.at_first = std::uint32_t(std::clamp<std::int64_t>(first, 0, 1 << 30));
      f.balanced = static_cast<double>(f.posts) >= fewest_posts * static_cast<double>(f.waits);
    }
  }

  struct use_of_credits {
    std::uint64_t posts = 0, paired = 0;
    std::vector<std::int64_t> at_waits;  ///< at each beginning of a long wait: the number of credits that threads hold
  };
  using uses_of_credits = std::map<std::uint32_t, use_of_credits>;  // by semaphore; by condition for its tokens

  /// By semaphore or condition, the changes of the number of credits that threads hold in a window, and that number at
  /// the window's beginning.
  struct credits_of_window {
    struct step {
      std::uint64_t at;
      int change;  // 0: a long wait begins
    };
    std::map<std::uint32_t, std::vector<step>> steps;
    std::map<std::uint32_t, std::int64_t> at_first;
  };

  static bool takes_token(const event& e, const mark& m) { return e.what == verb::wait && m.how == mark::wait::takes; }

  /// Returns the semaphore or condition from which the call takes a credit; none: it takes no credit.
  static std::uint32_t credit_taken_by(const event& e, const mark& m) {
    return takes_token(e, m) || e.what == verb::semaphore_wait ? e.object : m.takes;
  }

  bool posts_credit(const event& e) const {
    return e.what == verb::semaphore_post ||
           (e.what == verb::signal && plan_.conditions[e.object].rule == signal_rule::counted);
  }

  void count_credits_of_stream(std::size_t w, std::size_t s, const std::vector<event_time>& times,
                               credits_of_window& credits, uses_of_credits& all) const {
    const std::vector<event>& events = recording_.windows[w].streams[s].events;
    std::map<std::uint32_t, std::uint64_t> has;
    for (std::size_t i = 0; i < events.size(); i++) {
      const event& e = events[i];
      const mark& m = signals_.of_events[w][s][i];
      if (!is_known(recording_, e)) continue;
      const bool waits_long = e.what == verb::semaphore_wait && e.wait >= long_wait_ns;
      if (takes_token(e, m) || waits_long) credits.steps[e.object].push_back({times[i].called, 0});
      if (const std::uint32_t taken = credit_taken_by(e, m); taken != none) {
        has[taken]++;
        credits.steps[taken].push_back({times[i].returned, 1});
      }
      if (!posts_credit(e)) continue;
      use_of_credits& u = all[e.object];
      u.posts++;
      credits.steps[e.object].push_back({times[i].called, -1});
      if (has[e.object] == 0) {
        credits.at_first[e.object]++;  // the thread has held this credit since before the window
      } else {
        has[e.object]--;
        u.paired++;
      }
    }
  }

  uses_of_credits count_credits() const {
    uses_of_credits all;
    for (std::size_t w = 0; w < recording_.windows.size(); w++) {
      const auto times = times_of(recording_.windows[w]);
      credits_of_window credits;
      for (std::size_t s = 0; s < times.size(); s++) count_credits_of_stream(w, s, times[s], credits, all);
      for (auto& [object, of] : credits.steps) {
        std::stable_sort(of.begin(), of.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
        std::int64_t number = credits.at_first[object];
        for (const auto& s : of) {
          if (s.change == 0) all[object].at_waits.push_back(number);
          number += s.change;
        }
      }
    }
    return all;
  }

  /// Finds the semaphores and conditions whose credits are used in pairs (semaphore_facts), and the number of their
  /// credits. When a thread waits for a credit, other threads hold all credits, so the number of held credits then is
  /// the total. The recorded number may be smaller: a thread that was granted a credit counts only once it runs again.
  /// So the 90th percentile of the recorded numbers is taken. If no thread waits, the total is unknown and does not
  /// limit the replay.
  void find_pairs() {
    for (auto& [object, u] : count_credits()) {
      if (u.posts == 0 || static_cast<double>(u.paired) < most_in_pairs * static_cast<double>(u.posts)) continue;
      const auto credits =
          u.at_waits.empty() ? no_limit : std::uint32_t(std::clamp<std::int64_t>(high(u.at_waits), 1, no_limit));
      if (const auto s = plan_.semaphores.find(object); s != plan_.semaphores.end()) {
        s->second.in_pairs = true;
        s->second.at_first = credits;
      } else {
        plan_.paired_conditions.insert(object);
        plan_.conditions[object].at_first = credits;
      }
    }
  }

  // ---- a stream ----

  void add_stream(std::uint32_t w, std::uint32_t s) {
    const recording::stream& stream = recording_.windows[w].streams[s];
    const std::uint32_t r = role_of_[stream.thread];
    role_ = &plan_.roles[r];
    role_index_ = r;
    begin_ = role_->tape.size();
    held_.assign(most_held, {});
    holds_nothing_ = true;
    work_ = away_ = 0;
    unlocked_.clear();
    has_.clear();
    has_in_all_ = 0;
    too_deep_.clear();
    bool calls = false;
    std::uint64_t works = 0;
    usual_cost own(recording_.machine.between_ns);
    for (std::size_t i = 0; i < stream.events.size(); i++) {
      event e = bounded(stream.events[i]);
      if (e.what != verb::end) e.work = own.taken_out_of(e.work);
      carry(e);
      works += e.work;
      if (!is_known(recording_, e)) {
        plan_.left.impossible++;
        continue;
      }
      if (i == 0 && stream.begins_in_call) continue;  // the call began before the window, and is not replayed
      calls = add_event(e, signals_.of_events[w][s][i]) || calls;
    }
    if (!calls && works == 0) {
      plan_.left.idle_streams++;
      role_->tape.resize(begin_);
      return;
    }
    for (std::size_t i = most_held; i-- != 0;)
      if (held_[i].object != none) {
        plan_.left.held_at_end++;
        held_[i].whole = false;
        release(i);
      }
    for (auto& [object, n] : has_)
      for (; n != 0; n--, has_in_all_--)
        if (plan_.semaphores.contains(object)) {
          add(step_kind::semaphore_post).on = object;
        } else {
          step& s = add(step_kind::notify);
          s.on = object;
          plan_.tokens.push_back({object, 1, false, none});
          s.tokens = std::uint32_t(plan_.tokens.size() - 1);
        }
    if (work_ != 0 || away_ != 0) add(step_kind::pass);
    if (role_->tape.size() == begin_) return;
    threads_of_role_[r].insert(stream.thread);
  }

  void carry(const event& e) {
    const bool halved =
        std::any_of(held_.begin(), held_.end(), [this](const held_lock& h) { return is_halved(h.object); });
    const auto scaled = [&](std::uint64_t ns) { return (halved ? ns / 2 : ns) * changes_.work_percent / 100; };
    work_ += scaled(e.work);
    away_ += halved ? e.away / 2 : e.away;
    for (held_lock& h : held_)
      if (h.object != none) h.section += e.work + e.away;
  }

  bool is_halved(std::uint32_t object) const {
    return object != none && (changes_.halved_objects.contains(object) ||
                              changes_.halved_sites.contains(recording_.objects[object].site));
  }

  /// Adds the steps of an event. Returns whether the event is a call that is replayed or left out on purpose.
  bool add_event(const event& e, const mark& m) {
    switch (e.what) {
      case verb::lock:
        return acquire(step_kind::lock, e.object, m);
      case verb::read_lock:
        return acquire(step_kind::read_lock, e.object, {});
      case verb::write_lock:
        return acquire(step_kind::write_lock, e.object, {});
      case verb::unlock:
      case verb::read_write_unlock:
        return unlock(e.object, m);
      case verb::try_lock_failed:
        plan_.left.failed_tries++;
        return false;
      case verb::wait:
      case verb::wait_timed_out:
        return wait(e, m);
      case verb::signal:
      case verb::broadcast:
        return notify(e, m);
      case verb::semaphore_wait:
        if (!plan_.semaphores[e.object].balanced) {
          plan_.left.unknown_semaphore_waits++;
          return sleep(e.wait, step::no_mutex);
        }
        add(step_kind::semaphore_wait).on = e.object;
        if (plan_.semaphores[e.object].in_pairs) receives(e.object);
        holds_nothing_ = holds_nothing_ && has_none();
        role_->operations++;
        plan_.sleeps = true;
        return true;
      case verb::semaphore_post:
        if (!plan_.semaphores[e.object].balanced || !gives(e.object, plan_.semaphores[e.object].in_pairs)) return true;
        add(step_kind::semaphore_post).on = e.object;
        return true;
      case verb::barrier_wait:
        add(step_kind::barrier_wait).on = e.object;
        plan_.barriers[e.object].insert(role_index_);
        plan_.sleeps = true;
        return true;
      case verb::join:
        plan_.left.joins++;
        return sleep(e.wait, step::no_mutex);
      case verb::start:
      case verb::end:
      case verb::cpu_clock:
        return false;
    }
    return false;
  }

  bool has_none() const { return has_in_all_ == 0; }
  void receives(std::uint32_t object) {
    has_[object]++;
    has_in_all_++;
  }
  /// Whether a post is replayed: credits are not used in pairs, or the thread holds a credit to post.
  bool gives(std::uint32_t object, bool in_pairs) {
    if (!in_pairs) return true;
    if (has_[object] == 0) return false;
    has_[object]--;
    has_in_all_--;
    return true;
  }

  step& add(step_kind what) {
    step s;
    s.what = what;
    s.work = std::exchange(work_, 0);
    s.away = std::exchange(away_, 0);
    s.may_start = role_->tape.size() == begin_ || holds_nothing_;
    role_->tape.push_back(s);
    if (s.away != 0) plan_.sleeps = true;
    holds_nothing_ =
        has_none() && std::none_of(held_.begin(), held_.end(), [](const held_lock& h) { return h.object != none; });
    return role_->tape.back();
  }

  std::size_t find_held(std::uint32_t object) const {
    for (std::size_t i = 0; i < most_held; i++)
      if (held_[i].object == object) return i;
    return most_held;
  }

  bool acquire(step_kind what, std::uint32_t object, const mark& m) {
    if (const std::size_t i = find_held(object); i != most_held) {
      held_[i].depth++;
      plan_.left.recursive++;
      return true;
    }
    const std::size_t place = find_held(none);
    if (place == most_held) {
      plan_.left.too_deep++;
      too_deep_[object]++;
      return true;
    }
    for (const held_lock& h : held_)
      if (h.object != none) pairs_[{slot_of_[h.object], slot_of_[object]}]++;
    step& s = add(what);
    s.on = slot_of_[object];
    s.held = std::uint8_t(place);
    s.takes = m.takes;
    if (m.takes != none) {
      plan_.sleeps = true;
      plan_.waiting_roles[m.takes].insert(role_index_);
      if (plan_.paired_conditions.contains(m.takes)) receives(m.takes);
    }
    held_[place] = {object, 1, true, 0, m.handed_over, true};
    holds_nothing_ = false;
    unlocked_.erase(object);
    role_->operations++;
    plan_.slots[s.on].operations++;
    return true;
  }

  bool unlock(std::uint32_t object, const mark& m) {
    const std::size_t i = find_held(object);
    if (i == most_held) {
      if (const auto skipped = too_deep_.find(object); skipped != too_deep_.end() && skipped->second != 0)
        skipped->second--;
      else
        plan_.left.unlocks_without_lock++;
      return false;
    }
    if (--held_[i].depth != 0) return true;
    release(i);
    role_->tape.back().ends = m.ends;
    return true;
  }

  void release(std::size_t i) {
    const held_lock h = std::exchange(held_[i], {});
    const bool is_read_write = recording_.objects[h.object].kind == kind::rwlock;
    step& s = add(is_read_write ? step_kind::read_write_unlock : step_kind::unlock);
    s.on = slot_of_[h.object];
    s.held = std::uint8_t(i);
    s.handed_over = h.handed_over;
    unlocked_[h.object] = role_->tape.size() - 1;
    plan_.slots[s.on].section_ns += h.section;
    if (h.whole) sections_[s.on][h.handed_over ? 1 : 0].add(static_cast<double>(h.section));
  }

  bool wait(const event& e, const mark& m) {
    const std::size_t i = find_held(e.other);
    const std::uint8_t mutex = i != most_held ? std::uint8_t(i) : step::no_mutex;
    if (i != most_held) held_[i].whole = false;
    if (e.what == verb::wait_timed_out) {
      plan_.left.timed_out_waits++;
      return sleep(e.wait, mutex);
    }
    if (m.how == mark::wait::dropped) return true;
    if (m.how == mark::wait::unknown || mutex == step::no_mutex) {
      plan_.left.unknown_waits++;
      return sleep(e.wait, mutex);
    }
    step& s = add(step_kind::wait);
    s.on = e.object;
    s.held = mutex;
    plan_.sleeps = true;
    plan_.waiting_roles[e.object].insert(role_index_);
    if (plan_.paired_conditions.contains(e.object)) receives(e.object);
    return true;
  }

  bool sleep(std::uint64_t ns, std::uint8_t mutex) {
    if (ns == 0) return true;
    step& s = add(step_kind::sleep);
    s.asleep = ns;
    s.held = mutex;
    plan_.sleeps = true;
    return true;
  }

  bool notify(const event& e, const mark& m) {
    if (m.dropped) return true;
    step& s = add(step_kind::notify);
    s.on = e.object;
    s.to_all = e.what == verb::broadcast;
    s.opens = m.opens;
    if (m.opens) plan_.opening_roles.insert(role_index_);
    // A signal within a section may requeue waiting threads to the mutex of that section.
    for (const held_lock& h : held_)
      if (h.object != none && is_mutex(h.object)) plan_.slots[slot_of_[h.object]].has_condition = true;
    const std::uint32_t mutex = plan_.conditions[e.object].mutex;
    if (m.posts == 0 || mutex == none || !gives(e.object, plan_.paired_conditions.contains(e.object))) return true;
    // If the signal follows the section, its token is nevertheless posted at the unlock, because the program changed
    // its state within the section.
    std::size_t at = role_->tape.size() - 1;
    if (find_held(mutex) == most_held)
      if (const auto before = unlocked_.find(mutex); before != unlocked_.end()) at = before->second;
    step& poster = role_->tape[at];
    plan_.tokens.push_back({e.object, m.posts, e.what == verb::broadcast, poster.tokens});
    poster.tokens = std::uint32_t(plan_.tokens.size() - 1);
    return true;
  }

  // ---- all streams ----

  /// Makes the order of slots from the pairs that were acquired one within the other: the most frequent pairs first,
  /// each unless it contradicts the order so far. Acquisitions in the remaining pairs only try the lock.
  void find_order() {
    std::vector<std::pair<std::uint64_t, std::pair<std::uint32_t, std::uint32_t>>> all;
    for (const auto& [pair, count] : pairs_) all.emplace_back(count, pair);
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    if (all.size() > most_pairs) all.resize(most_pairs);
    std::map<std::uint32_t, std::vector<std::uint32_t>> after;
    std::set<std::pair<std::uint32_t, std::uint32_t>> in_order;
    const auto reaches = [&after](std::uint32_t from, std::uint32_t to) {
      std::set<std::uint32_t> seen{from};
      std::vector<std::uint32_t> todo{from};
      while (!todo.empty()) {
        const std::uint32_t at = todo.back();
        todo.pop_back();
        if (at == to) return true;
        if (const auto next = after.find(at); next != after.end())
          for (const std::uint32_t n : next->second)
            if (seen.insert(n).second) todo.push_back(n);
      }
      return false;
    };
    for (const auto& [count, pair] : all)
      if (!reaches(pair.second, pair.first)) {
        after[pair.first].push_back(pair.second);
        in_order.insert(pair);
      }
    for (role& r : plan_.roles) {
      std::array<std::uint32_t, most_held> held;
      held.fill(none);
      for (step& s : r.tape) {
        if (s.what == step_kind::lock || s.what == step_kind::read_lock || s.what == step_kind::write_lock) {
          for (const std::uint32_t h : held)
            if (h != none && !in_order.contains({h, s.on})) s.tries = true;
          plan_.left.against_order += s.tries ? 1 : 0;
          held[s.held] = s.on;
        } else if (s.what == step_kind::unlock || s.what == step_kind::read_write_unlock) {
          held[s.held] = none;
        }
      }
    }
  }

  /// Estimates how many cache lines a section moves from the previous owner's CPU: the mean work of sections after a
  /// hand-over, minus that of other sections, divided by the recorded machine's time for one transfer.
  void find_lines() {
    const double transfer = plan_.machine.transfer_ns;
    if (!(transfer > 0)) return;
    for (auto& [number, kinds] : sections_) {
      const auto& [own, others] = kinds;
      if (own.count() < fewest_sections || others.count() < fewest_sections) continue;
      slot& s = plan_.slots[number];
      const double difference = others.mean() - own.mean();
      const double error = 2 * std::sqrt(own.variance_of_mean() + others.variance_of_mean());
      s.lines_measured = true;
      s.least_lines = std::max(0.0, (difference - error) / transfer);
      s.most_lines = std::max(0.0, (difference + error) / transfer);
    }
  }

  void finish_roles() {
    for (std::uint32_t r = 0; r < plan_.roles.size(); r++) {
      role& of = plan_.roles[r];
      of.threads = unsigned(threads_of_role_[r].size());
      plan_.threads += of.threads;
      for (std::uint32_t i = 0; i < of.tape.size(); i++) {
        if (of.tape[i].may_start) {
          of.starts.push_back(i);
          of.start_times.push_back(of.time);
        }
        of.time += of.tape[i].work + of.tape[i].away + of.tape[i].asleep;
        of.work += of.tape[i].work;
      }
    }
    if (plan_.threads == 0) throw bad_recording("no thread of the recording has done anything in its windows");
    std::uint64_t operations = 0;
    for (const role& of : plan_.roles) operations += of.operations;
    if (operations == 0) throw bad_recording("no thread of the recording has locked anything in its windows");
  }

  const recording::recording& recording_;
  const plan_changes& changes_;
  signal_facts signals_;
  replay_plan plan_;
  const std::string others_ = "others";
  std::map<std::uint32_t, std::uint32_t> role_of_;
  std::map<std::uint32_t, std::set<std::uint32_t>> threads_of_role_;
  std::vector<use> uses_;
  std::vector<std::uint32_t> slot_of_;  // by object
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t>
      pairs_;                                                // counts of pairs: a held slot, and one acquired then
  std::map<std::uint32_t, std::array<sample, 2>> sections_;  // by slot: the last owner was this thread; another

  // State of the stream that is being added:
  role* role_ = nullptr;
  std::uint32_t role_index_ = 0;
  std::size_t begin_ = 0;
  std::vector<held_lock> held_;
  bool holds_nothing_ = true;
  std::uint64_t work_ = 0, away_ = 0;
  std::map<std::uint32_t, std::size_t> unlocked_;  // by mutex: the step of its last unlock
  std::map<std::uint32_t, std::uint64_t> too_deep_;
  std::map<std::uint32_t, std::uint64_t> has_;  // by object: credits and tokens used in pairs that the thread holds
  std::uint64_t has_in_all_ = 0;
};

}  // namespace

replay_plan make_plan(const recording::recording& r, const plan_changes& changes) {
  return maker(r, changes).made();
}

std::vector<unsigned> threads_of_roles(const replay_plan& p, const plan_changes& changes, unsigned threads) {
  std::vector<unsigned> all(p.roles.size());
  double weight = 0;
  unsigned left = threads;
  std::map<std::uint32_t, unsigned> all_fixed = changes.fixed_roles;
  for (const std::uint32_t r : p.opening_roles)
    if (changes.fixed_roles.empty() && p.roles[r].threads < threads) all_fixed.emplace(r, p.roles[r].threads);
  for (std::uint32_t r = 0; r < p.roles.size(); r++) {
    const auto fixed = all_fixed.find(r);
    if (fixed == all_fixed.end()) {
      weight += p.roles[r].threads;
    } else {
      if (fixed->second > 0 && p.roles[r].tape.empty())
        throw bad_recording("the role " + p.roles[r].name + " has done nothing in the recording");
      if (fixed->second > left)
        throw bad_recording("the fixed roles have more than " + std::to_string(threads) + " threads");
      all[r] = fixed->second;
      left -= fixed->second;
    }
  }
  if (weight == 0) {
    if (left != 0) throw bad_recording("no role is left for " + std::to_string(left) + " of the threads");
    return all;
  }
  // Rounds the shares by the largest remainders. If there are enough threads, each role gets at least one.
  struct share {
    std::uint32_t role;
    double wanted;
  };
  std::vector<share> shares;
  for (std::uint32_t r = 0; r < p.roles.size(); r++)
    if (!all_fixed.contains(r) && p.roles[r].threads != 0)
      shares.push_back({r, left * double(p.roles[r].threads) / weight});
  unsigned given = 0;
  for (const share& s : shares) {
    all[s.role] = std::max(unsigned(s.wanted), left >= shares.size() ? 1u : 0u);
    given += all[s.role];
  }
  // Sorts the shares by how much they lack or exceed their exact value; equal ones stay in the order of the roles.
  const bool more = given < left;
  std::set<std::pair<double, std::size_t>> order;
  const auto put = [&](std::size_t i) {
    const unsigned has = all[shares[i].role];
    if (!more && has <= (left >= shares.size() ? 1u : 0u)) return;
    order.emplace(more ? has - shares[i].wanted : shares[i].wanted - has, i);
  };
  for (std::size_t i = 0; i < shares.size(); i++) put(i);
  for (; given != left; given += more ? 1 : -1u) {
    const std::size_t best = order.extract(order.begin()).value().second;
    all[shares[best].role] += more ? 1 : -1u;
    put(best);
  }
  return all;
}

std::string name_of(const std::vector<recording::object>& objects, std::uint32_t object) {
  if (object >= objects.size()) return "object " + std::to_string(object);
  const recording::object& o = objects[object];
  if (!o.name.empty()) return o.name;
  const char* noun = "object";
  switch (o.kind) {
    case kind::mutex:
    case kind::recursive_mutex:
      noun = "mutex";
      break;
    case kind::condition:
      noun = "condition";
      break;
    case kind::semaphore:
      noun = "semaphore";
      break;
    case kind::rwlock:
      noun = "read-write lock";
      break;
    case kind::barrier:
      noun = "barrier";
      break;
    case kind::thread:
      noun = "thread";
      break;
    default:
      break;
  }
  std::string name = noun;
  name += ' ';
  name += std::to_string(object);
  name += " (site ";
  name += std::to_string(o.site);
  return name += ')';
}

}  // namespace usher::predict
