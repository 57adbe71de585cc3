#include "lab/predict/signal_rules.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace usher::predict {
namespace {

using contract::verb;
using recording::event;

/// A signal belongs to the section that the thread has just ended if it comes within this time after the unlock.
/// Chosen, not measured.
constexpr std::uint64_t soon_ns = 2000;
/// The rules *counted* and *rounds* need at least this many waits; most_agree is the share of observations that must
/// agree. Chosen, not measured.
constexpr std::uint64_t fewest_waits = 5;
constexpr double most_agree = 0.9;
/// Two counts of a window are equal if they differ by at most least_tolerance or by 1/tolerance_share of the window's
/// signals: the order of calls at nearly the same time is unknown. Chosen, not measured.
constexpr std::int64_t least_tolerance = 2, tolerance_share = 200;

/// The number of successive waits, on either of two opposite conditions, whose counts are added up. Chosen, not
/// measured.
constexpr std::size_t at_once = 20;

std::int64_t middle(std::vector<std::int64_t>& v) {
  std::nth_element(v.begin(), v.begin() + std::ptrdiff_t(v.size() / 2), v.end());
  return v[v.size() / 2];
}

struct place {
  std::uint32_t window, stream, event;
};

/// All sections of one mutex that signal the same conditions.
struct section_kind {
  std::vector<std::size_t> sections;
  std::map<std::uint32_t, std::vector<std::uint64_t>>
      taken_at;                        ///< by window, sorted: times of taking a token, for sections that do not wait
  std::vector<std::uint32_t> counted;  ///< under the rule *counted*: conditions from which these sections take tokens
};

/// A critical section of a mutex with which threads wait on conditions.
struct section {
  place lock{};             ///< the event that acquired the mutex
  bool is_partial = false;  ///< the thread had the mutex before the window: `lock` is the stream's first event
  std::uint32_t mutex = none;
  std::vector<place> waits;         ///< on conditions, without those that timed out
  std::set<std::uint32_t> signals;  ///< the conditions that are signalled within it or soon after it
  std::optional<place> unlock{};    ///< the event that released the mutex; nothing: the section lasts beyond the window
  section_kind* kind = nullptr;
};

bool is_signal(const event& e) {
  return e.what == verb::signal || e.what == verb::broadcast;
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
    sort_sections();
    for (std::uint32_t c = 0; c < recording_.objects.size(); c++)
      if (facts_.conditions[c].rule == signal_rule::none) find_rounds(c);
    for (std::uint32_t c = 0; c < recording_.objects.size(); c++) {
      condition_facts& f = facts_.conditions[c];
      if (f.waits == 0 || f.rule != signal_rule::none) continue;
      if (!counts(c)) match(c);
    }
    mark_takers();
    for (std::uint32_t c = 0; c < recording_.objects.size(); c++) join_with_opposite(c);
    return std::move(facts_);
  }

