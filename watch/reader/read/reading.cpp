#include "watch/reader/read/reading.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "support/measure/metrics.hpp"
#include "watch/reader/judge/stat_quantities.hpp"
#include "watch/reader/name/id_names.hpp"
#include "watch/reader/name/naming.hpp"

namespace usher::reader {
namespace {

using contract::duration_buckets;

constexpr std::size_t symbol_becomes_table = 4;  // number of objects in one symbol that form one row; chosen
// The first holds of an object, which are all timed: watch/recorder/holding.cpp
constexpr std::uint64_t always_timed = 16;
constexpr std::size_t most_quiet_objects =
    2048;  // objects of a row that are listed although no thread waited for them; chosen
constexpr std::size_t most_rows_with_windows = 64;  // chosen

template <class T>
T get(const std::atomic<T>& word) {
  return word.load(std::memory_order_relaxed);
}

struct thread_sum {
  std::uint64_t waits = 0, ticks = 0;
};

/// The acquisitions of a read-write lock to read, or to write. Times in ticks.
struct side_sum {
  std::uint64_t acquisitions = 0, contended = 0, waited = 0, behind_writer = 0, behind_readers = 0;
  /// The longest wait of this side, if known; else 0, and the longest wait of both sides.
  std::uint64_t longest = 0, longest_of_both = 0;

  void add(const side_sum& s) {
    acquisitions += s.acquisitions;
    contended += s.contended;
    waited += s.waited;
    behind_writer += s.behind_writer;
    behind_readers += s.behind_readers;
    longest = std::max(longest, s.longest);
    longest_of_both = std::max(longest_of_both, s.longest_of_both);
  }
};

/// Sums over one or several objects, in ticks if no other unit is given.
struct tally : plain_counts {
  std::uint64_t acquisitions = 0, contended = 0, waited = 0, longest = 0, waits = 0;
  /// Of the ended timed holds: the sum of their times, the number of holds that they represent, their own number, and
  /// the longest.
  std::uint64_t held = 0, holds = 0, timed = 0, longest_hold = 0;
  std::uint64_t yielding = 0;  ///< of `hold_sizes`: holds in which the holder called sched_yield()
  double held_in_all = 0;      ///< seconds, of all holds
  std::optional<double> held_share;
  bool holding_known = false, holding_exact = true;
  std::uint32_t most_readers = 0;  ///< of a read-write lock
  std::uint64_t tries = 0, tried = 0, longest_try = 0;
  side_sum reading, writing;
  bool hidden = false, more_threads = false;
  std::optional<ways_of_waiting> ways;
  /// By duration_buckets; in `hold_sizes` each covers two buckets. Empty: none
  std::vector<std::uint64_t> wait_sizes, hold_sizes;
  std::unordered_map<std::uint32_t, thread_sum> threads;

  void add(const tally& t) {
    acquisitions += t.acquisitions;
    contended += t.contended;
    waited += t.waited;
    waits += t.waits;
    longest = std::max(longest, t.longest);
    held += t.held;
    holds += t.holds;
    timed += t.timed;
    yielding += t.yielding;
    longest_hold = std::max(longest_hold, t.longest_hold);
    held_in_all += t.held_in_all;
    if (t.held_share) held_share = std::max(held_share.value_or(0), *t.held_share);
    holding_known = holding_known || t.holding_known;
    if (t.acquisitions != 0) holding_exact = holding_exact && t.holding_exact;
    for (const plain_count& c : all_plain_counts)
      this->*c.count = c.is_largest ? std::max(this->*c.count, t.*c.count) : this->*c.count + t.*c.count;
    most_readers = std::max(most_readers, t.most_readers);
    tries += t.tries;
    tried += t.tried;
    longest_try = std::max(longest_try, t.longest_try);
    reading.add(t.reading);
    writing.add(t.writing);
    hidden = hidden || t.hidden;
    if (t.ways) {
      if (!ways) ways.emplace();
      ways->polls += t.ways->polls;
      ways->sleeps += t.ways->sleeps;
      ways->grants += t.ways->grants;
    }
    more_threads = more_threads || t.more_threads;
    add_sizes(wait_sizes, t.wait_sizes);
    add_sizes(hold_sizes, t.hold_sizes);
    for (const auto& [index, sum] : t.threads) {
      threads[index].waits += sum.waits;
      threads[index].ticks += sum.ticks;
    }
  }

