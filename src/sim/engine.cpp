#include "sim/engine.hpp"

#include <algorithm>
#include <boost/context/fixedsize_stack.hpp>
#include <cstring>
#include <utility>

#include "sim/trace.hpp"

namespace usher::sim {
namespace {

constexpr std::size_t stack_bytes = 64 << 10;
constexpr cycles start_skew = 2000;  // the largest random delay of a thread's beginning
/// The number of times that a compare-and-swap that is retried at once may hit. The first retry compares with the
/// value that the failed one found when it *arrived*; accesses that arrived later have had their effect since. So it
/// may fail once more.
constexpr unsigned most_retries = 2;

}  // namespace

simulation::simulation(machine m, std::uint64_t seed)
    : machine_(std::move(m)),
      coherence_(machine_, arena_),
      caches_(machine_),
      random_(seed),
      cpus_(machine_.cpus()),
      working_(machine_.all_cores()),
      spinning_(machine_.all_cores()),
      idle_cpus_(machine_.cpus()) {
  find_paces();
  current_ = this;
}

/// Fills the tables of the slow-down of a working hardware thread, by the numbers of hardware threads of its core that
/// work (itself included) and that spin.
void simulation::find_paces() {
  for (unsigned work = 0; work < paces_.size(); work++)
    for (unsigned spin = 0; spin < paces_.size(); spin++) {
      unsigned& pace = paces_[work][spin] = 1024;
      const unsigned others = work == 0 ? 0 : work - 1;
      if (machine_.pipelines == 1) {
        if (others != 0)
          pace = machine_.slowed_by_work;
        else if (spin != 0)
          pace = machine_.slowed_by_spin;
      } else {
        pace = std::max(pace, (1024 * (1 + others) + machine_.weight_of_spin * spin) / machine_.pipelines);
      }
      instruction_paces_[work][spin] = machine_.hardware_threads_slow_all ? pace : 1024;
    }
}

simulation::~simulation() {
  threads_.clear();  // unwinds the fibers of threads that have not ended
  current_ = nullptr;
}

void simulation::add_thread(unsigned cpu, std::function<void()> body, bool urgent, cycles begin) {
  if (cpu >= cpus_.size())
    throw bad_machine(machine_.file_or_name() + ": there is no CPU " + std::to_string(cpu) + ", there are " +
                      std::to_string(cpus_.size()));
  if (!machine_.os && std::any_of(threads_.begin(), threads_.end(), [=](const auto& t) { return t->cpu == cpu; }))
    throw bad_machine(machine_.file_or_name() + ": more threads than CPUs need a section [scheduler]");
  threads_.push_back(std::make_unique<simulated_thread>(unsigned(threads_.size()), random_.bits()));
  simulated_thread& t = *threads_.back();
  t.body = std::move(body);
  t.urgent = urgent;
  t.cpu = cpu;
  t.core = cpu / machine_.hardware_threads;
  t.socket = t.core / machine_.cores;
  t.context = fiber(std::allocator_arg, boost::context::fixedsize_stack(stack_bytes), [this, &t](fiber&&) {
    try {
      t.body();
      drain();
      sync();
    } catch (const boost::context::detail::forced_unwind&) {
      throw;
    } catch (...) {
      failure_ = std::current_exception();
      return std::move(main_);
    }
    return end_of_thread();
  });
  living_++;
  processor& p = cpus_[cpu];
  if (begin != 0) {
    push(begin + random_.below(start_skew), event_kind::ready, t);
  } else if (p.runs == nullptr) {
    start(p, t, random_.below(start_skew));
  } else {
    p.queue.push_back(&t);
    watch_slice(cpu);
  }
}

void simulation::at(cycles time, std::function<void()> call) {
  events_.push({time, 0, 0, std::uint32_t(calls_.size()), event_kind::call});
  calls_.push_back(std::move(call));
}

cycles simulation::cpu_time(cycles now) const {
  cycles sum = cpu_time_;
  for (const processor& p : cpus_)
    if (p.runs != nullptr && p.runs->on_cpu_since < now) sum += now - p.runs->on_cpu_since;
  return sum;
}

void simulation::run() {
  current_ = this;
  if (simulated_thread* const first = next()) {
    me_ = first;
    std::move(first->context).resume_with([this](fiber&& f) {
      main_ = std::move(f);
      return fiber{};
    });
  }
  me_ = nullptr;
  if (failure_) std::rethrow_exception(failure_);
}

// ---- events ---------------------------------------------------------------------------------------------------------

void simulation::push(cycles t, event_kind k, const simulated_thread& of) {
  events_.push(event_of(t, k, of));
}

/// Executes this event and further ones until one of them resumes a thread, which is returned. Null: no event is left.
simulation::simulated_thread* simulation::next(event e) {
  do {
    counts_.events++;
    if (e.kind == event_kind::slice) {
      end_slice(e.of, e.time);
      continue;
    }
    if (e.kind == event_kind::call) {
      calls_[e.of]();
      continue;
    }
    simulated_thread& t = *threads_[e.of];
    if (e.kind == event_kind::commit) {
      commit(t, e.epoch, e.time);
      continue;
    }
    if (e.epoch != t.epoch) continue;
    switch (e.kind) {
      case event_kind::resume:
        t.epoch++;
        t.now = std::max(t.now, e.time);
        return &t;
      case event_kind::look:
        look(t, e.time);
        break;
      case event_kind::expire:
        t.timed_out = true;
        t.deadline = 0;
        if (t.does == activity::sleeps) {
          std::erase(sleepers_, &t);
          make_ready(t, e.time);
        } else {
          if (trace_ != nullptr) [[unlikely]]
            trace_->notes(trace::what::gives_up, t.id, e.time, t.waits_for.word);
          stop_watching(t);
          now_works(t);
          t.now = e.time;
          push(t.now, event_kind::resume, t);
        }
        break;
      case event_kind::ready:
        make_ready(t, e.time);
        break;
      default:
        break;
    }
  } while (events_.pop(e));
  return nullptr;
}

void simulation::give_way_to(simulated_thread* after) {
  simulated_thread* const before = me_;
  if (after == before) return;
  counts_.fiber_switches++;
  const auto save = [before](fiber&& f) {
    before->context = std::move(f);
    return fiber{};
  };
  if (after == nullptr) {
    failure_ = std::make_exception_ptr(deadlock(what_is_waited_for()));
    std::move(main_).resume_with(save);
  } else {
    me_ = after;
    std::move(after->context).resume_with(save);
  }
}

simulation::fiber simulation::end_of_thread() {
  me_->does = activity::ended;
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes(trace::what::ends, me_->id, me_->now, nullptr);
  living_--;
  release_cpu(*me_, me_->now);
  simulated_thread* const after = next();
  if (after == nullptr) {
    if (living_ != 0) failure_ = std::make_exception_ptr(deadlock(what_is_waited_for()));
    return std::move(main_);
  }
  me_ = after;
  return std::move(after->context);
}

std::vector<std::string> simulation::what_threads_do() const {
  std::vector<std::string> texts;
  for (const auto& t : threads_) {
    std::string text = t->does == activity::works     ? "works"
                       : t->does == activity::ended   ? "has ended"
                       : t->does == activity::spins   ? "spins on "
                       : t->waits_for.word == nullptr ? "sleeps"
                                                      : "sleeps on ";
    if (text.ends_with("on ")) text += arena_.name_of(t->waits_for.word);
    text += (t->on_cpu ? ", CPU " : ", without a CPU, last on ") + std::to_string(t->cpu) + ", core " +
            std::to_string(t->core) + ", socket " + std::to_string(t->socket);
    texts.push_back(std::move(text));
  }
  return texts;
}

std::string simulation::what_is_waited_for() const {
  std::string text = "deadlock: no thread can continue";
  for (const auto& t : threads_) {
    if (t->does == activity::ended) continue;
    text += "; thread " + std::to_string(t->id);
    if (t->does == activity::works)
      text += " works";
    else
      text += (t->does == activity::spins ? " spins on word " : " sleeps on word ") +
              std::to_string(arena_.offset_of(t->waits_for.word));
  }
  return text;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

cycles simulation::noisy(cycles one_way) {
  if (machine_.jitter == 0 || one_way == 0) return one_way;
  return one_way + random_.exponential(one_way * machine_.jitter / 1024);
}

/// Orders accesses by departure: an access is served at once, and the random part of its latency is added afterwards.
simulation::journey simulation::by_departure(cycles one_way) {
  return {0, noisy(one_way) - one_way};
}

template <bool Traced>
bool simulation::load_as(const void* word, unsigned size) {
  simulated_thread& t = *me_;
  sync();
  counts_.events++;
  const cycles begun = t.now;
  if (t.stores.kept() != 0)
    if (const buffered_store* const mine = buffered(t, word, size); mine != nullptr && forwards(*mine, word, size)) {
      t.now += paced(t, machine_.hit);
      if constexpr (Traced)
        trace_->reads_forwarded({t.id, word, size, machine_.hit}, begun, mine->value, trace::supply::from::none);
      t.forwarded = mine->value;
      return mine->at != buffered_store::step::written;
    }
  line& l = coherence_.at(word);
  if (t.again.until != 0) [[unlikely]] {
    if (keeps_for_retry(t, word, l)) {
      t.now += paced(t, machine_.hit);
      t.forwarded = t.again.found;
      if constexpr (Traced)
        trace_->reads_forwarded({t.id, word, size, machine_.hit}, begun, t.forwarded, trace::supply::from::attempt);
      return true;
    }
    t.again.until = 0;
  }
  if (coherence::has(l, t.core)) {
    t.now = coherence_.read(l, t.core, t.now) - machine_.hit + paced(t, machine_.hit);
    if constexpr (Traced) {
      trace_->at_line(l, t.core, begun);
      trace_->reads({t.id, word, size, t.now - begun});
    }
    return false;
  }
  const auto [there, late] = travel(l, t.core, false);
  if (there != 0) {
    t.now += noisy(there);
    sync();
  }
  if constexpr (Traced) trace_->at_line(l, t.core, t.now);
  t.now = std::max(t.now, coherence_.read(l, t.core, t.now - there) + late);
  t.fetched = &l;
  t.fetched_at = t.now;
  if constexpr (Traced) trace_->reads({t.id, word, size, t.now - begun});
  return false;
}

/// Whether a store follows a load that missed so closely that its address was known when the load's request left, and
/// ownership was requested with it. Only if no core but the supplier of the line has another copy: further copies need
/// invalidations.
bool simulation::was_asked_for_with_load(const simulated_thread& t, const line& l) const {
  constexpr cycles window = 100;  // the reorder window of a core: some 200 instructions
  return t.fetched == &l && t.now - t.fetched_at <= window && l.owner == line::nobody &&
         l.fetched_by == std::int32_t(t.core) && coherence::copies(l) <= 2 && !t.stores.pending();
}

template <bool Traced>
bool simulation::store_as(void* word, std::uint64_t value, unsigned size) {
  simulated_thread& t = *me_;
  if (t.again.word == word) t.again.until = 0;
  make_room_for_store();
  sync();
  counts_.events++;
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
    keep_written(t, word, value, size, w.done);
    t.now += paced(t, 1);
    announce(l, w.visible);
    return false;
  }
  if (machine_.store_entries != 0) {
    buffer_store(l, word, value, size);
    if constexpr (Traced) trace_->buffers({t.id, word, size, 1}, t.now, value);
    t.now += paced(t, 1);
    return true;
  }
  const auto [there, late] = travel(l, t.core, true);
  const cycles begun = t.now;
  t.now += noisy(there);
  sync();
  if constexpr (Traced) trace_->at_line(l, t.core, t.now);
  const auto w = coherence_.write(l, t.core, t.now - there, false);
  if constexpr (Traced) trace_->writes({t.id, word, size, std::max(t.now, w.done + late) - begun}, value);
  t.now = std::max(t.now, w.done + late);
  announce(l, w.visible);
  return false;
}

/// The youngest buffered store that overlaps the word and that other cores may not see yet.
const simulation::buffered_store* simulation::buffered(simulated_thread& t, const void* word, unsigned size) {
  store_queue& q = t.stores;
  q.forget_until(t.now);
  const auto* const begin = static_cast<const char*>(word);
  for (std::uint32_t n = q.end; n != q.first; n--) {
    const buffered_store& e = q.at(n - 1);
    const auto* const other = static_cast<const char*>(e.word);
    if (other < begin + size && begin < other + e.size) return &e;
  }
  return nullptr;
}

/// A store is forwarded only to a load of the same address and size; any other load waits until all stores are written.
bool simulation::forwards(const buffered_store& e, const void* word, unsigned size) {
  if (e.word == word && e.size == size) return true;
  drain();
  sync();
  return false;
}

void simulation::keep_written(simulated_thread& t, void* word, std::uint64_t value, unsigned size, cycles done) {
  store_queue& q = t.stores;
  q.at(q.end) = {buffered_store::step::written, std::uint8_t(size), false, t.core, word, value, t.now, done};
  q.hit_since = true;
  q.next = ++q.end;
  q.done = done;
}

void simulation::make_room_for_store() {
  simulated_thread& t = *me_;
  store_queue& q = t.stores;
  const std::uint32_t room = std::max(machine_.store_entries, 1u);
  q.forget_until(t.now);
  while (q.kept() >= room) {
    if (q.first == q.next) wait_for_stores(q.first + 1);
    t.now = std::max(t.now, q.at(q.first).done);
    q.forget_until(t.now);
  }
}

/// If several buffered stores are to one line, the first requests ownership.
void simulation::buffer_store(line& l, void* word, std::uint64_t value, unsigned size) {
  simulated_thread& t = *me_;
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

bool simulation::asks_ahead(simulated_thread& t, std::uint32_t number) {
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

void simulation::ask_for_ownership(simulated_thread& t, std::uint32_t number, cycles from) {
  buffered_store& e = t.stores.at(number);
  e.at = buffered_store::step::asks;
  const cycles there = travel(coherence_.at(e.word), e.core, true).there;
  events_.push({from + noisy(there), std::uint32_t(random_.bits()), number, t.id, event_kind::commit});
}

/// A request for ownership arrives at the owner or home of the line, or it is the turn of a store whose line was
/// fetched ahead.
template <bool Traced>
void simulation::commit_as(simulated_thread& t, std::uint32_t number, cycles at) {
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
    // The line arrives before the store's turn: other cores have lost their copies, and may fetch the line again before
    // the store is written.
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
    if (t.on_cpu) push(t.now, event_kind::resume, t);  // else start() resumes it
  }
}

/// Advances the store whose turn it is, and lets younger stores request ownership if they had to wait for this turn.
void simulation::write_next(simulated_thread& t) {
  store_queue& q = t.stores;
  buffered_store& e = q.at(q.next);
  if (e.at == buffered_store::step::waits) {
    if (coherence_.at(e.word).owner != std::int32_t(e.core))
      ask_for_ownership(t, q.next, q.done);
    else
      e.at = buffered_store::step::owns;
  }
  if (e.at == buffered_store::step::owns)
    events_.push({std::max(q.done, e.done), std::uint32_t(random_.bits()), q.next, t.id, event_kind::commit});
  if (machine_.asks != ownership::ahead_until_a_hit || !e.after_hit) return;
  for (std::uint32_t n = q.next + 1; n != q.end && !q.at(n).after_hit; n++)
    if (q.at(n).at == buffered_store::step::waits && asks_ahead(t, n)) ask_for_ownership(t, n, q.done);
}

/// Blocks the thread until all its stores before this number are written.
void simulation::wait_for_stores(std::uint32_t until) {
  store_queue& q = me_->stores;
  q.awaited_until = until;
  while (static_cast<std::int32_t>(q.next - until) < 0) {
    q.awaited = true;
    give_way();
  }
}

void simulation::reuse(const void* begin, std::size_t bytes) {
  store_queue& q = me_->stores;
  const auto from = reinterpret_cast<std::uintptr_t>(begin);
  for (std::uint32_t n = q.next; n != q.end; n++)
    if (reinterpret_cast<std::uintptr_t>(q.at(n).word) - from < bytes) return drain();
}

template <bool Traced>
void simulation::modify_as(const void* word, unsigned size) {
  simulated_thread& t = *me_;
  drain();
  sync();
  counts_.events++;
  const cycles begun = t.now;
  line& l = coherence_.at(word);
  t.again.until = 0;
  journey way{0, 0};
  if (l.owner != std::int32_t(t.core)) {
    way = travel(l, t.core, true);
    if (way.there != 0) {
      t.now += noisy(way.there);
      sync();
    }
  }
  if constexpr (Traced) trace_->at_line(l, t.core, t.now);
  const auto w = coherence_.write(l, t.core, t.now - way.there, true);
  t.now = std::max(t.now, w.done + way.late);
  if constexpr (Traced) trace_->modifies({t.id, word, size, t.now - begun});
  announce(l, w.visible);
}

/// Whether the core still has the line that the failed compare-and-swap fetched: the access that is next in order has
/// not taken effect yet.
bool simulation::keeps_for_retry(const simulated_thread& t, const void* word, const line& l) const {
  return t.again.word == word && t.now <= t.again.until && l.owner != line::nobody && l.owner != std::int32_t(t.core) &&
         l.written > t.now;
}

void simulation::compare(const void* word, unsigned size) {
  simulated_thread& t = *me_;
  retry& again = t.again;
  if (again.until != 0) [[unlikely]] {
    drain();
    sync();
    line& l = coherence_.at(word);
    if (keeps_for_retry(t, word, l)) {
      again.until = 0;
      again.left--;
      counts_.events++;
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

/// A retry hits if it follows within the time of one more access and an iteration of the loop: until then the next
/// access in order cannot take the line.
void simulation::failed(const void* word, std::uint64_t value) {
  if (!machine_.keeps_for_retry) return;
  retry& r = me_->again;
  r.word = word;
  r.found = value;
  r.until = r.left != 0 ? me_->now + 2 * machine_.modify : 0;
}

/// The line is written: each watcher loads the word again, after its copy is invalidated and at a random moment of its
/// loop.
void simulation::announce(line& l, cycles visible) {
  if (l.watchers.empty()) return;
  auto& w = l.watchers;
  if (!machine_.random_refetch) {
    for (const std::uint32_t id : w) {
      simulated_thread& t = *threads_[id];
      const cycles when = std::max(visible, t.last_look) + noisy(travel(l, t.core, false).there);
      events_.push({when, id << 16, t.epoch, id, event_kind::look});
    }
    w.clear();
    return;
  }
  for (std::size_t i = w.size(); i > 1; i--) std::swap(w[i - 1], w[random_.below(std::uint32_t(i))]);
  for (const std::uint32_t id : w) {
    simulated_thread& t = *threads_[id];
    const cycles period = paced_spinning(t, machine_.poll_period);
    const cycles when = std::max(visible, t.last_look) + random_.below(std::uint32_t(period + 1));
    push(when + noisy(travel(l, t.core, false).there), event_kind::look, t);
  }
  w.clear();
}

template <bool Traced>
void simulation::look_as(simulated_thread& t, cycles at) {
  counts_.looks++;
  line& l = *t.watched;
  const auto [there, late] = coherence::has(l, t.core) ? journey{0, 0} : travel(l, t.core, false);
  const cycles departed = at - std::min(at, there);
  if constexpr (Traced) trace_->at_line(l, t.core, at);
  const cycles done = std::max(at, coherence_.read(l, t.core, departed) + late);
  t.last_look = done;
  const bool goes_on = t.waits_for.holds(t.waits_for.context, t.waits_for.word);
  if constexpr (Traced) trace_->looks({t.id, t.waits_for.word, t.waits_for.size, done - departed}, goes_on);
  if (!goes_on) {
    l.watchers.push_back(t.id);
    return;
  }
  now_works(t);
  t.deadline = 0;
  t.now = done + paced(t, machine_.exit_penalty);
  push(t.now, event_kind::resume, t);
}

void simulation::stop_watching(simulated_thread& t) {
  if (t.watched != nullptr) std::erase(t.watched->watchers, t.id);
}

void simulation::now_works(simulated_thread& t) {
  spinning_[t.core]--;
  working_[t.core]++;
  t.does = activity::works;
  t.watched = nullptr;
  t.epoch++;
}

void simulation::now_spins(simulated_thread& t) {
  working_[t.core]--;
  spinning_[t.core]++;
  t.does = activity::spins;
  t.epoch++;
}

bool simulation::spin(const condition& c, cycles limit) {
  simulated_thread& t = *me_;
  t.again.until = 0;
  if (t.stores.pending() && buffered(t, c.word, c.size) != nullptr)
    drain();  // the condition is evaluated on the value that other cores see
  sync();     // another thread may change the word at an earlier time
  t.timed_out = false;
  t.waits_for = c;
  t.last_look = t.now;
  line& l = coherence_.at(c.word);
  const bool has = coherence::has(l, t.core);
  if (has && c.holds(c.context, c.word)) {
    if (trace_ != nullptr) [[unlikely]] {
      trace_->at_line(l, t.core, t.now);
      trace_->looks({t.id, c.word, c.size, machine_.hit}, true);
    }
    t.now += paced(t, machine_.hit);
    return true;
  }
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes(trace::what::spins, t.id, t.now, c.word);
  t.watched = &l;
  now_spins(t);
  if (has)
    l.watchers.push_back(t.id);
  else
    push(t.now + machine_.poll_period, event_kind::look, t);
  if (limit != 0) {
    t.deadline = t.now + limit;
    push(t.deadline, event_kind::expire, t);
  }
  give_way();
  return !t.timed_out;
}

void simulation::compute(cycles n) {
  simulated_thread& t = *me_;
  // A thread that only computes must not run far ahead of the others, because it may be preempted.
  constexpr cycles far = 20000;
  if (machine_.os && t.now - t.synced > far) sync();
  cycles slow = paces_[working_[t.core]][spinning_[t.core]];
  if (machine_.pipelines > 1 && working_[t.core] + spinning_[t.core] <= 1) slow = cycles{1024} * 1024 / machine_.alone;
  if (slow > 1024) counts_.without_pipeline += n * slow / 1024 - n;
  t.now += n * slow / 1024;
}

void simulation::load(const caches::block& b, std::uint64_t offset) {
  sync();
  const caches::cost c = caches_.load(b, offset, me_->cpu, me_->now);
  compute(c.busy);
  me_->now += c.stall;
}

void simulation::load_at_random(const caches::block& b, std::uint64_t n) {
  constexpr std::uint64_t at_once = 100;  // so that loads of other threads come between
  for (; n != 0; n -= std::min(n, at_once)) {
    sync();
    const caches::cost c = caches_.load_at_random(b, std::min(n, at_once), me_->cpu, me_->now, me_->chance);
    compute(c.busy);
    me_->now += c.stall;
  }
}

// The most frequent operations are compiled twice, so that without a trace they contain no code for it.

bool simulation::load(const void* word, unsigned size) {
  return trace_ == nullptr ? load_as<false>(word, size) : load_as<true>(word, size);
}
bool simulation::store(void* word, std::uint64_t value, unsigned size) {
  return trace_ == nullptr ? store_as<false>(word, value, size) : store_as<true>(word, value, size);
}
void simulation::modify(const void* word, unsigned size) {
  trace_ == nullptr ? modify_as<false>(word, size) : modify_as<true>(word, size);
}
void simulation::commit(simulated_thread& t, std::uint32_t number, cycles at) {
  trace_ == nullptr ? commit_as<false>(t, number, at) : commit_as<true>(t, number, at);
}
void simulation::look(simulated_thread& t, cycles at) {
  trace_ == nullptr ? look_as<false>(t, at) : look_as<true>(t, at);
}

// ---- scheduler ------------------------------------------------------------------------------------------------------

void simulation::occupy(const simulated_thread& t, int by) {
  auto& hardware_threads = t.does == activity::spins ? spinning_ : working_;
  hardware_threads[t.core] += unsigned(by);
}

void simulation::start(processor& p, simulated_thread& t, cycles at) {
  if (p.runs == nullptr) idle_cpus_--;
  const cycles context_switch = machine_.os ? machine_.os->context_switch : 0;
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes_cpu(trace::what::gets_cpu, t.id, at, t.cpu, context_switch);
  p.runs = &t;
  p.slice_end = at + context_switch + (machine_.os ? machine_.os->slice : 0);
  t.on_cpu = true;
  t.on_cpu_since = at;
  t.epoch++;
  t.now = at + context_switch + t.owed;
  t.owed = 0;
  if (t.does == activity::spins && t.deadline != 0 && t.now >= t.deadline) {
    t.does = activity::works;
    t.timed_out = true;
    t.deadline = 0;
    t.watched = nullptr;
  }
  occupy(t, 1);
  if (t.does == activity::spins) {
    push(t.now, event_kind::look, t);
    if (t.deadline != 0) push(t.deadline, event_kind::expire, t);
  } else {
    push(t.now, event_kind::resume, t);
  }
  if (!p.queue.empty()) watch_slice(t.cpu);
}

/// Takes the thread's CPU away.
void simulation::stop(simulated_thread& t, cycles at) {
  if (t.does == activity::spins) stop_watching(t);
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes_cpu(trace::what::loses_cpu, t.id, at, t.cpu);
  occupy(t, -1);
  t.owed = t.does == activity::works && t.now > at ? t.now - at : 0;
  t.on_cpu = false;
  cpu_time_ += at - std::min(at, t.on_cpu_since);
  t.epoch++;
}

/// The thread sleeps or has ended: its CPU runs the next thread of its queue, or one of the longest other queue.
void simulation::release_cpu(simulated_thread& t, cycles at) {
  const activity does = std::exchange(t.does, activity::works);  // occupy() counted it as working
  stop(t, at);
  t.does = does;
  t.owed = 0;
  processor& p = cpus_[t.cpu];
  p.runs = nullptr;
  p.idle_since = at;
  idle_cpus_++;
  if (p.queue.empty() && machine_.os && machine_.os->migrate) {
    processor* longest = nullptr;
    for (processor& other : cpus_)
      if (!other.queue.empty() && (longest == nullptr || other.queue.size() > longest->queue.size())) longest = &other;
    if (longest != nullptr) {
      simulated_thread& stolen = *longest->queue.front();
      longest->queue.pop_front();
      move(stolen, t.cpu);
      p.queue.push_back(&stolen);
    }
  }
  if (p.queue.empty()) return;
  simulated_thread& after = *p.queue.front();
  p.queue.pop_front();
  start(p, after, at);
}

void simulation::make_ready(simulated_thread& t, cycles at) {
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes(trace::what::ready, t.id, at, nullptr);
  t.does = activity::works;
  t.now = std::max(t.now, at);
  if (processor* const p = idle_for(t)) {
    const auto cpu = unsigned(p - cpus_.data());
    if (cpu != t.cpu) move(t, cpu);
    start(*p, t, at);
  } else if (t.urgent && !cpus_[t.cpu].runs->urgent) {
    cpus_[t.cpu].queue.push_front(&t);
    preempt(cpus_[t.cpu], at);
  } else {
    cpus_[t.cpu].queue.push_back(&t);
    watch_slice(t.cpu);
  }
}

/// The CPU that the thread ran on, if that is idle; else the idle CPU whose core has the least work, preferably of the
/// thread's socket.
simulation::processor* simulation::idle_for(const simulated_thread& t) {
  if (cpus_[t.cpu].runs == nullptr) return &cpus_[t.cpu];
  if (idle_cpus_ == 0 || !machine_.os->migrate) return nullptr;
  processor* best = nullptr;
  unsigned least = ~0u;
  for (unsigned c = 0; c < cpus_.size(); c++) {
    if (cpus_[c].runs != nullptr) continue;
    const unsigned core = c / machine_.hardware_threads;
    const unsigned load = 2 * (working_[core] + spinning_[core]) + unsigned(core / machine_.cores != t.socket);
    if (load < least) {
      least = load;
      best = &cpus_[c];
    }
  }
  return best;
}

/// The additional time of a wake-up because the CPU that the thread will get has been idle for long.
cycles simulation::to_awake(const simulated_thread& t, cycles now) {
  const machine::scheduler& os = *machine_.os;
  if (os.idle_after.empty()) return 0;
  const processor* const p = idle_for(t);
  if (p == nullptr) return 0;
  const cycles idle = now - std::min(now, p->idle_since);
  cycles exit = 0;
  for (std::size_t i = 0; i < os.idle_after.size() && idle >= os.idle_after[i]; i++) exit = os.idle_exit[i];
  return exit;
}

void simulation::move(simulated_thread& t, unsigned cpu) {
  t.cpu = cpu;
  t.core = cpu / machine_.hardware_threads;
  t.socket = t.core / machine_.cores;
  counts_.migrations++;
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes_cpu(trace::what::moves, t.id, t.now, cpu);
}

/// A thread is queued for the CPU: the running thread's slice gets an event for its end.
void simulation::watch_slice(unsigned cpu) {
  processor& p = cpus_[cpu];
  if (p.slice_ends) return;
  p.slice_ends = true;
  events_.push({p.slice_end, std::uint32_t(random_.bits()), 0, cpu, event_kind::slice});
}

void simulation::end_slice(unsigned cpu, cycles at) {
  processor& p = cpus_[cpu];
  p.slice_ends = false;
  if (p.queue.empty()) return;
  if (at < p.slice_end) return watch_slice(cpu);  // another thread has begun a slice since
  preempt(p, at);
}

/// Gives the CPU to the first thread of its queue.
void simulation::preempt(processor& p, cycles at) {
  simulated_thread& before = *p.runs;
  counts_.involuntary++;
  stop(before, at);
  p.queue.push_back(&before);
  simulated_thread& after = *p.queue.front();
  p.queue.pop_front();
  start(p, after, at);
}

void simulation::sleep(const condition& c, std::uint32_t mask, cycles limit) {
  simulated_thread& t = *me_;
  if (!machine_.os) throw bad_machine(machine_.file_or_name() + ": a thread that sleeps needs a section [scheduler]");
  t.now += machine_.os->syscall;
  drain();
  load(c.word, c.size);
  t.timed_out = false;
  if (!c.holds(c.context, c.word)) return;
  // No other event has happened since the word was loaded, so no wake-up can be lost.
  counts_.voluntary++;
  t.waits_for = c;
  t.mask = mask;
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes(trace::what::sleeps, t.id, t.now, c.word);
  t.does = activity::sleeps;
  sleepers_.push_back(&t);
  release_cpu(t, t.now);
  if (limit != 0) push(t.now + limit, event_kind::expire, t);
  give_way();
}

void simulation::nap(cycles n) {
  simulated_thread& t = *me_;
  if (!machine_.os) throw bad_machine(machine_.file_or_name() + ": a thread that sleeps needs a section [scheduler]");
  t.now += machine_.os->syscall;
  drain();
  sync();
  counts_.voluntary++;
  t.waits_for = {nullptr, nullptr, nullptr, 0};
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes(trace::what::naps, t.id, t.now, nullptr, n);
  t.does = activity::sleeps;
  sleepers_.push_back(&t);
  release_cpu(t, t.now);
  push(t.now + std::max<cycles>(n, 1), event_kind::expire, t);
  give_way();
}

void simulation::wake(const void* key, std::uint32_t mask, int most) {
  simulated_thread& t = *me_;
  if (!machine_.os) return;  // without a scheduler no thread sleeps
  const machine::scheduler& os = *machine_.os;
  t.now += os.syscall;
  drain();
  sync();
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes(trace::what::wakes, t.id, t.now, key);
  for (std::size_t i = 0; i < sleepers_.size() && most > 0;) {
    simulated_thread& s = *sleepers_[i];
    if (s.waits_for.word != key || (s.mask & mask) == 0) {
      i++;
      continue;
    }
    sleepers_.erase(sleepers_.begin() + std::ptrdiff_t(i));
    most--;
    s.epoch++;  // voids its time limit
    if (trace_ != nullptr) [[unlikely]]
      trace_->wakes(s.id);
    if (os.wake_queued != 0 && idle_for(s) == nullptr) {
      t.now += os.wake_queued;
      push(t.now, event_kind::ready, s);
      continue;
    }
    push(t.now + os.latency_least + random_.exponential(os.latency_mean - os.latency_least) + to_awake(s, t.now),
         event_kind::ready, s);
    t.now += os.wake;
  }
}

void simulation::yield() {
  simulated_thread& t = *me_;
  if (!machine_.os) {
    t.now += machine_.poll_period;
    return;
  }
  t.now += machine_.os->syscall;
  drain();
  sync();
  processor& p = cpus_[t.cpu];
  if (p.queue.empty()) return;
  counts_.involuntary++;  // as Linux counts it
  stop(t, t.now);
  p.queue.push_back(&t);
  simulated_thread& after = *p.queue.front();
  p.queue.pop_front();
  start(p, after, t.now);
  give_way();
}

}  // namespace usher::sim