 private:
  static constexpr std::uint32_t several = none - 1;
  /// The sections of one mutex in one stream of a window.
  struct stream_sections {
    std::vector<const section*> complete;                       ///< the sections that end in the window, in order
    std::map<std::uint32_t, std::vector<std::size_t>> signals;  ///< by condition: which of `complete` signal it
    std::uint32_t waits_for = none;                             ///< the condition on which they wait, or `several`
  };
  struct callers {
    std::set<std::uint32_t> signal, wait;  ///< streams
  };

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
        (e.what == verb::wait ? f.waits : f.timed_out)++;
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
    std::map<std::uint32_t, std::size_t> open;  // by mutex: index in sections_ of the section that has not ended
    std::size_t last = ~std::size_t{0};         // the section that ended last
    std::uint64_t ended = 0;
    // A thread had the mutex before the window if its first call with the mutex there is an unlock or a wait.
    std::set<std::uint32_t> seen;
    for (const event& e : events) {
      const bool locks = locks_mutex(e), unlocks = e.what == verb::unlock;
      if (!is_known(recording_, e) || !(locks || unlocks || waits(e))) continue;
      const std::uint32_t mutex = waits(e) ? e.other : e.object;
      if (!seen.insert(mutex).second || locks || !guards_.contains(mutex)) continue;
      open[mutex] = sections_.size();
      sections_.push_back({{w, s, 0}, true, mutex, {}, {}, {}, nullptr});
    }
    for (std::uint32_t i = 0; i < events.size(); i++) {
      const place p{w, s, i};
      const event& e = events[i];
      if (!is_known(recording_, e)) continue;
      if (e.what == verb::lock && guards_.contains(e.object)) {
        open[e.object] = sections_.size();
        sections_.push_back({p, false, e.object, {}, {}, {}, nullptr});
        last = ~std::size_t{0};
      } else if (e.what == verb::unlock && open.contains(e.object)) {
        last = open[e.object];
        sections_[last].unlock = p;
        open.erase(e.object);
        ended = time(p).returned;
      } else if (e.what == verb::wait) {
        if (const auto in = open.find(e.other); in != open.end()) sections_[in->second].waits.push_back(p);
      } else if (is_signal(e)) {
        for (const auto& [mutex, in] : open) sections_[in].signals.insert(e.object);
        if (open.empty() && last != ~std::size_t{0} && time(p).called <= ended + soon_ns)
          sections_[last].signals.insert(e.object);
      }
    }
  }

  /// Returns the time at which a section that does not wait takes its token: the beginning of the section.
  std::uint64_t taken_at(const section& s) const {
    return s.is_partial && !waits(at(s.lock)) ? 0 : time(s.lock).returned;
  }

  /// Fills the maps from which each rule gets the sections that concern its condition.
  void sort_sections() {
    for (std::size_t i = 0; i < sections_.size(); i++) {
      section& s = sections_[i];
      s.kind = &kinds_[{s.mutex, s.signals}];
      s.kind->sections.push_back(i);
      s.kind->taken_at[s.lock.window].push_back(taken_at(s));
      stream_sections& of = of_streams_[{s.lock.window, s.lock.stream, s.mutex}];
      if (s.unlock) {
        for (const std::uint32_t condition : s.signals) of.signals[condition].push_back(of.complete.size());
        of.complete.push_back(&s);
      }
      for (const place& p : s.waits) {
        const std::uint32_t condition = at(p).object;
        std::vector<std::size_t>& waiting = waiting_[condition];
        if (waiting.empty() || waiting.back() != i) waiting.push_back(i);
        of.waits_for = of.waits_for == none || of.waits_for == condition ? condition : several;
      }
    }
    for (auto& [of, kind] : kinds_)
      for (auto& [window, times] : kind.taken_at) std::sort(times.begin(), times.end());
  }

  /// By window: the broadcasts by which a condition opens rounds, and the streams that wait for these broadcasts (the
  /// parties).
  struct rounds {
    std::map<std::uint32_t, std::vector<place>> openings;
    std::map<std::uint32_t, std::set<std::uint32_t>> parties;

    std::uint32_t opener(std::uint32_t window) const {
      const auto found = openings.find(window);
      return found != openings.end() ? found->second.front().stream : none;
    }
  };

  /// Returns the rounds that the condition opens. Nullopt if it is also signalled, or if in a window several streams
  /// broadcast or the broadcasting stream waits.
  std::optional<rounds> rounds_of(std::uint32_t condition) {
    rounds r;
    for (const place& p : calls_[condition]) {
      if (at(p).what == verb::signal) return std::nullopt;
      if (at(p).what == verb::broadcast)
        r.openings[p.window].push_back(p);
      else
        r.parties[p.window].insert(p.stream);
    }
    for (auto& [window, opened] : r.openings) {
      std::stable_sort(opened.begin(), opened.end(),
                       [this](const place& a, const place& b) { return time(a).called < time(b).called; });
      const auto waiting = r.parties.find(window);
      for (const place& p : opened)
        if (p.stream != opened.front().stream || (waiting != r.parties.end() && waiting->second.contains(p.stream)))
          return std::nullopt;
    }
    return r;
  }

  /// Returns the only condition on which the openers wait in sections of this mutex; none: they wait on no condition or
  /// on several.
  std::uint32_t end_of(const rounds& r, std::uint32_t mutex) const {
    std::uint32_t end = none;
    for (const auto& [window, opened] : r.openings) {
      const auto found = of_streams_.find({window, opened.front().stream, mutex});
      if (found == of_streams_.end() || found->second.waits_for == none) continue;
      if (found->second.waits_for == several || (end != none && found->second.waits_for != end)) return none;
      end = found->second.waits_for;
    }
    return end;
  }

  /// Whether only the openers wait on the condition `end`, and only other streams signal it.
  bool is_end_of(const rounds& r, std::uint32_t end) {
    auto [found, is_new] = callers_.try_emplace(end);
    if (is_new)
      for (const place& p : calls_[end])
        (is_signal(at(p)) ? found->second[p.window].signal : found->second[p.window].wait).insert(p.stream);
    return std::all_of(found->second.begin(), found->second.end(), [&r](const auto& of_window) {
      const std::uint32_t opener = r.opener(of_window.first);
      const callers& by = of_window.second;
      return !by.signal.contains(opener) && by.wait.size() == (by.wait.contains(opener) ? 1u : 0u);
    });
  }

  /// The sections of one party in one round. A section belongs to the round in which it ends. The last round of a
  /// window may be cut by the window's end; then `complete` is false.
  struct part {
    const stream_sections* of = nullptr;
    std::size_t from = 0, until = 0;
    bool complete = false;

    std::size_t size() const { return until - from; }
    const section& at(std::size_t i) const { return *of->complete[from + i]; }
  };
  struct all_parts {
    std::vector<part> some;   ///< parts with at least one section
    std::uint64_t empty = 0;  ///< the number of complete parts without a section
  };

  /// Returns the index of the first section whose unlock was called at this time or later.
  std::size_t first_from(const std::vector<const section*>& all, std::uint64_t called) const {
    const auto found = std::lower_bound(all.begin(), all.end(), called, [this](const section* s, std::uint64_t from) {
      return time(*s->unlock).called < from;
    });
    return std::size_t(found - all.begin());
  }

  /// Calls f(openings, sections) for each party in each window.
  template <class F>
  void for_each_party(const rounds& r, std::uint32_t mutex, const F& f) const {
    for (const auto& [window, opened] : r.openings)
      if (const auto streams = r.parties.find(window); streams != r.parties.end())
        for (const std::uint32_t stream : streams->second)
          if (const auto found = of_streams_.find({window, stream, mutex});
              found != of_streams_.end() && !found->second.complete.empty())
            f(opened, found->second);
  }

  all_parts parts_of(const rounds& r, std::uint32_t mutex) const {
    all_parts all;
    for_each_party(r, mutex, [&](const std::vector<place>& opened, const stream_sections& of) {
      all.empty += opened.size() - 1;
      for (std::size_t i = first_from(of.complete, time(opened.front()).called); i < of.complete.size();) {
        const auto next = std::upper_bound(
            opened.begin(), opened.end(), time(*of.complete[i]->unlock).called,
            [this](std::uint64_t called, const place& opening) { return called < time(opening).called; });
        const bool complete = next != opened.end();
        const std::size_t until = complete ? first_from(of.complete, time(*next).called) : of.complete.size();
        all.some.push_back({&of, i, until, complete});
        if (complete) all.empty--;
        i = until;
      }
    });
    return all;
  }

  /// Returns a histogram: at which index within its part a section signals `end`. Empty if the signalling sections are
  /// too few, or so many that no index can prevail.
  std::map<std::size_t, std::uint64_t> ends_in(const all_parts& all, std::uint32_t end) const {
    const auto signalling = [end](const part& p) {
      const auto found = p.of->signals.find(end);
      if (found == p.of->signals.end()) return std::pair{found, std::pair{std::size_t{0}, std::size_t{0}}};
      const auto index = [&](std::size_t i) {
        return std::size_t(std::lower_bound(found->second.begin(), found->second.end(), i) - found->second.begin());
      };
      return std::pair{found, std::pair{index(p.from), index(p.until)}};
    };
    std::uint64_t n = 0;
    for (const part& p : all.some) {
      const auto of = signalling(p).second;
      n += of.second - of.first;
    }
    std::map<std::size_t, std::uint64_t> ends;
    if (n < fewest_waits || !are_most(all.some.size(), n)) return ends;
    for (const part& p : all.some) {
      const auto [found, of] = signalling(p);
      for (std::size_t i = of.first; i < of.second; i++) ends[found->second[i] - p.from]++;
    }
    return ends;
  }

  static bool are_most(std::uint64_t n, std::uint64_t of) {
    return static_cast<double>(n) >= most_agree * static_cast<double>(of);
  }

  /// Tries the rule *rounds* with this condition as the one that opens rounds.
  void find_rounds(std::uint32_t condition) {
    condition_facts& f = facts_.conditions[condition];
    if (f.waits < fewest_waits || f.signals < fewest_waits) return;
    const std::optional<rounds> r = rounds_of(condition);
    if (!r) return;
    const std::uint32_t end = end_of(*r, f.mutex);
    if (end == none || facts_.conditions[end].mutex != f.mutex || !is_end_of(*r, end)) return;
    const all_parts all = parts_of(*r, f.mutex);
    const std::map<std::size_t, std::uint64_t> ends = ends_in(all, end);
    std::map<std::size_t, std::uint64_t> lengths;
    std::uint64_t complete = all.empty, all_ends = 0;
    if (all.empty != 0) lengths[0] = all.empty;
    for (const part& p : all.some) {
      if (!p.complete) continue;
      complete++;
      lengths[p.size()]++;
    }
    for (const auto& [at, n] : ends) all_ends += n;
    if (complete < fewest_waits || all_ends < fewest_waits) return;
    const auto more = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto length = *std::max_element(lengths.begin(), lengths.end(), more);
    const auto last = *std::max_element(ends.begin(), ends.end(), more);
    if (length.first == 0 || last.first >= length.first) return;
    if (!are_most(length.second, complete) || !are_most(last.second, all_ends)) return;

    condition_facts& g = facts_.conditions[end];
    f.rule = g.rule = signal_rule::rounds;
    g.opened_by = condition;
    for (const part& p : all.some) {
      if (p.size() > length.first) continue;
      if (!p.at(0).is_partial) mark_of(p.at(0).lock).takes = condition;
      if (last.first < p.size()) mark_of(*p.at(last.first).unlock).ends = end;
    }
    for (const place& p : calls_[condition]) {
      if (at(p).what == verb::wait) mark_of(p).how = mark::wait::dropped;
      if (at(p).what == verb::broadcast) mark_of(p).opens = true;
    }
    if (!ends_.insert(end).second) return;
    for (const place& p : calls_[end]) {
      if (at(p).what == verb::wait) mark_of(p).how = mark::wait::takes;
      if (is_signal(at(p))) mark_of(p).dropped = true;
    }
  }

  /// The count of a condition (signals minus taken tokens since the window's beginning) when a thread began to wait.
  struct number_at_wait {
    std::size_t window;
    std::uint64_t at;
    std::int64_t number;
  };

  /// The times at which the count of a condition changes or is observed in a window.
  struct window_counts {
    std::vector<std::uint64_t> signals, waits;
    std::vector<std::uint64_t> taken,
        not_taken;  ///< of sections that wait: the end of the last wait; the time of taking without a wait

    /// Sorts all times and returns the count at each of `waits`. `taken_at` has the times at which all sections of the
    /// waiting kind would take a token if none of them waited; `not_taken` and `taken` correct it. Of calls at the same
    /// time, signals come first, and sections take last.
    std::vector<std::int64_t> numbers(const std::vector<std::uint64_t>& taken_at) {
      for (auto* times : {&signals, &waits, &taken, &not_taken}) std::sort(times->begin(), times->end());
      const auto before = [](const std::vector<std::uint64_t>& times, std::uint64_t now) {
        return std::lower_bound(times.begin(), times.end(), now) - times.begin();
      };
      std::vector<std::int64_t> all;
      for (const std::uint64_t now : waits) {
        const std::int64_t came = std::upper_bound(signals.begin(), signals.end(), now) - signals.begin();
        all.push_back(came - (before(taken_at, now) - before(not_taken, now) + before(taken, now)));
      }
      return all;
    }
  };

  /// Returns the conditions that most of the sections that wait on this condition signal: sections with the same
  /// signals take its tokens. Nullopt if the sections differ, or if they signal the condition itself and so post what
  /// they take.
  std::optional<std::set<std::uint32_t>> signals_of_takers(std::uint32_t condition) {
    std::map<std::set<std::uint32_t>, std::uint64_t> kinds;  // the sections that wait, by their signals
    std::uint64_t waiting = 0;
    for (const std::size_t i : waiting_[condition])
      if (const section& s = sections_[i]; s.mutex == facts_.conditions[condition].mutex) {
        kinds[s.signals]++;
        waiting++;
      }
    if (kinds.empty()) return std::nullopt;
    const auto kind =
        std::max_element(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (!are_most(kind->second, waiting) || kind->first.contains(condition)) return std::nullopt;
    return kind->first;
  }

  bool has_broadcast(std::uint32_t condition) {
    const std::vector<place>& calls = calls_[condition];
    return std::any_of(calls.begin(), calls.end(), [this](const place& p) { return at(p).what == verb::broadcast; });
  }

  /// Returns the times that concern the condition, by window.
  std::map<std::uint32_t, window_counts> count_in_windows(std::uint32_t condition, const section_kind& takers) {
    std::map<std::uint32_t, window_counts> windows;
    for (const place& p : calls_[condition])
      if (is_signal(at(p))) windows[p.window].signals.push_back(time(p).called);
    for (const std::size_t i : waiting_[condition]) {
      const section& s = sections_[i];
      if (s.kind != &takers) continue;
      window_counts& of = windows[s.lock.window];
      of.not_taken.push_back(taken_at(s));
      const place* last = nullptr;
      for (const place& p : s.waits)
        if (at(p).object == condition) {
          // For a wait that began before the window, the count at its beginning is unknown.
          if (p.event != 0 || !recording_.windows[p.window].streams[p.stream].begins_in_call)
            of.waits.push_back(time(p).called);
          last = &p;
        }
      of.taken.push_back(time(*last).returned);
    }
    return windows;
  }

  /// The counts of a condition at the waits in all windows.
  struct all_numbers {
    std::vector<number_at_wait> at_waits;
    std::uint64_t agree = 0;             ///< the number of waits whose count is nearly the median of their window
    std::vector<std::int64_t> at_first;  ///< by window: the tokens at its beginning, if the median count means 0 tokens
  };

  all_numbers numbers_of(std::uint32_t condition, section_kind& takers) {
    all_numbers all;
    for (auto& [window, of] : count_in_windows(condition, takers)) {
      if (of.waits.empty()) continue;
      std::vector<std::int64_t> seen = of.numbers(takers.taken_at[window]);
      for (std::size_t i = 0; i < seen.size(); i++) all.at_waits.push_back({window, of.waits[i], seen[i]});
      const std::int64_t zero = middle(seen);
      const std::int64_t tolerance = std::max(least_tolerance, std::int64_t(of.signals.size()) / tolerance_share);
      all.agree += std::uint64_t(std::count_if(
          seen.begin(), seen.end(), [&](std::int64_t n) { return n - zero <= tolerance && zero - n <= tolerance; }));
      all.at_first.push_back(-zero);
    }
    return all;
  }

  /// Marks the events of a condition under the rule *counted*: each signal posts a token, and the first wait in each
  /// section of this kind takes one.
  void mark_counted(std::uint32_t condition, const section_kind& takers) {
    for (const std::size_t i : waiting_[condition]) {
      const section& s = sections_[i];
      if (s.kind != &takers) continue;
      bool first = true;
      for (const place& p : s.waits)
        if (at(p).object == condition)
          mark_of(p).how = std::exchange(first, false) ? mark::wait::takes : mark::wait::dropped;
    }
    for (const place& p : calls_[condition]) {
      if (is_signal(at(p))) mark_of(p).posts = 1;
      if (at(p).what == verb::wait && mark_of(p).how == mark::wait::unknown) facts_.conditions[condition].unknown++;
    }
  }

  /// Returns whether the rule *counted* explains all signals of this condition variable.
  bool counts(std::uint32_t condition) {
    condition_facts& f = facts_.conditions[condition];
    if (f.waits < fewest_waits || f.signals == 0) return false;
    const std::optional<std::set<std::uint32_t>> signals = signals_of_takers(condition);
    if (!signals || has_broadcast(condition)) return false;
    section_kind& takers = kinds_.at({f.mutex, *signals});
    all_numbers numbers = numbers_of(condition, takers);
    const std::size_t waits = numbers.at_waits.size();
    if (waits < fewest_waits || !are_most(numbers.agree, waits)) return false;

    f.rule = signal_rule::counted;
    f.at_first = std::uint32_t(std::clamp<std::int64_t>(middle(numbers.at_first), 0, 1 << 30));
    counted_[condition] = {*signals, std::move(numbers.at_waits)};
    takers.counted.push_back(condition);
    mark_counted(condition, takers);
    return true;
  }

  /// Marks the sections that take a token without a wait. If their kind takes tokens of several conditions, a section
  /// takes one of the last condition on which it does not wait.
  void mark_takers() {
    for (const auto& [of, kind] : kinds_) {
      if (kind.counted.empty()) continue;
      for (const std::size_t i : kind.sections) {
        const section& s = sections_[i];
        if (s.is_partial) continue;
        std::set<std::uint32_t> waits_for;
        for (const place& p : s.waits) waits_for.insert(at(p).object);
        const auto last = std::find_if(kind.counted.rbegin(), kind.counted.rend(),
                                       [&](std::uint32_t condition) { return !waits_for.contains(condition); });
        if (last != kind.counted.rend()) mark_of(s.lock).takes = *last;
      }
    }
  }

  /// Two conditions are opposite if the sections that take of one signal the other, and the reverse, as in a bounded
  /// queue. The sum of their tokens is then constant: the queue's capacity. The capacity is computed from waits on both
  /// conditions at nearly the same time, because the clocks of streams differ a little, and in the same way for both
  /// conditions.
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

  /// The rule *matched*: each signal ends the wait that returns first among those that last at the signal's time and
  /// have no signal yet. A broadcast ends all of them.
  void match(std::uint32_t condition) {
    condition_facts& f = facts_.conditions[condition];
    std::vector<place> all = calls_[condition];
    std::stable_sort(all.begin(), all.end(), [this](const place& a, const place& b) {
      return a.window != b.window ? a.window < b.window : time(a).called < time(b).called;
    });
    std::set<std::pair<std::uint64_t, std::size_t>> waiting;  // time of the return, index in `all`
    std::uint32_t window = 0;
    for (std::size_t i = 0; i < all.size(); i++) {
      const place& p = all[i];
      if (std::exchange(window, p.window) != p.window) waiting.clear();
      const std::uint64_t now = time(p).called;
      while (!waiting.empty() && waiting.begin()->first < now) waiting.erase(waiting.begin());
      if (at(p).what == verb::wait) {
        waiting.emplace(time(p).returned, i);
      } else if (is_signal(at(p))) {
        const bool everyone = at(p).what == verb::broadcast;
        while (!waiting.empty()) {
          mark_of(all[waiting.begin()->second]).how = mark::wait::takes;
          mark_of(p).posts++;
          waiting.erase(waiting.begin());
          if (!everyone) break;
        }
      }
    }
    for (const place& p : all)
      if (at(p).what == verb::wait && mark_of(p).how == mark::wait::unknown) f.unknown++;
    f.rule = f.unknown == f.waits ? signal_rule::none : signal_rule::matched;
  }

  struct counted {
    std::set<std::uint32_t> signals;  ///< the conditions that the taking sections signal
    std::vector<number_at_wait> waits;
  };

  const recording::recording& recording_;
  signal_facts facts_;
  std::map<std::uint32_t, counted> counted_;
  std::vector<std::vector<std::vector<event_time>>> times_;
  std::map<std::uint32_t, std::vector<place>> calls_;  // by condition: its waits and signals
  std::set<std::uint32_t> guards_;                     // mutexes with which threads wait on conditions
  std::vector<section> sections_;
  // Indices of the sections, for the rules:
  std::map<std::uint32_t, std::vector<std::size_t>> waiting_;  // by condition: the sections that wait on it
  std::map<std::pair<std::uint32_t, std::set<std::uint32_t>>, section_kind> kinds_;  // by mutex and signals
  std::map<std::array<std::uint32_t, 3>, stream_sections> of_streams_;               // by window, stream and mutex
  std::set<std::uint32_t> ends_;                                                     // conditions that end rounds
  std::map<std::uint32_t, std::map<std::uint32_t, callers>> callers_;                // by condition and window
};

}  // namespace

signal_facts find_signals(const recording::recording& r) {
  return finder(r).found();
}

}  // namespace usher::predict