 private:
  static void add_sizes(std::vector<std::uint64_t>& to, const std::vector<std::uint64_t>& from) {
    if (to.size() < from.size()) to.resize(from.size());
    for (std::size_t i = 0; i < from.size(); i++) to[i] += from[i];
  }
};

/// The quantile `part` (0–1) of durations in ticks, given the number in each bucket. Assumes an even distribution
/// within each bucket.
std::optional<double> percentile_of(std::span<const std::uint64_t> sizes, std::uint32_t buckets_in_one, double part,
                                    std::uint64_t longest) {
  std::uint64_t all = 0;
  for (const std::uint64_t n : sizes) all += n;
  if (all == 0) return std::nullopt;
  const double wanted = part * static_cast<double>(all);
  double below = 0, value = 0;
  for (std::uint32_t i = 0; i < sizes.size(); i++) {
    if (sizes[i] == 0) continue;
    const auto n = static_cast<double>(sizes[i]);
    const auto low = static_cast<double>(duration_buckets::lower(i * buckets_in_one));
    const auto high = static_cast<double>(duration_buckets::lower((i + 1) * buckets_in_one));
    value = low + (high - low) * std::clamp((wanted - below) / n, 0.0, 1.0);
    below += n;
    if (below >= wanted) break;
  }
  return longest != 0 ? std::min(value, static_cast<double>(longest)) : value;
}

/// The histogram in parts of four buckets each. The last bucket has the longer durations, too.
std::vector<duration_part> histogram_of(std::span<const std::uint64_t> sizes, std::uint32_t buckets_in_one,
                                        double seconds_a_tick, double longest) {
  constexpr std::uint32_t joined = 4;
  const auto begin_of = [&](std::uint32_t bucket) {
    return static_cast<double>(duration_buckets::lower(bucket)) * seconds_a_tick;
  };
  std::vector<duration_part> parts;
  for (std::uint32_t first = 0; first < duration_buckets::count; first += joined) {
    std::uint64_t n = 0;
    for (std::uint32_t i = first / buckets_in_one;
         i < std::min<std::size_t>((first + joined) / buckets_in_one, sizes.size()); i++)
      n += sizes[i];
    if (n != 0) parts.push_back({begin_of(first), begin_of(first + joined), n});
    if (n != 0 && first + joined == duration_buckets::count) parts.back().to = std::max(parts.back().to, longest);
  }
  return parts;
}

/// The objects that one row of the report sums up.
struct group {
  kind what = kind::none;
  std::string name, module;
  bool is_static = false, by_init = false, embedded = false;
  std::vector<std::uint32_t> objects;
  std::uint32_t place = 0;                      ///< index + 1 of the chain
  std::vector<std::uint32_t> waiters, holders;  ///< indices of charges
};

class reader {
 public:
  reader(contract::view record, const time_scale& time, symbols& names, const access::seen_ids* ids,
         const waiting_windows* windows)
      : record_(record),
        time_(time),
        room_(record_.room()),
        namer_(record, names),
        ids_(record, ids),
        sampled_(windows) {}

  report read(std::size_t most_rows);

 private:
  std::uint32_t taken(const contract::word32& n, std::uint32_t room) const { return std::min(get(n), room); }
  std::uint64_t begin_of(std::uint32_t process) const;
  std::uint64_t end_of(std::uint32_t process) const;
  std::uint64_t end_of_thread(std::uint32_t thread) const;
  kind kind_of(std::uint32_t object) const;

  void read_threads();
  void group_objects();
  void group_charges();
  group& group_of(kind what, const identity& id, bool is_static);
  group* group_of_charge(std::uint64_t key);
  row read_row(group& g);
  tally tally_of(std::uint32_t object);
  void add_unfinished(tally& t, std::uint32_t object, const contract::object& o, std::uint64_t end);
  void add_detail(tally& t, const contract::detail& d);
  static void add_sides(tally& t, const contract::object& o, const contract::detail* d);
  void add_holding(tally& t, const contract::object& o, std::uint64_t begin, std::uint64_t end);
  const contract::detail* detail_of(std::uint32_t object) const;
  lock_side side_of(const side_sum& s) const;
  counts as_counts(const tally& t, kind what) const;
  std::optional<admission> order_of(std::uint32_t object) const;
  std::vector<charged_stack> stacks_of(const std::vector<std::uint32_t>& charges);
  void add_stacks(row& r, const group& g);
  static void name_by_use(row& r);
  void remark_on_room();
  void add_windows(const std::vector<const group*>& of_rows);
  double seconds(std::uint64_t ticks) const { return time_.seconds(ticks); }

