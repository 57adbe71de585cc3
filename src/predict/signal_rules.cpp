#include "predict/signal_rules.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace usher::predict {
namespace {

using recording::action;
using recording::event;

/// A signal belongs to the section before it if it comes within this time after the unlock. Chosen, not measured.
constexpr std::uint64_t soon_ns = 2000;
/// The rule *counted* needs so many waits, and so great a share of them at the same number. Chosen, not measured.
constexpr std::uint64_t fewest_waits = 5;
constexpr double most_agree = 0.9;
/// Two numbers are the same within this share of a window's signals, and within least_tolerance: the order of calls that come at
/// nearly the same time is not known. Chosen, not measured.
constexpr std::int64_t least_tolerance = 2, tolerance_share = 200;

/// Waits of which the numbers are compared. Chosen, not measured.
constexpr std::size_t at_once = 20;

std::int64_t middle(std::vector<std::int64_t>& v) {
  std::nth_element(v.begin(), v.begin() + std::ptrdiff_t(v.size() / 2), v.end());
  return v[v.size() / 2];
}

struct place {
  std::uint32_t window, stream, event;
};

/// A critical section of a condition's mutex.
struct section {
  place lock{};             ///< the event that acquired the mutex
  bool is_partial = false;  ///< acquired before the window: `lock` is the stream's first event
  std::uint32_t mutex = none;
  std::vector<place> waits;         ///< on conditions, without those that timed out
  std::set<std::uint32_t> signals;  ///< the conditions that are signalled within it or soon after it
  std::optional<place> unlock{};    ///< the event that gave it up; nothing: it has lasted until the window's end
};

bool is_signal(const event& e) {
  return e.what == action::signal || e.what == action::broadcast;
}

class finder {
 public:
  explicit finder(const recording::recording& r) : recording_(r) {
    facts_.conditions.resize(r.objects.size());
    for (const recording::window& w : r.windows) {
      std::vector<std::vector<mark>> of_window;
      for (const recording::stream& s : w.streams) of_window.emplace_back(s.events.size());
      facts_.of_events.push_back(std::move(of_window));
      times_.push_back(times_of(w));
    }
  }

  signal_facts found() && {
    count();
    find_hand_overs();
    for (std::uint32_t w = 0; w < recording_.windows.size(); w++)
      for (std::uint32_t s = 0; s < recording_.windows[w].streams.size(); s++) find_sections(w, s);
    for (std::uint32_t c = 0; c < recording_.objects.size(); c++)
      if (facts_.conditions[c].rule == signal_rule::none) find_rounds(c);
    for (std::uint32_t c = 0; c < recording_.objects.size(); c++) {
      condition_facts& f = facts_.conditions[c];
      if (f.waits == 0 || f.rule != signal_rule::none) continue;
      if (!counts(c)) match(c);
    }
    for (std::uint32_t c = 0; c < recording_.objects.size(); c++) join_with_opposite(c);
    return std::move(facts_);
  }

 private:
  const event& at(const place& p) const { return recording_.windows[p.window].streams[p.stream].events[p.event]; }
  const event_time& time(const place& p) const { return times_[p.window][p.stream][p.event]; }
  mark& mark_of(const place& p) { return facts_.of_events[p.window][p.stream][p.event]; }

  template <class F>
  void for_each_event(const F& f) {
    for (std::uint32_t w = 0; w < recording_.windows.size(); w++)
      for (std::uint32_t s = 0; s < recording_.windows[w].streams.size(); s++)
        for (std::uint32_t i = 0; i < recording_.windows[w].streams[s].events.size(); i++)
          if (const place p{w, s, i}; is_known(recording_, at(p))) f(p, at(p));
  }

