#include "lab/sim/access.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "lab/sim/trace.hpp"

namespace usher::sim {
namespace {

/// The number of retries of a failed compare-and-swap that may find the line still in the core's cache. The first retry
/// expects the value that the failed attempt found on arrival. Accesses that arrived later may have changed the word
/// since, so the first retry may fail, too, and a second one may hit.
constexpr unsigned most_retries = 2;

}  // namespace

/// Returns a random latency whose mean is `one_way`: a fixed part and an exponential tail.
cycles access::noisy(cycles one_way) {
  if (machine_.jitter == 0 || one_way == 0) return one_way;
  const cycles mean = one_way * machine_.jitter / 1024;
  return one_way - std::min(one_way, mean) + engine_.chance().exponential(mean);
}

/// Returns the latency of an access if accesses are ordered by departure: the access is served at once, and the random
/// part of its latency delays only the answer. The mean latency is therefore longer than `one_way`.
access::journey access::by_departure(cycles one_way) {
  return {0, std::max(noisy(one_way), one_way) - one_way};
}

template <bool Traced>
bool access::load_as(const void* word, unsigned size) {
  simulated_thread& t = engine_.me();
  engine_.sync();
  counts_.accesses++;
  const cycles begun = t.now;
  if (t.stores.kept() != 0)
    if (const buffered_store* const mine = t.stores.youngest(word, size, t.now);
        mine != nullptr && forwards(*mine, word, size)) {
      t.now += pipelines_.paced(t.core, machine_.hit);
      if constexpr (Traced)
        trace_->reads_forwarded({t.id, word, size, machine_.hit}, begun, mine->value, trace::supply::from::none);
      t.forwarded = mine->value;
      return mine->at != buffered_store::step::written;
    }
  line& l = coherence_.at(word);
  if (t.again.until != 0) [[unlikely]] {
    if (keeps_for_retry(t, word, l)) {
      t.now += pipelines_.paced(t.core, machine_.hit);
      t.forwarded = t.again.found;
      if constexpr (Traced)
        trace_->reads_forwarded({t.id, word, size, machine_.hit}, begun, t.forwarded, trace::supply::from::attempt);
      return true;
    }
    t.again.until = 0;
  }
  if (coherence::has(l, t.core)) {
    t.now = coherence_.read(l, t.core, t.now) - machine_.hit + pipelines_.paced(t.core, machine_.hit);
    if constexpr (Traced) {
      trace_->at_line(l, t.core, begun);
      trace_->reads({t.id, word, size, t.now - begun});
    }
    return false;
  }
  const auto [there, late] = travel(l, t.core, false);
  if (there != 0) {
    t.now += noisy(there);
    engine_.sync();
  }
  if constexpr (Traced) trace_->at_line(l, t.core, t.now);
  t.now = std::max(t.now, coherence_.read(l, t.core, t.now - there) + late);
  t.fetched = &l;
  t.fetched_at = t.now;
  if constexpr (Traced) trace_->reads({t.id, word, size, t.now - begun});
  return false;
}

/// Returns whether the core requested ownership of the line together with the load that fetched it. It does so if this
/// store follows that load within the core's reorder window, and if no core except the line's supplier has a copy:
/// further copies would have to be invalidated.
bool access::was_asked_for_with_load(const simulated_thread& t, const line& l) const {
  constexpr cycles window = 100;  // the reorder window of a core: some 200 instructions
  return t.fetched == &l && t.now - t.fetched_at <= window && l.owner == line::nobody &&
         l.fetched_by == std::int32_t(t.core) && coherence::copies(l) <= 2 && !t.stores.pending();
}

/// Loads words on different lines, to which the thread will store at once. The loads do not depend on each other, so
/// that their misses overlap: all requests depart now, and the thread continues when the last line has arrived.
void access::load_to_store(std::span<const void* const> words, unsigned size) {
  struct request {
    const void* word;
    journey way;
    cycles arrives;
  };
  simulated_thread& t = engine_.me();
  for (const void* const word : words)
    if (t.stores.kept() != 0 && t.stores.youngest(word, size, t.now) != nullptr) drain();
  engine_.sync();
  t.again.until = 0;
  counts_.accesses += words.size();
  const cycles begun = t.now;
  cycles done = begun;
  std::vector<request> missing;
  for (const void* const word : words) {
    line& l = coherence_.at(word);
    const bool has = coherence::has(l, t.core);
    const journey way = has ? journey{0, 0} : travel(l, t.core, false);
    missing.push_back({word, way, begun + noisy(way.there)});
  }
  std::ranges::stable_sort(missing, {}, &request::arrives);
  for (const request& r : missing) {
    t.now = r.arrives;
    engine_.sync();
    line& l = coherence_.at(r.word);
    if (trace_ != nullptr) [[unlikely]]
      trace_->at_line(l, t.core, t.now);
    const cycles here = std::max(t.now, coherence_.read(l, t.core, t.now - r.way.there) + r.way.late);
    t.fetched = &l;
    t.fetched_at = t.now;
    if (machine_.load_then_store_at_once && was_asked_for_with_load(t, l)) {
      coherence_.upgrade(l, t.core, here);
      announce(l, here);
    }
    if (trace_ != nullptr) [[unlikely]]
      trace_->reads({t.id, r.word, size, here - begun});
    done = std::max(done, here);
  }
  t.now = done;
}

template <bool Traced>
bool access::store_as(void* word, std::uint64_t value, unsigned size) {
  simulated_thread& t = engine_.me();
  if (t.again.word == word) t.again.until = 0;
  make_room_for_store();
  engine_.sync();
  counts_.accesses++;
  counts_.writes++;
  line& l = coherence_.at(word);
  if (machine_.load_then_store_at_once && was_asked_for_with_load(t, l)) [[unlikely]] {
    coherence_.upgrade(l, t.core, t.now);
    announce(l, t.now);
  }
  if (l.owner == std::int32_t(t.core) && !t.stores.pending()) {
    const auto w = coherence_.write(l, t.core, std::max(t.now, t.stores.done), false);
    if constexpr (Traced) {
      trace_->at_line(l, t.core, t.now);
      trace_->writes({t.id, word, size, w.done - t.now}, value);
    }
    t.stores.keep_written(word, value, size, t.core, t.now, w.done);
    t.now += pipelines_.paced(t.core, 1);
    announce(l, w.visible);
    return false;
  }
  if (machine_.store_entries != 0) {
    buffer_store(l, word, value, size);
    if constexpr (Traced) trace_->buffers({t.id, word, size, 1}, t.now, value);
    t.now += pipelines_.paced(t.core, 1);
    return true;
  }
  const auto [there, late] = travel(l, t.core, true);
  const cycles begun = t.now;
  t.now += noisy(there);
  engine_.sync();
  if constexpr (Traced) trace_->at_line(l, t.core, t.now);
  const auto w = coherence_.write(l, t.core, t.now - there, false);
  if constexpr (Traced) trace_->writes({t.id, word, size, std::max(t.now, w.done + late) - begun}, value);
  t.now = std::max(t.now, w.done + late);
  announce(l, w.visible);
  return false;
}

/// Returns whether the store is forwarded to the load: only if their addresses and sizes are equal. Any other load that
/// overlaps the store waits until all stores are written.
bool access::forwards(const buffered_store& e, const void* word, unsigned size) {
  if (e.word == word && e.size == size) return true;
  drain();
  engine_.sync();
  return false;
}

void access::make_room_for_store() {
  simulated_thread& t = engine_.me();
  store_queue& q = t.stores;
  const std::uint32_t room = std::max(machine_.store_entries, 1u);
  q.forget_until(t.now);
  while (q.kept() >= room) {
    if (q.first == q.next) wait_for_stores(q.first + 1);
    t.now = std::max(t.now, q.at(q.first).done);
    q.forget_until(t.now);
  }
}

/// Adds a store to the store buffer. Of several buffered stores to one line, only the first requests ownership.
void access::buffer_store(line& l, void* word, std::uint64_t value, unsigned size) {
  simulated_thread& t = engine_.me();
  store_queue& q = t.stores;
  const bool alone = !q.pending();
  const std::uint32_t number = q.end++;
  buffered_store& e = q.at(number);
  const bool hits = l.owner == std::int32_t(t.core);
  e = {hits ? buffered_store::step::owns : buffered_store::step::waits,
       std::uint8_t(size),
       std::exchange(q.hit_since, hits),
       t.core,
       word,
       value,
       t.now,
       t.now};
  if (!hits && (alone || asks_ahead(t, number))) ask_for_ownership(t, number, t.now);
}

bool access::asks_ahead(simulated_thread& t, std::uint32_t number) {
  if (machine_.asks == ownership::in_turn) return false;
  store_queue& q = t.stores;
  if (machine_.asks == ownership::ahead_until_a_hit)
    for (std::uint32_t n = q.next; n != number; n++)
      if (q.at(n + 1).after_hit) return false;
  const line* const mine = &coherence_.at(q.at(number).word);
  for (std::uint32_t n = q.next; n != number; n++)
    if (&coherence_.at(q.at(n).word) == mine) return false;
  return true;
}

void access::ask_for_ownership(simulated_thread& t, std::uint32_t number, cycles from) {
  buffered_store& e = t.stores.at(number);
  e.at = buffered_store::step::asks;
  const cycles there = travel(coherence_.at(e.word), e.core, true).there;
  engine_.push({from + noisy(there), engine_.tie(), number, t.id, event_kind::commit});
}

/// Handles the event `commit`: a request for ownership has arrived at the line's owner or home, or a store whose line
/// was fetched ahead is now the next to be written.
template <bool Traced>
void access::commit_as(simulated_thread& t, std::uint32_t number, cycles at) {
  store_queue& q = t.stores;
  buffered_store& e = q.at(number);
  line& l = coherence_.at(e.word);
  const bool mine = l.owner == std::int32_t(e.core);
  if (e.at == buffered_store::step::owns && !mine) {  // another core took the line before the store's turn
    counts_.lost_ahead++;
    ask_for_ownership(t, number, at);
    return;
  }
  const cycles there = mine ? 0 : travel(l, e.core, true).there;
  if constexpr (Traced) trace_->at_line(l, e.core, at);
  const auto w = coherence_.write(l, e.core, at - std::min(at, there), false);
  e.done = std::max(w.done, at);
  if (q.next != number || q.done > e.done) {
    // The line has arrived, but the store must wait until an older store is written. The other cores' copies are
    // invalid by now, and other cores may fetch the line again before this store is written.
    if constexpr (Traced) trace_->fetches_ahead({t.id, e.word, e.size, e.done - e.begun});
    counts_.fetched_ahead++;
    e.at = buffered_store::step::owns;
    announce(l, w.visible);
    if (q.next == number) write_next(t);
    return;
  }
  if constexpr (Traced) trace_->writes({t.id, e.word, e.size, e.done - e.begun}, e.value);
  std::memcpy(e.word, &e.value, e.size);
  announce(l, w.visible);
  e.at = buffered_store::step::written;
  q.done = e.done;
  q.next++;
  if (q.pending()) write_next(t);
  if (q.awaited && q.next == q.awaited_until) {
    q.awaited = false;
    t.now = std::max(t.now, e.done);
    if (t.on_cpu) engine_.push(t.now, event_kind::resume, t);  // else the scheduler resumes it
  }
}

/// Selects the next store to be written. Younger stores that have waited for that may then request ownership.
void access::write_next(simulated_thread& t) {
  store_queue& q = t.stores;
  buffered_store& e = q.at(q.next);
  if (e.at == buffered_store::step::waits) {
    if (coherence_.at(e.word).owner != std::int32_t(e.core))
      ask_for_ownership(t, q.next, q.done);
    else
      e.at = buffered_store::step::owns;
  }
  if (e.at == buffered_store::step::owns)
    engine_.push({std::max(q.done, e.done), engine_.tie(), q.next, t.id, event_kind::commit});
  if (machine_.asks != ownership::ahead_until_a_hit || !e.after_hit) return;
  for (std::uint32_t n = q.next + 1; n != q.end && !q.at(n).after_hit; n++)
    if (q.at(n).at == buffered_store::step::waits && asks_ahead(t, n)) ask_for_ownership(t, n, q.done);
}

/// Blocks the thread until all its stores with a number below `until` are written.
void access::wait_for_stores(std::uint32_t until) {
  store_queue& q = engine_.me().stores;
  q.awaited_until = until;
  while (static_cast<std::int32_t>(q.next - until) < 0) {
    q.awaited = true;
    engine_.give_way();
  }
}

void access::reuse(const void* begin, std::size_t bytes) {
  store_queue& q = engine_.me().stores;
  const auto from = reinterpret_cast<std::uintptr_t>(begin);
  for (std::uint32_t n = q.next; n != q.end; n++)
    if (reinterpret_cast<std::uintptr_t>(q.at(n).word) - from < bytes) return drain();
}

template <bool Traced>
void access::modify_as(const void* word, unsigned size) {
  simulated_thread& t = engine_.me();
  drain();
  engine_.sync();
  counts_.accesses++;
  counts_.writes++;
  const cycles begun = t.now;
  line& l = coherence_.at(word);
  t.again.until = 0;
  journey way{0, 0};
  const bool misses = l.owner != std::int32_t(t.core), far = misses && machine_.far_atomics;
  if (misses) {
    way = far ? depart(coherence_.way_to_home(l, t.core)) : travel(l, t.core, true);
    if (way.there != 0) {
      t.now += noisy(way.there);
      engine_.sync();
    }
  }
  if constexpr (Traced) trace_->at_line(l, t.core, t.now);
  const cycles departed = t.now - way.there;
  const auto w = far && l.owner != std::int32_t(t.core) ? coherence_.modify_at_home(l, t.core, departed)
                                                        : coherence_.write(l, t.core, departed, true);
  t.now = std::max(t.now, w.done + way.late);
  if constexpr (Traced) trace_->modifies({t.id, word, size, t.now - begun});
  announce(l, w.visible);
}

/// Returns whether the core still has the line that the thread's failed compare-and-swap fetched. The core loses the
/// line when the next access to the line, another core's write, takes effect.
bool access::keeps_for_retry(const simulated_thread& t, const void* word, const line& l) const {
  return t.again.word == word && t.now <= t.again.until && l.owner != line::nobody && l.owner != std::int32_t(t.core) &&
         l.written > t.now;
}

void access::compare(const void* word, unsigned size) {
  simulated_thread& t = engine_.me();
  retry& again = t.again;
  if (again.until != 0) [[unlikely]] {
    drain();
    engine_.sync();
    line& l = coherence_.at(word);
    if (keeps_for_retry(t, word, l)) {
      again.until = 0;
      again.left--;
      counts_.accesses++;
      if (trace_ != nullptr) [[unlikely]]
        trace_->at_line_again(l, t.now);
      t.now += machine_.modify;
      l.written = std::max(l.written, t.now);
      if (trace_ != nullptr) [[unlikely]]
        trace_->modifies({t.id, word, size, machine_.modify});
      announce(l, t.now);
      return;
    }
  }
  again.left = most_retries;
  modify(word, size);
}

/// Records that a compare-and-swap failed. A retry hits the cache if it follows within the time of one more
/// read-modify-write and one iteration of the retry loop: until then no other core can take the line.
void access::failed(const void* word, std::uint64_t value) {
  if (!machine_.keeps_for_retry) return;
  retry& r = engine_.me().again;
  r.word = word;
  r.found = value;
  r.until = r.left != 0 ? engine_.me().now + 2 * machine_.modify : 0;
}

/// Called when the line is written. Schedules the next load of each thread that watches the line: after the
/// invalidation of the thread's copy, and at a random moment of its polling loop.
void access::announce(line& l, cycles visible) {
  if (l.watchers.empty()) return;
  auto& w = l.watchers;
  if (!machine_.random_refetch) {
    for (const std::uint32_t id : w) {
      simulated_thread& t = engine_.thread(id);
      const cycles when = std::max(visible, t.last_poll) + noisy(travel(l, t.core, false).there);
      engine_.push({when, id << 16, t.epoch, id, event_kind::poll});
    }
    w.clear();
    return;
  }
  for (std::size_t i = w.size(); i > 1; i--) std::swap(w[i - 1], w[engine_.chance().below(std::uint32_t(i))]);
  for (const std::uint32_t id : w) {
    simulated_thread& t = engine_.thread(id);
    cycles after = machine_.monitor_wake;
    if (!t.waits_for.monitors || after == 0)
      after = engine_.chance().below(std::uint32_t(pipelines_.paced_spinning(t.core, period_of(t)) + 1));
    const cycles when = std::max(visible, t.last_poll) + after;
    engine_.push(when + noisy(travel(l, t.core, false).there), event_kind::poll, t);
  }
  w.clear();
}

template <bool Traced>
void access::poll_as(simulated_thread& t, cycles at) {
  counts_.polls++;
  line& l = *t.watched;
  const auto [there, late] = coherence::has(l, t.core) ? journey{0, 0} : travel(l, t.core, false);
  const cycles departed = at - std::min(at, there);
  if constexpr (Traced) trace_->at_line(l, t.core, at);
  const cycles done = std::max(at, coherence_.read(l, t.core, departed) + late);
  t.last_poll = done;
  const bool goes_on = t.waits_for.holds(t.waits_for.context, t.waits_for.word);
  if constexpr (Traced) trace_->polls({t.id, t.waits_for.word, t.waits_for.size, done - departed}, goes_on);
  if (!goes_on) {
    l.watchers.push_back(t.id);
    return;
  }
  now_works(t);
  t.deadline = 0;
  t.now = done + pipelines_.paced(t.core, machine_.exit_penalty);
  engine_.push(t.now, event_kind::resume, t);
}

void access::give_up(simulated_thread& t, cycles at) {
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes(trace::what::gives_up, t.id, at, t.waits_for.word);
  stop_watching(t);
  now_works(t);
  t.now = at;
  engine_.push(t.now, event_kind::resume, t);
}

void access::stop_watching(simulated_thread& t) {
  if (t.watched != nullptr) std::erase(t.watched->watchers, t.id);
}

void access::now_works(simulated_thread& t) {
  pipelines_.now_works(t.core);
  t.does = activity::works;
  t.watched = nullptr;
  t.epoch++;
}

void access::now_spins(simulated_thread& t) {
  pipelines_.now_spins(t.core);
  t.does = activity::spins;
  t.epoch++;
}

bool access::spin(const condition& c, cycles limit) {
  simulated_thread& t = engine_.me();
  t.again.until = 0;
  if (t.stores.pending() && t.stores.youngest(c.word, c.size, t.now) != nullptr)
    drain();       // the condition is evaluated on the value that other cores see
  engine_.sync();  // another thread may change the word at an earlier time
  t.timed_out = false;
  t.waits_for = c;
  t.last_poll = t.now;
  line& l = coherence_.at(c.word);
  const bool has = coherence::has(l, t.core);
  if (has && c.holds(c.context, c.word)) {
    if (trace_ != nullptr) [[unlikely]] {
      trace_->at_line(l, t.core, t.now);
      trace_->polls({t.id, c.word, c.size, machine_.hit}, true);
    }
    t.now += pipelines_.paced(t.core, machine_.hit);
    return true;
  }
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes(trace::what::spins, t.id, t.now, c.word);
  t.watched = &l;
  now_spins(t);
  if (has)
    l.watchers.push_back(t.id);
  else
    engine_.push(t.now + period_of(t), event_kind::poll, t);
  if (limit != 0) {
    t.deadline = t.now + limit;
    engine_.push(t.deadline, event_kind::expire, t);
  }
  engine_.give_way();
  return !t.timed_out;
}

// The most frequent operations are compiled twice, with and without calls of the trace, so that runs without a trace
// spend no time on it.

bool access::load(const void* word, unsigned size) {
  return trace_ == nullptr ? load_as<false>(word, size) : load_as<true>(word, size);
}
bool access::store(void* word, std::uint64_t value, unsigned size) {
  return trace_ == nullptr ? store_as<false>(word, value, size) : store_as<true>(word, value, size);
}
void access::modify(const void* word, unsigned size) {
  trace_ == nullptr ? modify_as<false>(word, size) : modify_as<true>(word, size);
}
void access::commit(simulated_thread& t, std::uint32_t number, cycles at) {
  trace_ == nullptr ? commit_as<false>(t, number, at) : commit_as<true>(t, number, at);
}
void access::poll(simulated_thread& t, cycles at) {
  trace_ == nullptr ? poll_as<false>(t, at) : poll_as<true>(t, at);
}

}  // namespace usher::sim