  contract::view record_;
  const time_scale& time_;
  const contract::capacities& room_;
  namer namer_;
  id_names ids_;
  const waiting_windows* sampled_;  ///< null: none
  report report_;
  std::map<std::tuple<kind, bool, std::string>, group> groups_;
  std::unordered_map<std::uint32_t, group*> of_object_;
  std::unordered_map<std::uint32_t, symbols::static_object> statics_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> waiting_;  ///< threads that still wait, by object
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> windows_;  ///< windows, by object
  std::uint64_t hidden_ = 0;                                               ///< threads that may have ended
  std::uint64_t unfinished_waits_[contract::kinds] = {};                   ///< ticks, by index_of()
};

std::uint64_t reader::begin_of(std::uint32_t process) const {
  const std::uint64_t began = process < room_.processes ? get(record_.process(process).began) : 0;
  return std::clamp(began, time_.begin, time_.end);
}

std::uint64_t reader::end_of(std::uint32_t process) const {
  const std::uint64_t ended = process < room_.processes ? get(record_.process(process).ended) : 0;
  return ended == 0 ? time_.end : std::clamp(ended, time_.begin, time_.end);
}

/// The time at which a thread ended; at the latest the end of its process. If the record does not show whether the
/// thread lived on, the time of its last wait is used.
std::uint64_t reader::end_of_thread(std::uint32_t thread) const {
  const contract::thread_slot& t = record_.thread(thread);
  const std::uint64_t end = end_of(get(t.process));
  if (get(t.over) != 0) return std::clamp(get(t.last), time_.begin, end);
  const bool is_known_to_live = !ids_.is_hidden(thread) || get(t.waits_for) != 0;
  return is_known_to_live ? end : std::clamp(get(t.last), time_.begin, end);
}

kind reader::kind_of(std::uint32_t object) const {
  const std::uint32_t k = get(record_.object(object).depth_and_kind) & 0xff;
  return k <= contract::kinds ? kind(k) : kind::none;
}

void reader::read_threads() {
  const std::uint32_t processes = taken(record_.head().processes, room_.processes);
  for (std::uint32_t i = 0; i < processes; i++)
    if (get(record_.process(i).pid) != 0) report_.processes++;
  if (processes != 0) {
    const contract::process_slot& first = record_.process(0);
    report_.pid = ids_.process(0);
    report_.lock.assign(first.lock, std::find(first.lock, std::end(first.lock), '\0'));
  }
  const std::uint32_t threads = taken(record_.head().threads, room_.threads);
  for (std::uint32_t i = 0; i < threads; i++) {
    const contract::thread_slot& t = record_.thread(i);
    if (get(t.tid) == 0) continue;
    report_.threads++;
    if (get(t.over) == 0 && ids_.is_hidden(i)) hidden_++;
    const std::uint64_t end = end_of_thread(i), first = std::clamp(get(t.first), time_.begin, end);
    report_.thread_seconds += seconds(end - first);
    for (int k = 0; k < contract::kinds; k++) report_.waited[k] += seconds(get(t.waited[k]));
    const std::uint32_t object = get(t.waits_for);
    if (object != 0 && object <= room_.objects) waiting_[object - 1].push_back(i);
  }
  const contract::header& head = record_.head();
  report_.threads += static_cast<unsigned>(get(head.retired));
  report_.thread_seconds += seconds(get(head.retired_lives));
  for (int k = 0; k < contract::kinds; k++) report_.waited[k] += seconds(get(head.retired_waited[k]));
  const std::uint32_t windows = taken(head.windows, room_.windows);
  for (std::uint32_t i = 0; i < windows; i++)
    if (const std::uint32_t object = get(record_.window(i).object); object != 0) windows_[object - 1].push_back(i);
}

group& reader::group_of(kind what, const identity& id, bool is_static) {
  group& g = groups_[{what, is_static, id.key}];
  if (g.what == kind::none) {
    g.what = what;
    g.name = id.name;
    g.module = id.module;
    g.is_static = is_static;
  }
  return g;
}

void reader::group_objects() {
  // The first pass collects the static objects: their number in one symbol decides whether they form one row.
  std::map<std::tuple<kind, std::string, std::string>, std::set<std::uint64_t>> in_symbol;
  std::vector<std::uint32_t> used;
  for (std::uint32_t i = 0; i < room_.objects; i++)
    if (get(record_.object(i).key) > contract::object::vacant && kind_of(i) != kind::none) used.push_back(i);
  namer_.prepare(used);
  for (const std::uint32_t i : used) {
    const contract::object& o = record_.object(i);
    if (auto s = namer_.static_object(o)) {
      if (!s->symbol.empty()) in_symbol[{kind_of(i), s->module, s->symbol}].insert(s->offset);
      statics_.emplace(i, std::move(*s));
    }
  }
  for (const std::uint32_t i : used) {
    const contract::object& o = record_.object(i);
    const std::uint32_t place = get(o.place), flags = get(o.flags);
    identity id;
    const auto at = statics_.find(i);
    const bool is_static = at != statics_.end() || (flags & contract::is_static) != 0;
    if (at != statics_.end()) {
      const symbols::static_object& s = at->second;
      const bool is_table =
          !s.symbol.empty() && in_symbol[{kind_of(i), s.module, s.symbol}].size() >= symbol_becomes_table;
      id.name = is_table ? short_name(s.symbol) + "[]" : namer::static_name(s);
      id.key = s.symbol.empty() ? fmt::format("{}+{:#x}", s.module, s.module_offset)
                                : fmt::format("{}\n{}+{}", s.module, s.symbol, is_table ? "[]" : hexadecimal(s.offset));
      id.module = s.module;
    } else if (!is_static && place != 0) {
      id = namer_.place(place);
    } else {
      const std::uint64_t key = get(o.key);
      id.name = hexadecimal(contract::address_of(key));
      id.key = fmt::format("{:#x}", key);
    }
    group& g = group_of(kind_of(i), id, is_static);
    g.objects.push_back(i);
    g.by_init = g.by_init || (flags & contract::from_init) != 0;
    g.embedded = g.embedded || (flags & contract::embedded) != 0;
    if (!is_static && g.place == 0) g.place = place;
    of_object_[i] = &g;
  }
}

group* reader::group_of_charge(std::uint64_t key) {
  const kind what = contract::kind_of(key);
  if (what == kind::none || int(what) > contract::kinds) return nullptr;
  const std::uint32_t whom = contract::whom_of(key);
  if (whom < contract::of_place) {
    const auto at = of_object_.find(whom);
    return at != of_object_.end() && at->second->what == what ? at->second : nullptr;
  }
  const std::uint32_t place = whom - contract::of_place + 1;
  group& g = group_of(what, namer_.place(place), false);
  if (g.place == 0) g.place = place;
  return &g;
}

void reader::group_charges() {
  for (std::uint32_t i = 0; i < room_.charges; i++) {
    const contract::charge& c = record_.charge(i);
    const std::uint64_t key = get(c.key);
    if (key == 0) continue;
    switch (contract::what_of(key)) {
      case contract::charged::waiter:
        if (group* g = group_of_charge(key)) g->waiters.push_back(i);
        break;
      case contract::charged::holder:
        if (group* g = group_of_charge(key)) g->holders.push_back(i);
        break;
      default:
        break;
    }
  }
}

/// Adds waits that had not ended at `end` to the sums, as if they had ended at that time.
void reader::add_unfinished(tally& t, std::uint32_t object, const contract::object& o, std::uint64_t end) {
  const kind what = kind_of(object);
  const std::uint64_t word = get(o.waiting), n = word & contract::waiting_count;
  const auto at = waiting_.find(object);
  const std::size_t seen = at == waiting_.end() ? 0 : at->second.size();
  std::uint64_t sum = 0;
  if (at != waiting_.end()) {
    if (t.wait_sizes.empty()) t.wait_sizes.resize(duration_buckets::count);
    for (const std::uint32_t i : at->second) {
      const contract::thread_slot& thread = record_.thread(i);
      const std::uint64_t until = end_of_thread(i);
      const std::uint64_t since = std::clamp(get(thread.since), time_.begin, until);
      const std::uint64_t waited = until - since;
      sum += waited;
      t.longest = std::max(t.longest, waited);
      t.wait_sizes[duration_buckets::of(waited)]++;
      if (what != kind::barrier) t.threads[i].waits++;
      t.threads[i].ticks += waited;
    }
  }
  if (n > seen) {  // the threads of some waits are not known
    const std::uint64_t all = contract::waited_so_far(word, end);
    if (all <= n * (end - std::min(end, time_.begin))) sum = std::max(sum, all);
  }
  const std::uint64_t waiters = std::max<std::uint64_t>(n, seen);
  t.still_waiting = static_cast<std::uint32_t>(waiters);
  t.contended += waiters;
  t.waits += waiters;
  t.waited += sum;
  t.most_waiting = std::max(t.most_waiting, t.still_waiting);
  unfinished_waits_[contract::index_of(what)] += sum;
}

/// The object's detail; null if it has none.
const contract::detail* reader::detail_of(std::uint32_t object) const {
  const std::uint32_t index = get(record_.object(object).detail);
  if (index == 0 || index > room_.details) return nullptr;
  const contract::detail& d = record_.detail(index - 1);
  return get(d.object) == object + 1 ? &d : nullptr;
}

void reader::add_detail(tally& t, const contract::detail& d) {
  t.wait_sizes.resize(duration_buckets::count);
  for (std::size_t i = 0; i < t.wait_sizes.size(); i++) t.wait_sizes[i] = get(d.waits[i]);
  t.hold_sizes.resize(duration_buckets::count / 2);
  for (std::size_t i = 0; i < t.hold_sizes.size(); i++) t.hold_sizes[i] = get(d.holds[i]);
  t.longest_hold = get(d.longest_hold);
  t.yielding = get(d.yielding_holds);
  t.failed_tries += get(d.failed_tries);
  t.tries = get(d.tries);
  t.tried = get(d.tried);
  t.longest_try = get(d.longest_try);
  // Mutexes of types that libusher.so leaves to the C library have none of these counts.
  const ways_of_waiting ways{get(d.polls), get(d.sleeps), get(d.grants)};
  if (ways.polls + ways.sleeps + ways.grants != 0) t.ways = ways;
  t.more_threads = get(d.many) != 0;
  for (const auto& thread : d.threads) {
    const std::uint32_t who = get(thread.index);
    if (who == 0 || who > room_.threads) continue;
    t.threads[who - 1].waits += get(thread.waits);
    t.threads[who - 1].ticks += get(thread.waited);
  }
}

/// Adds the two sides of a read-write lock. Its words may be from different moments, so differences are limited to 0.
void reader::add_sides(tally& t, const contract::object& o, const contract::detail* d) {
  const auto rest = [](std::uint64_t all, std::uint64_t part) { return all - std::min(all, part); };
  t.reading.acquisitions = get(o.rwlock.reads);
  t.reading.contended = get(o.rwlock.contended_reads);
  t.reading.waited = get(o.rwlock.waited_to_read);
  t.writing.acquisitions = rest(get(o.acquisitions), t.reading.acquisitions);
  t.writing.contended = rest(get(o.contended), t.reading.contended);
  t.writing.waited = rest(get(o.waited), t.reading.waited);
  const std::uint64_t longest = get(o.longest);
  if (d == nullptr) {
    t.reading.longest_of_both = t.writing.longest_of_both = longest;
    return;
  }
  side_sum* const sides[] = {&t.reading, &t.writing};
  for (unsigned i = 0; i < std::size(sides); i++) {
    sides[i]->behind_writer = get(d->behind_writer[i]);
    sides[i]->behind_readers = get(d->behind_readers[i]);
  }
  t.reading.longest = get(d->longest_read_wait);
  (longest > t.reading.longest ? t.writing.longest : t.writing.longest_of_both) = longest;
}

void reader::add_holding(tally& t, const contract::object& o, std::uint64_t begin, std::uint64_t end) {
  t.held = get(o.held);
  t.holds = get(o.holds);
  const bool is_sum = (get(o.flags) & contract::is_sum) != 0;  // of objects that no longer exist
  const std::uint64_t begun = get(o.hold_begin);
  const std::uint64_t hold_begin = is_sum || begun == contract::object::not_timed ? 0 : begun;
  const bool is_open = get(o.owner) != 0 && hold_begin != 0 && hold_begin <= end;
  const std::uint64_t open = is_open ? end - std::max(hold_begin, begin) : 0;
  t.longest_hold = std::max(t.longest_hold, open);
  const bool is_rwlock = kind(get(o.depth_and_kind) & 0xff) == kind::rwlock;  // each hold to write is timed
  const std::uint64_t ended = t.acquisitions - std::min<std::uint64_t>(t.acquisitions, is_open ? 1 : 0);
  t.holding_known = t.holds != 0 || is_open;
  t.holding_exact = is_rwlock || record_.head().hold_times != 0 || (ended <= always_timed && t.holds >= ended);
  t.held_in_all = seconds(t.held);
  if (!t.holding_exact && t.holds != 0) t.held_in_all *= static_cast<double>(ended) / static_cast<double>(t.holds);
  t.held_in_all += seconds(open);
  if (is_open) {
    t.held += open;
    t.holds++;
    if (!t.hold_sizes.empty()) t.hold_sizes[duration_buckets::of(open) / 2]++;
  }
  const double life = seconds(end - begin);
  // For destroyed objects: the share of held time of the object that was held longest.
  const double held = is_sum ? seconds(get(o.longest_in_all)) : t.held_in_all;
  if (t.holding_known && life > 0 && (!is_sum || held > 0)) t.held_share = std::min(1.0, held / life);
}

tally reader::tally_of(std::uint32_t object) {
  const contract::object& o = record_.object(object);
  const kind what = kind_of(object);
  const std::uint32_t process = contract::process_of(get(o.key));
  const std::uint64_t begin = begin_of(process), end = std::max(begin, end_of(process));
  tally t;
  t.acquisitions = get(o.acquisitions);
  t.contended = get(o.contended);
  t.waited = get(o.waited);
  t.longest = get(o.longest);
  t.most_waiting = get(o.most_waiting);
  t.timeouts = get(o.timeouts);
  t.waits = t.contended + (what == kind::condition ? 0 : t.timeouts);
  t.hidden = (get(o.flags) & contract::any_wait_hidden) != 0;
  // The entry's kind was read once. It determines the row's figures and the meaning of the entry's words, which then
  // agree even if the program overwrites the kind.
  const bool is_held_by_one = contract::has_holds(what);
  if (is_held_by_one) {
    t.failed_tries = get(o.mutex.failed_tries);
    t.timed = get(o.mutex.timed);
  } else if (what == kind::condition) {
    t.signals = get(o.condition.signals);
    t.unheard = get(o.condition.unheard);
    t.herd = get(o.condition.herd);
    t.woken = t.contended;
  } else if (what == kind::semaphore) {
    t.signals = get(o.semaphore.posts);
    t.failed_tries = get(o.semaphore.failed_tries);
  } else if (what == kind::rwlock) {
    t.most_readers = get(o.rwlock.most_readers);
  }
  const contract::detail* const d = detail_of(object);
  if (d != nullptr) add_detail(t, *d);
  if (what == kind::rwlock) {
    add_sides(t, o, d);
    t.timed = get(o.holds);
  }
  if (what != kind::condition) add_unfinished(t, object, o, end);
  if (what == kind::condition) t.still_waiting = std::uint32_t(get(o.waiting) & contract::waiting_count);
  if (is_held_by_one || what == kind::rwlock) add_holding(t, o, begin, end);
  return t;
}

lock_side reader::side_of(const side_sum& s) const {
  return {s.acquisitions,           s.contended,
          seconds(s.waited),        s.longest >= s.longest_of_both ? seconds(s.longest) : 0,
          seconds(s.behind_writer), seconds(s.behind_readers)};
}

counts reader::as_counts(const tally& t, kind what) const {
  counts c;
  c.acquisitions = t.acquisitions;
  c.contended = t.contended;
  c.waiting.count = t.waits;
  c.waiting.total = seconds(t.waited);
  c.waiting.longest = seconds(t.longest);
  const auto in_seconds = [this](std::optional<double> ticks) {
    return ticks ? std::optional(*ticks * time_.seconds_a_tick) : std::nullopt;
  };
  c.waiting.median = in_seconds(percentile_of(t.wait_sizes, 1, 0.5, t.longest));
  c.waiting.p99 = in_seconds(percentile_of(t.wait_sizes, 1, 0.99, t.longest));
  if (t.holding_known) {
    c.holding.count = t.holds;
    c.holding.total = t.held_in_all;
    c.holding.longest = seconds(t.longest_hold);
    c.holding.median = in_seconds(percentile_of(t.hold_sizes, 2, 0.5, t.longest_hold));
    c.holding.p99 = in_seconds(percentile_of(t.hold_sizes, 2, 0.99, t.longest_hold));
    c.holding_is_exact = t.holding_exact;
    c.holds_timed = t.timed;
    if (t.held_share) c.held_share = *t.held_share;
    const std::uint64_t sized = std::accumulate(t.hold_sizes.begin(), t.hold_sizes.end(), std::uint64_t{0});
    if (sized != 0) c.yielding_share = std::min(1.0, static_cast<double>(t.yielding) / static_cast<double>(sized));
  }
  static_cast<plain_counts&>(c) = t;
  c.tries = {t.tries, seconds(t.tried), seconds(t.longest_try)};
  if (what == kind::rwlock) c.sides = {side_of(t.reading), side_of(t.writing), t.most_readers};
  c.waiting_is_hidden = t.hidden;
  c.ways = t.ways;
  for (const auto& [index, sum] : t.threads) c.threads.push_back({ids_.thread(index), sum.waits, seconds(sum.ticks)});
  std::sort(c.threads.begin(), c.threads.end(),
            [](const auto& a, const auto& b) { return std::tie(b.waited, a.tid) < std::tie(a.waited, b.tid); });
  c.has_more_threads = t.more_threads;
  // For a barrier's threads, `waits` is how often each came last. An overflowed list has mixed several threads.
  if (what == kind::barrier && !t.more_threads) {
    const auto last = std::max_element(c.threads.begin(), c.threads.end(),
                                       [](const auto& a, const auto& b) { return a.waits < b.waits; });
    if (last != c.threads.end() && last->waits != 0 && last->tid != shown_id{}) c.last = *last;
  }
  return c;
}

std::optional<admission> reader::order_of(std::uint32_t object) const {
  const auto at = windows_.find(object);
  if (at == windows_.end()) return std::nullopt;
  admission a;
  double changes = 0, pairs = 0, working_set = 0;
  std::vector<std::uint64_t> reacquire;
  std::map<std::uint16_t, std::uint64_t> shares;
  for (const std::uint32_t i : at->second) {
    const contract::window& w = record_.window(i);
    const std::uint32_t n = std::min(get(w.count), contract::window::length);
    if (n < 2) continue;
    std::vector<std::uint16_t> owners;
    for (std::uint32_t j = 0; j < n; j++) owners.push_back(get(w.owners[j]));
    for (std::uint32_t j = 1; j < n; j++) changes += owners[j] != owners[j - 1] ? 1 : 0;
    pairs += n - 1;
    for (const std::uint16_t who : owners) shares[who]++;
    working_set += support::working_set(owners) * n;
    reacquire.push_back(static_cast<std::uint64_t>(support::median_reacquire(owners)));
    a.acquisitions += n;
    a.windows++;
  }
  if (a.windows == 0) return std::nullopt;
  a.owner_changes = changes / pairs;
  a.lwss = working_set / static_cast<double>(a.acquisitions);
  a.mttr = static_cast<double>(support::percentile(reacquire, 0.5));
  std::vector<std::uint64_t> each;
  for (const auto& [who, share] : shares) each.push_back(share);
  a.gini = support::gini(each);
  a.rstddev = support::relative_deviation(each);
  return a;
}

bool has_seen_anything(const tally& t) {
  return t.acquisitions != 0 || t.waits != 0 || t.signals != 0 || t.failed_tries != 0 || t.timeouts != 0 ||
         t.still_waiting != 0;
}

/// The order of rows in the report: by waiting time, the longest first; then by acquisitions and name.
template <class Row>
bool comes_before(const Row& a, const Row& b) {
  return std::tie(b.seen.waiting.total, b.seen.acquisitions, a.name) <
         std::tie(a.seen.waiting.total, a.seen.acquisitions, b.name);
}

row reader::read_row(group& g) {
  row r;
  r.what = g.what;
  r.name = g.name;
  r.by_init = g.by_init && !g.is_static;
  r.embedded = g.embedded;
  if (g.is_static) r.module = g.module;
  tally all;
  // If the first calls of two threads on an object coincide, they may make two entries of the record. These are merged
  // here.
  std::map<std::uint64_t, std::vector<std::uint32_t>> same;
  for (const std::uint32_t i : g.objects) {
    const contract::object& o = record_.object(i);
    if ((get(o.flags) & contract::is_sum) == 0) {
      same[get(o.key)].push_back(i);
    } else {
      r.gone += get(o.died);
      all.add(tally_of(i));
    }
  }
  r.objects = same.size() + r.gone;
  std::uint64_t most_contended = 0;
  for (const auto& [key, entries] : same) {
    tally one;
    object_row o;
    for (const std::uint32_t i : entries) {
      one.add(tally_of(i));
      if (!o.order) o.order = order_of(i);
    }
    all.add(one);
    o.address = contract::address_of(key);
    const std::uint32_t process = contract::process_of(key);
    o.pid = ids_.process(process);
    const auto at = statics_.find(entries.front());
    o.name = at != statics_.end() ? namer::static_name(at->second) : hexadecimal(o.address);
    o.seen = as_counts(one, g.what);
    if (o.order && (!r.order || o.seen.contended > most_contended)) {
      r.order = o.order;
      most_contended = o.seen.contended;
    }
    if (has_seen_anything(one)) r.each.push_back(std::move(o));
  }
  r.seen = as_counts(all, g.what);
  r.seen.waiting.histogram = histogram_of(all.wait_sizes, 1, time_.seconds_a_tick, r.seen.waiting.longest);
  if (all.holding_known)
    r.seen.holding.histogram = histogram_of(all.hold_sizes, 2, time_.seconds_a_tick, r.seen.holding.longest);
  std::sort(r.each.begin(), r.each.end(), comes_before<object_row>);
  const auto quiet =
      std::partition_point(r.each.begin(), r.each.end(), [](const object_row& o) { return o.seen.waiting.total > 0; });
  if (static_cast<std::size_t>(r.each.end() - quiet) > most_quiet_objects)
    r.each.erase(quiet + most_quiet_objects, r.each.end());
  return r;
}

/// The stacks of these charges. Equal stacks of several processes are merged.
std::vector<charged_stack> reader::stacks_of(const std::vector<std::uint32_t>& charges) {
  std::map<std::uint32_t, std::pair<std::uint64_t, std::uint64_t>> by_chain;
  for (const std::uint32_t i : charges) {
    const contract::charge& c = record_.charge(i);
    auto& [count, ticks] = by_chain[contract::chain_of(get(c.key))];
    count += get(c.count);
    ticks += get(c.ticks);
  }
  std::map<std::string, charged_stack> by_frames;
  for (const auto& [chain, sum] : by_chain) {
    stack s = namer_.whole(chain);
    if (s.frames.empty()) continue;
    std::string key;
    for (const frame& f : s.frames)
      key += fmt::format("{}\n{}:{}\n{}+{:#x}\n", f.function, f.file, f.line, f.module,
                         f.module.empty() ? f.address : f.offset);
    charged_stack& to = by_frames[key];
    if (to.where.frames.empty()) to.where = std::move(s);
    to.count += sum.first;
    to.waited += seconds(sum.second);
  }
  std::vector<charged_stack> all;
  for (auto& [key, s] : by_frames) all.push_back(std::move(s));
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tie(b.waited, b.count) < std::tie(a.waited, a.count);
  });
  return all;
}