  void count() {
    std::map<std::uint32_t, std::map<std::uint32_t, std::uint64_t>> mutexes;  // by condition
    for_each_event([&](const place& p, const event& e) {
      if (waits(e)) {
        condition_facts& f = facts_.conditions[e.object];
        (e.what == action::wait ? f.waits : f.timed_out)++;
        mutexes[e.object][e.other]++;
        calls_[e.object].push_back(p);
      } else if (is_signal(e)) {
        facts_.conditions[e.object].signals++;
        calls_[e.object].push_back(p);
      }
    });
    for (const auto& [condition, with] : mutexes) {
      const auto most =
          std::max_element(with.begin(), with.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
      facts_.conditions[condition].mutex = most->first;
      guards_.insert(most->first);
    }
  }

  void find_hand_overs() {
    for (std::uint32_t w = 0; w < recording_.windows.size(); w++) {
      std::vector<place> locks;
      for (std::uint32_t s = 0; s < recording_.windows[w].streams.size(); s++)
        for (std::uint32_t i = 0; i < recording_.windows[w].streams[s].events.size(); i++)
          if (const place p{w, s, i}; is_known(recording_, at(p)) && locks_mutex(at(p))) locks.push_back(p);
      std::stable_sort(locks.begin(), locks.end(),
                       [this](const place& a, const place& b) { return time(a).returned < time(b).returned; });
      std::map<std::uint32_t, std::uint32_t> last;  // stream, by object
      for (const place& p : locks) {
        const auto [found, first] = last.try_emplace(at(p).object, p.stream);
        mark_of(p).handed_over = !first && found->second != p.stream;
        found->second = p.stream;
      }
    }
  }

  void find_sections(std::uint32_t w, std::uint32_t s) {
    const std::vector<event>& events = recording_.windows[w].streams[s].events;
    std::map<std::uint32_t, std::size_t> open;  // by mutex: index in sections_
    std::size_t last = ~std::size_t{0};         // the section that ended last
    std::uint64_t ended = 0;
    // A thread had a mutex before the window if the first call with it is not a lock.
    std::set<std::uint32_t> seen;
    for (const event& e : events) {
      const bool locks = locks_mutex(e), unlocks = e.what == action::unlock;
      if (!is_known(recording_, e) || !(locks || unlocks || waits(e))) continue;
      const std::uint32_t mutex = waits(e) ? e.other : e.object;
      if (!seen.insert(mutex).second || locks || !guards_.contains(mutex)) continue;
      open[mutex] = sections_.size();
      sections_.push_back({{w, s, 0}, true, mutex, {}, {}, {}});
    }
    for (std::uint32_t i = 0; i < events.size(); i++) {
      const place p{w, s, i};
      const event& e = events[i];
      if (!is_known(recording_, e)) continue;
      if (e.what == action::lock && guards_.contains(e.object)) {
        open[e.object] = sections_.size();
        sections_.push_back({p, false, e.object, {}, {}, {}});
        last = ~std::size_t{0};
      } else if (e.what == action::unlock && open.contains(e.object)) {
        last = open[e.object];
        sections_[last].unlock = p;
        open.erase(e.object);
        ended = time(p).returned;
      } else if (e.what == action::wait) {
        if (const auto in = open.find(e.other); in != open.end()) sections_[in->second].waits.push_back(p);
      } else if (is_signal(e)) {
        for (const auto& [mutex, in] : open) sections_[in].signals.insert(e.object);
        if (open.empty() && last != ~std::size_t{0} && time(p).called <= ended + soon_ns)
          sections_[last].signals.insert(e.object);
      }
    }
  }

  bool waits_on(const section& s, std::uint32_t condition) const {
    return std::any_of(s.waits.begin(), s.waits.end(), [&](const place& p) { return at(p).object == condition; });
  }

  /// Tries the rule *rounds*: whether this condition opens rounds.
  void find_rounds(std::uint32_t condition) {
    condition_facts& f = facts_.conditions[condition];
    if (f.waits < fewest_waits || f.signals < fewest_waits) return;
    // One stream of a window opens its rounds.
    std::vector<std::vector<place>> openings(recording_.windows.size());
    std::vector<std::set<std::uint32_t>> parties(recording_.windows.size());  // streams
    for (const place& p : calls_[condition]) {
      if (at(p).what == action::signal) return;
      if (at(p).what == action::broadcast)
        openings[p.window].push_back(p);
      else
        parties[p.window].insert(p.stream);
    }
    for (std::vector<place>& of_window : openings) {
      std::stable_sort(of_window.begin(), of_window.end(),
                       [this](const place& a, const place& b) { return time(a).called < time(b).called; });
      for (const place& p : of_window)
        if (p.stream != of_window.front().stream || parties[p.window].contains(p.stream)) return;
    }
    const auto is_opener = [&](const place& p) {
      return !openings[p.window].empty() && openings[p.window].front().stream == p.stream;
    };
    // The openers wait for one other condition.
    std::uint32_t end = none;
    for (const section& s : sections_)
      if (s.mutex == f.mutex && is_opener(s.lock))
        for (const place& p : s.waits) {
          if (end != none && at(p).object != end) return;
          end = at(p).object;
        }
    if (end == none || facts_.conditions[end].mutex != f.mutex) return;
    for (const place& p : calls_[end])
      if (is_signal(at(p)) == is_opener(p)) return;

    // The sections of each party in each round, by their ends. Those of a window's last round may not be complete.
    struct part {
      std::vector<const section*> sections;
      bool complete = false;
    };
    std::vector<part> parts;
    std::map<std::array<std::uint32_t, 2>, std::vector<const section*>> of_stream;
    for (const section& s : sections_)
      if (s.mutex == f.mutex && s.unlock && !is_opener(s.lock)) of_stream[{s.lock.window, s.lock.stream}].push_back(&s);
    for (const auto& [where, sections] : of_stream) {
      const std::vector<place>& opened = openings[where[0]];
      if (!parties[where[0]].contains(where[1])) continue;
      auto next = sections.begin();
      while (next != sections.end() && !opened.empty() && time(*(*next)->unlock).called < time(opened.front()).called)
        ++next;
      for (std::size_t k = 0; k < opened.size(); k++) {
        part p;
        p.complete = k + 1 != opened.size();
        for (; next != sections.end() && (!p.complete || time(*(*next)->unlock).called < time(opened[k + 1]).called);
             ++next)
          p.sections.push_back(*next);
        parts.push_back(std::move(p));
      }
    }
    std::map<std::size_t, std::uint64_t> lengths, ends;
    std::uint64_t complete = 0, all_ends = 0;
    for (const part& p : parts) {
      if (p.complete) {
        complete++;
        lengths[p.sections.size()]++;
      }
      for (std::size_t i = 0; i < p.sections.size(); i++)
        if (p.sections[i]->signals.contains(end)) {
          ends[i]++;
          all_ends++;
        }
    }
    if (complete < fewest_waits || all_ends < fewest_waits) return;
    const auto more = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto length = *std::max_element(lengths.begin(), lengths.end(), more);
    const auto last = *std::max_element(ends.begin(), ends.end(), more);
    const auto most = [](std::uint64_t n, std::uint64_t of) {
      return static_cast<double>(n) >= most_agree * static_cast<double>(of);
    };
    if (length.first == 0 || last.first >= length.first) return;
    if (!most(length.second, complete) || !most(last.second, all_ends)) return;

    condition_facts& g = facts_.conditions[end];
    f.rule = g.rule = signal_rule::rounds;
    g.opened_by = condition;
    for (const part& p : parts) {
      if (p.sections.size() > length.first) continue;
      for (std::size_t i = 0; i < p.sections.size(); i++) {
        if (i == 0 && !p.sections[i]->is_partial) mark_of(p.sections[i]->lock).takes = condition;
        if (i == last.first) mark_of(*p.sections[i]->unlock).ends = end;
      }
    }
    for (const place& p : calls_[condition]) {
      if (at(p).what == action::wait) mark_of(p).how = mark::wait::dropped;
      if (at(p).what == action::broadcast) mark_of(p).opens = true;
    }
    for (const place& p : calls_[end]) {
      if (at(p).what == action::wait) mark_of(p).how = mark::wait::takes;
      if (is_signal(at(p))) mark_of(p).dropped = true;
    }
  }

  /// Tries the rule *counted*.
  bool counts(std::uint32_t condition) {
    condition_facts& f = facts_.conditions[condition];
    if (f.waits < fewest_waits || f.signals == 0) return false;
    const auto belongs = [&](const section& s) { return s.mutex == f.mutex; };
    std::map<std::set<std::uint32_t>, std::uint64_t> kinds;  // the sections that wait, by their signals
    std::uint64_t waiting = 0;
    for (const section& s : sections_)
      if (belongs(s) && waits_on(s, condition)) {
        kinds[s.signals]++;
        waiting++;
      }
    if (kinds.empty()) return false;
    const auto kind =
        std::max_element(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (static_cast<double>(kind->second) < most_agree * static_cast<double>(waiting)) return false;
    // A section that signals the condition on which it waits gives what it takes.
    if (kind->first.contains(condition)) return false;

    struct step {
      std::uint64_t at;
      int change;  // 0: a wait begins
    };
    std::vector<std::vector<step>> steps(recording_.windows.size());
    for (const place& p : calls_[condition]) {
      if (at(p).what == action::broadcast) return false;
      if (is_signal(at(p))) steps[p.window].push_back({time(p).called, 1});
    }
    std::vector<const section*> takers;
    for (const section& s : sections_) {
      if (!belongs(s) || s.signals != kind->first) continue;
      takers.push_back(&s);
      place taken = s.lock;
      for (const place& p : s.waits)
        if (at(p).object == condition) {
          // Of a wait that began before the window the number is not known.
          if (p.event != 0 || !recording_.windows[p.window].streams[p.stream].begins_in_call)
            steps[p.window].push_back({time(p).called, 0});
          taken = p;
        }
      const bool before_window = s.is_partial && taken.event == s.lock.event && !waits(at(taken));
      steps[s.lock.window].push_back({before_window ? 0 : time(taken).returned, -1});
    }
    std::uint64_t agree = 0, all = 0;
    std::vector<std::int64_t> at_first;
    std::vector<number_at_wait> samples;
    for (std::vector<step>& of_window : steps) {
      std::stable_sort(of_window.begin(), of_window.end(),
                       [](const step& a, const step& b) { return a.at != b.at ? a.at < b.at : a.change > b.change; });
      std::int64_t number = 0, signals = 0;
      std::vector<std::int64_t> seen;
      for (const step& s : of_window) {
        if (s.change == 0) {
          seen.push_back(number);
          samples.push_back({std::size_t(&of_window - steps.data()), s.at, number});
        }
        number += s.change;
        signals += s.change > 0 ? 1 : 0;
      }
      if (seen.empty()) continue;
      std::vector<std::int64_t> sorted = seen;
      std::nth_element(sorted.begin(), sorted.begin() + std::ptrdiff_t(sorted.size() / 2), sorted.end());
      const std::int64_t zero = sorted[sorted.size() / 2];
      const std::int64_t tolerance = std::max(least_tolerance, signals / tolerance_share);
      agree += std::uint64_t(std::count_if(
          seen.begin(), seen.end(), [&](std::int64_t n) { return n - zero <= tolerance && zero - n <= tolerance; }));
      all += seen.size();
      at_first.push_back(-zero);
    }
    if (all < fewest_waits || static_cast<double>(agree) < most_agree * static_cast<double>(all)) return false;

    f.rule = signal_rule::counted;
    counted_[condition] = {kind->first, std::move(samples)};
    std::nth_element(at_first.begin(), at_first.begin() + std::ptrdiff_t(at_first.size() / 2), at_first.end());
    f.at_first = std::uint32_t(std::clamp<std::int64_t>(at_first[at_first.size() / 2], 0, 1 << 30));
    for (const section* s : takers) {
      bool first = true;
      for (const place& p : s->waits)
        if (at(p).object == condition)
          mark_of(p).how = std::exchange(first, false) ? mark::wait::takes : mark::wait::dropped;
      if (first && !s->is_partial) mark_of(s->lock).takes = condition;
    }
    for (const place& p : calls_[condition]) {
      if (is_signal(at(p))) mark_of(p).posts = 1;
      if (at(p).what == action::wait && mark_of(p).how == mark::wait::unknown) f.unknown++;
    }
    return true;
  }

  /// If the takers of one condition signal another one, and the reverse, as in a bounded queue, the two numbers have a constant sum,
  /// the capacity. It is found from waits on the two at nearly the same time: the clocks of streams differ a little, and in the same
  /// way for both.
  void join_with_opposite(std::uint32_t condition) {
    const auto mine = counted_.find(condition);
    if (mine == counted_.end()) return;
    for (const std::uint32_t other : mine->second.signals) {
      const auto theirs = counted_.find(other);
      if (other <= condition || theirs == counted_.end() || !theirs->second.signals.contains(condition) ||
          facts_.conditions[other].mutex != facts_.conditions[condition].mutex)
        continue;
      std::vector<std::pair<number_at_wait, bool>> all;
      for (const number_at_wait& n : mine->second.waits) all.emplace_back(n, true);
      for (const number_at_wait& n : theirs->second.waits) all.emplace_back(n, false);
      std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
        return a.first.window != b.first.window ? a.first.window < b.first.window : a.first.at < b.first.at;
      });
      std::vector<std::int64_t> sums;
      for (std::size_t from = 0; from < all.size(); from += at_once) {
        std::vector<std::int64_t> ours, others;
        for (std::size_t i = from; i < std::min(from + at_once, all.size()); i++)
          if (all[i].first.window == all[from].first.window)
            (all[i].second ? ours : others).push_back(all[i].first.number);
        if (!ours.empty() && !others.empty()) sums.push_back(-(middle(ours) + middle(others)));
      }
      if (sums.empty()) continue;
      const auto capacity = std::uint32_t(std::clamp<std::int64_t>(middle(sums), 1, 1 << 30));
      condition_facts &f = facts_.conditions[condition], &g = facts_.conditions[other];
      f.at_first = std::min(f.at_first, capacity);
      g.at_first = capacity - f.at_first;
    }
  }