void reader::add_stacks(row& r, const group& g) {
  if (!g.is_static && g.place != 0) r.place = namer_.whole(g.place - 1);
  r.waiters = stacks_of(g.waiters);
  r.holders = stacks_of(g.holders);
  if (!g.is_static && r.what != kind::join) name_by_use(r);  // a join's place is the object itself
}

bool is_among(const frame& function, const std::vector<charged_stack>& stacks) {
  return std::any_of(stacks.begin(), stacks.end(), [&](const charged_stack& s) {
    return std::any_of(s.where.frames.begin(), s.where.frames.end(),
                       [&](const frame& f) { return f.function == function.function && f.module == function.module; });
  });
}

/// Names a row after the line that waits most, if the place of its first lock call is not among the stacks that wait
/// and hold: that call was perhaps for an earlier object at the address. If the memory of an object is freed without
/// pthread_mutex_destroy, as that of a std::mutex, its entry in the record remains. Initialised objects keep their
/// name: initialisation makes a new entry, often at a place without other uses.
void reader::name_by_use(row& r) {
  const frame* const first = r.place.place();
  if (r.by_init || first == nullptr || first->function.empty()) return;
  if (is_among(*first, r.waiters) || is_among(*first, r.holders)) return;
  std::map<std::string, std::pair<std::string, double>> lines;  // by key: name, waited
  for (const charged_stack& s : !r.waiters.empty() ? r.waiters : r.holders) {
    const frame* const f = s.where.place();
    identity id = f != nullptr ? namer::of_frame(*f) : identity{};
    if (id.name.empty()) continue;
    auto& line = lines[id.key];
    line.first = std::move(id.name);
    line.second += s.waited;
  }
  const auto most = std::max_element(lines.begin(), lines.end(),
                                     [](const auto& a, const auto& b) { return a.second.second < b.second.second; });
  if (most == lines.end()) return;
  r.first_locked = std::exchange(r.name, most->second.first);
}

void reader::remark_on_room() {
  const contract::header& h = record_.head();
  const auto say = [this](std::string text) { report_.remarks.push_back(std::move(text)); };
  const std::uint64_t twice = std::uint64_t{room_.objects} * 2;
  const std::string more = fmt::format("--objects {} makes room", twice);
  report_.not_seen.calls = get(h.dropped.objects) + get(h.calls);
  if (const std::uint64_t n = get(h.dropped.objects); n != 0) {
    report_.not_seen.objects = twice;
    say(fmt::format("{} on objects that found no room are not counted: {}.", with_noun(n, "call"), more));
  }
  if (const std::uint64_t n = get(h.dropped.details); n != 0)
    say(fmt::format("{} found no room for medians and threads: {}.", with_noun(n, "contended object"), more));
  if (hidden_ != 0)
    say(fmt::format(
        "{}: /proc does not show whether they lived on; their time counts up to their last wait. Root sees them.",
        with_noun(hidden_, "thread")));
  const std::uint64_t stacks = get(h.dropped.chains) + get(h.dropped.charges);
  if (stacks != 0) say(fmt::format("{} found no room and are missing: {}.", with_noun(stacks, "stack"), more));
  const std::uint64_t slots = get(h.dropped.threads) + get(h.dropped.processes);
  const std::uint64_t calls = get(h.calls);
  if (slots != 0 || calls != 0)
    say(fmt::format(
        "{} of threads and processes beyond the first {} and {} are not counted; no option makes more room.",
        calls != 0 ? with_noun(calls, "call") : "Calls", exact_count(room_.threads), exact_count(room_.processes)));
  if (const std::uint64_t n = get(h.dropped.modules); n != 0)
    say(fmt::format("{} found no room: some addresses have no name.", with_noun(n, "mapping")));
}