  /// Assigns to each wait the first signal that came while it lasted and that no other wait has. Of several waiting threads, the one
  /// that returned first gets the signal.
  void match(std::uint32_t condition) {
    condition_facts& f = facts_.conditions[condition];
    std::vector<place> all = calls_[condition];
    std::stable_sort(all.begin(), all.end(), [this](const place& a, const place& b) {
      return a.window != b.window ? a.window < b.window : time(a).called < time(b).called;
    });
    std::set<std::pair<std::uint64_t, std::size_t>> waiting;  // the time of the return, the index in `all`
    std::uint32_t window = 0;
    for (std::size_t i = 0; i < all.size(); i++) {
      const place& p = all[i];
      if (std::exchange(window, p.window) != p.window) waiting.clear();
      const std::uint64_t now = time(p).called;
      while (!waiting.empty() && waiting.begin()->first < now) waiting.erase(waiting.begin());
      if (at(p).what == action::wait) {
        waiting.emplace(time(p).returned, i);
      } else if (is_signal(at(p))) {
        const bool everyone = at(p).what == action::broadcast;
        while (!waiting.empty()) {
          mark_of(all[waiting.begin()->second]).how = mark::wait::takes;
          mark_of(p).posts++;
          waiting.erase(waiting.begin());
          if (!everyone) break;
        }
      }
    }
    for (const place& p : all)
      if (at(p).what == action::wait && mark_of(p).how == mark::wait::unknown) f.unknown++;
    f.rule = f.unknown == f.waits ? signal_rule::none : signal_rule::matched;
  }

  /// The number of a condition when a thread began to wait, counted from the window's beginning.
  struct number_at_wait {
    std::size_t window;
    std::uint64_t at;
    std::int64_t number;
  };
  struct counted {
    std::set<std::uint32_t> signals;  ///< of the sections that take
    std::vector<number_at_wait> waits;
  };

  const recording::recording& recording_;
  signal_facts facts_;
  std::map<std::uint32_t, counted> counted_;
  std::vector<std::vector<std::vector<event_time>>> times_;
  std::map<std::uint32_t, std::vector<place>> calls_;  // waits and signals, by condition
  std::set<std::uint32_t> guards_;                     // the mutexes of conditions
  std::vector<section> sections_;
};

}  // namespace

signal_facts find_signals(const recording::recording& r) {
  return finder(r).found();
}

}  // namespace usher::predict