/// Adds the windows of the hottest rows. `of_rows`: each row's group, in the order of the report's rows.
void reader::add_windows(const std::vector<const group*>& of_rows) {
  if (sampled_ == nullptr || sampled_->ends.empty()) return;
  const std::size_t windows = sampled_->ends.size();
  recorded_windows& all = report_.windows.emplace();
  for (const std::uint64_t end : sampled_->ends) all.ends.push_back(seconds(end));
  for (const std::uint64_t ticks : sampled_->threads) all.thread_seconds.push_back(seconds(ticks));
  std::unordered_map<const group*, row*> hottest;
  for (std::size_t i = 0; i < of_rows.size() && i < most_rows_with_windows; i++) {
    if (report_.rows[i].seen.waiting.total <= 0) break;
    hottest[of_rows[i]] = &report_.rows[i];
    report_.rows[i].windows.assign(windows, 0);
  }
  for (const waiting_windows::series& s : sampled_->all) {
    const auto at = hottest.find(group_of_charge(contract::charge_key(contract::charged::waiter, s.what, s.whom, 0)));
    if (at == hottest.end()) continue;
    for (std::size_t i = 0; i < std::min(windows, s.waited.size()); i++) at->second->windows[i] += seconds(s.waited[i]);
  }
}

report reader::read(std::size_t most_rows) {
  report_.seconds = seconds(time_.end - std::min(time_.end, time_.begin));
  read_threads();
  group_objects();
  group_charges();
  std::vector<std::pair<row, const group*>> rows;
  std::uint64_t still = 0;
  for (auto& [key, g] : groups_) {
    row r = read_row(g);
    const counts& c = r.seen;
    if (r.what != kind::condition) still += c.still_waiting;
    if (c.acquisitions == 0 && c.waiting.count == 0 && c.signals == 0 && c.failed_tries == 0 && c.timeouts == 0 &&
        c.still_waiting == 0)
      continue;
    rows.emplace_back(std::move(r), &g);
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return comes_before(a.first, b.first); });
  for (int k = 0; k < contract::kinds; k++) {  // waits of threads without a slot are counted only in the rows
    double of_rows = 0;
    for (const auto& [r, g] : rows)
      if (int(r.what) == k + 1) of_rows += r.seen.waiting.total;
    report_.waited[k] = std::max(report_.waited[k] + seconds(unfinished_waits_[k]), of_rows);
  }
  std::vector<const group*> of_rows;
  for (std::size_t i = 0; i < rows.size(); i++) {
    if (i < most_rows) add_stacks(rows[i].first, *rows[i].second);
    of_rows.push_back(rows[i].second);
    report_.rows.push_back(std::move(rows[i].first));
  }
  add_windows(of_rows);
  if (still != 0)
    report_.remarks.push_back(
        fmt::format("{} still waited at the end; counted up to then.", with_noun(still, "thread")));
  remark_on_room();
  return std::move(report_);
}

}  // namespace

report read_report(contract::view record, const time_scale& time, symbols& names, std::size_t most_rows,
                   const access::seen_ids* ids, const waiting_windows* windows) {
  return reader(record, time, names, ids, windows).read(most_rows);
}

}  // namespace usher::reader
