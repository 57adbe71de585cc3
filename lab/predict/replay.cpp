#include "lab/predict/replay.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

namespace usher::predict {
namespace {

using sim::cycles;
using sim::simulation;

/// The longest computation between two checks of a replayed thread whether the measured time is over.
constexpr std::uint64_t piece_ns = 20000;
/// The longest sleep of a thread that waits for a token. It then checks the tokens again, since a token may be posted
/// by a thread that does not hold the mutex.
constexpr std::uint64_t look_again_ns = 5000000;
constexpr double most_lines = 64, most_owed_ns = 100000;

}  // namespace

double lines_of(const slot& s, const moved_lines& lines) {
  const double n = lines.fixed ? *lines.fixed : lines.most ? s.most_lines : s.least_lines;
  return std::clamp(n, 0.0, most_lines);
}

void replay::read_write_lock::lock(bool reads) {
  const auto with = [reads](auto& l) { reads ? l.lock_shared() : l.lock(); };
  parking != nullptr ? with(*parking) : with(*spinning);
}

void replay::read_write_lock::unlock(bool reads) {
  const auto with = [reads](auto& l) { reads ? l.unlock_shared() : l.unlock(); };
  parking != nullptr ? with(*parking) : with(*spinning);
}

replay::replay(sim::world& w, const replay_plan& p, const std::vector<unsigned>& threads_of_roles,
               const sim::simulated_lock& table, const moved_lines& lines)
    : plan_(p),
      begin_(w.begin()),
      end_(w.end()),
      has_scheduler_(w.sim().on().os.has_value()),
      conditions_(p.objects.size()),
      barriers_(p.objects.size()),
      semaphores_(p.objects.size()) {
  // Interleaves the roles in proportion to their threads, because the thread number decides the placement: otherwise
  // each role would be on CPUs of its own.
  const unsigned all = std::accumulate(threads_of_roles.begin(), threads_of_roles.end(), 0u);
  std::vector<unsigned> given(threads_of_roles.size());
  while (role_of_.size() < std::min(w.threads(), all)) {
    const auto lacks = [&](std::uint32_t r) {
      return std::int64_t{threads_of_roles[r]} * std::int64_t(role_of_.size() + 1) - std::int64_t{given[r]} * all;
    };
    std::uint32_t next = 0;
    for (std::uint32_t r = 1; r < given.size(); r++)
      if (lacks(r) > lacks(next)) next = r;
    given[next]++;
    role_of_.push_back(next);
  }
  make_slots(w, table, lines);
  for (std::uint32_t o = 0; o < p.objects.size(); o++) {
    if (p.conditions[o].waits + p.conditions[o].timed_out + p.conditions[o].signals != 0) {
      conditions_[o].it = &w.make<basic_condition_variable<P>>();
      conditions_[o].tokens = p.conditions[o].at_first;
      if (const auto roles = p.waiting_roles.find(o);
          roles != p.waiting_roles.end() && p.conditions[o].rule == signal_rule::matched)
        for (const std::uint32_t r : roles->second) conditions_[o].tokens += threads_of_roles[r];
      if (const auto roles = p.waiting_roles.find(o);
          roles != p.waiting_roles.end() && p.conditions[o].rule == signal_rule::rounds)
        for (const std::uint32_t r : roles->second) conditions_[o].members += threads_of_roles[r];
      free_ += std::int64_t(conditions_[o].tokens);
    }
    if (const auto s = p.semaphores.find(o); s != p.semaphores.end()) {
      semaphores_[o] = &w.make<semaphore_core<P>>();
      free_ += s->second.at_first;
      if (s->second.at_first != 0) {
        std::destroy_at(semaphores_[o]);
        ::new (semaphores_[o]) semaphore_core<P>(s->second.at_first);
      }
    }
    if (const auto b = p.barriers.find(o); b != p.barriers.end()) {
      barrier& made = barriers_[o].emplace();
      auto* const words = w.make_array<P::atomic<std::uint32_t>>(2);
      made.arrived = words;
      made.round = words + 1;
      for (const std::uint32_t r : b->second) made.members += threads_of_roles[r];
    }
  }
}

void replay::make_slots(sim::world& w, const sim::simulated_lock& table, const moved_lines& lines) {
  for (const slot& s : plan_.slots) {
    first_.push_back(std::uint32_t(instances_.size()));
    lines_.push_back(s.operations == 0 ? 0 : lines_of(s, lines));
    for (std::size_t i = 0; i < s.objects.size(); i++) {
      instance& made = *instances_.emplace_back(std::make_unique<instance>());
      made.use.object = s.objects[i];
      made.use.part = unsigned(i % s.parts);
      if (s.operations == 0) continue;
      if (!s.is_read_write)
        made.exclusive.emplace(w.sim().shared(), table, s.has_condition);
      else if (has_scheduler_)
        made.read_write.parking = &w.make<fair<waiting_kind::spin_then_park>>();
      else
        made.read_write.spinning = &w.make<fair<waiting_kind::spin>>();
      for (unsigned l = 0; l < lines_.back(); l++) made.lines.push_back(&w.make<P::plain<std::uint64_t>>());
    }
  }
}

cycles replay::clipped(cycles from, cycles to) const {
  return std::min(to, end_) - std::min(std::max(from, begin_), std::min(to, end_));
}

void replay::compute(sim::world::thread& t, std::uint64_t ns) {
  simulation& s = simulation::current();
  for (; ns > piece_ns && !t.over(); ns -= piece_ns) s.compute(s.on().from_ns(piece_ns));
  if (ns <= piece_ns) s.compute((ns * s.on().mhz + 500) / 1000);
}

void replay::sleep(std::uint64_t ns) {
  simulation& s = simulation::current();
  const cycles now = s.now();
  if (now >= end_) return;
  const cycles wanted = std::min(s.on().from_ns(ns), end_ - now);
  // The recorded time includes a system call and a context switch, which the simulated scheduler adds again.
  if (has_scheduler_)
    s.nap(std::max<cycles>(wanted - std::min(wanted, s.on().os->syscall + s.on().os->context_switch), 1));
  else
    s.compute(wanted);
}

replay::instance& replay::drawn(const slot& s, std::uint32_t first, sim::world::thread& t) {
  if (s.objects.size() == 1) return *instances_[first];
  // uniform() takes 32 bits, so a larger sum of frequencies is scaled down; the lost precision does not matter for a
  // draw.
  std::uint64_t sum = s.up_to.back();
  unsigned shift = 0;
  while (sum >> shift > 0x7fffffff) shift++;
  const std::uint64_t at = std::uint64_t{t.uniform(std::uint32_t(sum >> shift))} << shift;
  const auto found = std::upper_bound(s.up_to.begin(), s.up_to.end(), at);
  return *instances_[first + std::min<std::size_t>(std::size_t(found - s.up_to.begin()), s.objects.size() - 1)];
}

void replay::admitted(instance& i, cycles arrived) {
  simulation& s = simulation::current();
  const cycles now = s.now();
  if (!measured(now)) return;
  i.use.operations++;
  i.use.waits += now - arrived;
  i.use.longest = std::max(i.use.longest, now - arrived);
  i.use.history.push_back(std::uint16_t(s.thread()));
}

void replay::arrives(instance& i, cycles now) {
  if (i.wanting++ == 0) i.since = std::max(i.since, now);
}

void replay::leaves(instance& i, cycles now) {
  if (--i.wanting != 0) return;
  i.use.wanted += clipped(i.since, now);
  i.since = std::max(i.since, now);
}

void replay::take(sim::world::thread& t, reader& me, const step& s) {
  simulation& now = simulation::current();
  const slot& on = plan_.slots[s.on];
  instance& i = drawn(on, first_[s.on], t);
  const bool reads = s.what == step_kind::read_lock;
  const cycles arrived = now.now();
  arrives(i, arrived);
  if (s.tries) {
    // To wait for this slot would contradict the order of slots. A read-write lock has no try_lock() here and is always
    // left out.
    if (on.is_read_write || !i.exclusive->try_lock()) {
      not_acquired_++;
      leaves(i, now.now());
      return;
    }
  } else if (on.is_read_write) {
    i.read_write.lock(reads);
  } else {
    i.exclusive->lock();
  }
  admitted(i, arrived);
  t.count();
  me.held[s.held] = {&i, now.now(), reads};
  // The mean number of lines is not an integer: a fraction of a line is one line in that fraction of the sections.
  const double of_each = lines_[s.on], before = double(i.sections++) * of_each;
  for (auto n = std::size_t(std::floor(before + of_each) - std::floor(before)); n-- != 0;)
    i.lines[n]->set(i.lines[n]->get() + 1);
  if (s.takes != none) {
    const cycles before = now.now();
    plan_.conditions[s.takes].rule == signal_rule::rounds ? wait_for_round(t, me, i, s.takes)
                                                          : wait_for_token(t, &i, s.takes);
    me.held[s.held].since += now.now() - before;
  }
}

void replay::release(held_instance& h) {
  if (h.it == nullptr) return;
  simulation& s = simulation::current();
  instance& i = *std::exchange(h.it, nullptr);
  const cycles now = s.now();
  i.use.held += clipped(h.since, now);
  leaves(i, now);
  if (i.exclusive)
    i.exclusive->unlock();
  else
    i.read_write.unlock(h.reads);
}

/// Waits on the condition for at most look_again_ns.
void replay::wait_awhile(condition& c, instance& i) {
  simulation& s = simulation::current();
  const cycles until = s.now() + s.on().from_ns(look_again_ns);
  c.it->wait_while_time(*i.exclusive, [&]() -> std::uint64_t {
    const cycles now = s.now();
    // The end of the measured time also ends the wait.
    return now >= std::min(until, end_) ? 0 : s.on().to_ns(std::min(until, end_) - now) + 1;
  });
}

void replay::wait_for_token(sim::world::thread& t, instance* i, std::uint32_t number) {
  simulation& s = simulation::current();
  condition& c = conditions_[number];
  if (c.tokens != 0) {
    c.tokens--;
    free_--;
    return;
  }
  const cycles before = s.now();
  leaves(*i, before);
  while (c.tokens == 0 && !t.over()) {
    if (is_stalled()) {
      stalls_++;
      c.tokens++;
      free_++;
      break;
    }
    c.waiting++;
    waiting_++;
    wait_awhile(c, *i);
    c.waiting--;
    waiting_--;
  }
  if (c.tokens != 0) {
    c.tokens--;
    free_--;
  }
  arrives(*i, s.now());
  waited_for_tokens_ += clipped(before, s.now());
}

void replay::wait_for_round(sim::world::thread& t, reader& me, instance& i, std::uint32_t number) {
  simulation& s = simulation::current();
  condition& c = conditions_[number];
  std::uint64_t& mine = me.rounds[number];
  const cycles before = s.now();
  if (mine < c.round) {
    mine = c.round;
    return;
  }
  leaves(i, before);
  while (mine >= c.round && !t.over()) {
    if (is_stalled()) {
      stalls_++;
      break;
    }
    const std::uint64_t seen = c.round;
    c.waiting++;
    waiting_++;
    wait_awhile(c, i);
    if (c.round != seen) break;  // a new round: its opener has already subtracted this thread from `waiting`
    c.waiting--;
    waiting_--;
  }
  mine = c.round;
  arrives(i, s.now());
  waited_for_tokens_ += clipped(before, s.now());
}

/// Counts this thread's last section of the present round. The last thread to do so signals the condition on which the
/// opener waits. A thread that did not wait for the opening of this round is not counted: its replay began in the
/// middle of the tape.
void replay::end_round(reader& me, std::uint32_t number) {
  condition& ended = conditions_[number];
  const std::uint32_t by = plan_.conditions[number].opened_by;
  condition& opening = conditions_[by];
  if (opening.round == 0 || me.rounds[by] != opening.round || me.done[by] == opening.round) return;
  me.done[by] = opening.round;
  if (++opening.done < opening.members) return;
  ended.tokens++;
  free_++;
  ended.it->notify_one();
}

void replay::post(std::uint32_t first) {
  for (std::uint32_t n = first; n != none; n = plan_.tokens[n].next) {
    const token& posted = plan_.tokens[n];
    condition& c = conditions_[posted.condition];
    const std::uint64_t more = posted.to_all ? std::max<std::uint64_t>(posted.count, c.waiting) : posted.count;
    c.tokens += more;
    free_ += std::int64_t(more);
  }
}

void replay::wait_at(sim::world::thread& t, barrier& b) {
  simulation& s = simulation::current();
  const std::uint32_t round = b.round->load(std::memory_order_acquire);
  const bool stalls = is_stalled();
  if (b.arrived->fetch_add(1, std::memory_order_acq_rel) + 1 >= b.members || stalls) {
    stalls_ += stalls ? 1 : 0;
    waiting_ -= std::exchange(b.waiting, 0);
    b.arrived->store(0, std::memory_order_relaxed);
    const wake_key key = P::key_of(*b.round);
    b.round->store(round + 1, std::memory_order_release);
    P::wake(key, every_sleeper, int(b.members));
    return;
  }
  const cycles before = s.now();
  waiting_++;
  b.waiting++;
  while (b.round->load(std::memory_order_acquire) == round && !t.over())
    P::park_for(*b.round, round, every_sleeper, s.on().to_ns(end_ - std::min(end_, s.now())) + 1);
  waited_for_tokens_ += clipped(before, s.now());
}

void replay::wait_for_semaphore(sim::world::thread& t, semaphore_core<P>& credits) {
  using core = semaphore_core<P>;
  simulation& s = simulation::current();
  const cycles before = s.now();
  if (credits.try_acquire()) {
    free_--;
    return t.count();
  }
  if (is_stalled()) {
    stalls_++;
    return t.count();
  }
  waiting_++;
  {
    P::local<core::waiter> me;
    const bool acquired = credits.wait(*me, {}, [&] {
      const cycles now = s.now();
      if (now >= end_) return core::wait_end::leave;
      P::park_for(me->state, core::waiter::waiting, every_sleeper, s.on().to_ns(end_ - now) + 1);
      return core::wait_end::woken;
    });
    if (acquired) {
      free_--;
      t.count();
    }
  }
  waiting_--;
  waited_for_tokens_ += clipped(before, s.now());
}

/// Returns the work of the step without the transfers of cache lines, which the replay simulates. The recorded work of
/// a section contains such transfers if another thread had the lock before. Their time is only known on average: what
/// exceeds this section's work is subtracted from the next sections (`owed`).
std::uint64_t replay::work_without_transfers(reader& me, const step& s) {
  if (s.what != step_kind::unlock || me.held[s.held].it == nullptr || me.held[s.held].it->lines.empty()) return s.work;
  if (s.handed_over) me.owed = std::min(me.owed + lines_[s.on] * plan_.machine.transfer_ns, most_owed_ns);
  const auto taken = std::min(s.work, std::uint64_t(me.owed));
  me.owed -= double(taken);
  return s.work - taken;
}

/// Unlocks the mutex, sleeps for this time, and locks the mutex again, like a wait on a condition.
void replay::sleep_without(held_instance& h, std::uint64_t ns) {
  simulation& now = simulation::current();
  instance& i = *h.it;
  i.use.held += clipped(h.since, now.now());
  leaves(i, now.now());
  i.exclusive->unlock();
  sleep(ns);
  arrives(i, now.now());
  i.exclusive->lock();
  h.since = now.now();
}

void replay::notify(const step& s) {
  condition& c = conditions_[s.on];
  if (s.opens) {
    c.round++;
    c.done = 0;
    waiting_ -= std::exchange(c.waiting, 0);
    c.it->notify_all();
  } else if (c.tokens != 0 || c.waiting == 0) {  // a signal without a token wakes no thread
    s.to_all ? c.it->notify_all() : c.it->notify_one();
  }
}

/// Executes the call at the end of a step.
void replay::call(sim::world::thread& t, reader& me, const step& s) {
  held_instance* const held = s.held != step::no_mutex ? &me.held[s.held] : nullptr;
  const bool holds = held != nullptr && held->it != nullptr;
  switch (s.what) {
    case step_kind::pass:
      break;
    case step_kind::lock:
    case step_kind::read_lock:
    case step_kind::write_lock:
      take(t, me, s);
      break;
    case step_kind::unlock:
    case step_kind::read_write_unlock:
      if (s.ends != none) end_round(me, s.ends);
      release(*held);
      break;
    case step_kind::wait:
      if (holds) {
        const cycles before = simulation::current().now();
        wait_for_token(t, held->it, s.on);
        held->since += simulation::current().now() - before;
      }
      break;
    case step_kind::sleep:
      holds ? sleep_without(*held, s.asleep) : sleep(s.asleep);
      break;
    case step_kind::notify:
      notify(s);
      break;
    case step_kind::semaphore_wait:
      wait_for_semaphore(t, *semaphores_[s.on]);
      break;
    case step_kind::semaphore_post:
      free_++;
      semaphores_[s.on]->release();
      break;
    case step_kind::barrier_wait:
      wait_at(t, *barriers_[s.on]);
      break;
  }
}

void replay::step_on(sim::world::thread& t, reader& me, const step& s) {
  compute(t, work_without_transfers(me, s));
  if (s.away != 0 && !t.over()) sleep(s.away);
  if (t.over()) return;
  if (s.tokens != none) post(s.tokens);
  call(t, me, s);
}

void replay::run(sim::world::thread& t) {
  if (t.index() >= role_of_.size()) return;
  reader me;
  me.of = &plan_.roles[role_of_[t.index()]];
  const role& of = *me.of;
  // Draws a time in the role's tape, with a resolution of 2^-31 of its length. The thread begins at the last possible
  // start before that time.
  const std::uint64_t drawn = t.uniform(0x80000000u);
  const auto at = std::uint64_t(static_cast<double>(of.time) * static_cast<double>(drawn) / 2147483648.0);
  const auto after = std::upper_bound(of.start_times.begin(), of.start_times.end(), at);
  me.at = of.starts[std::size_t(std::max<std::ptrdiff_t>(after - of.start_times.begin(), 1) - 1)];
  std::uint64_t idle_steps = 0;
  while (!t.over()) {
    const step& s = of.tape[me.at];
    const cycles before = simulation::current().now();
    step_on(t, me, s);
    me.at = me.at + 1 == of.tape.size() ? 0 : me.at + 1;
    // Guarantees progress on a tape whose steps all take no time.
    idle_steps = simulation::current().now() == before ? idle_steps + 1 : 0;
    if (idle_steps > of.tape.size()) compute(t, 100);
  }
  for (std::size_t i = most_held; i-- != 0;) release(me.held[i]);
}

std::vector<lock_use> replay::uses(cycles end) {
  std::vector<lock_use> all;
  for (const std::unique_ptr<instance>& i : instances_) {
    if (i->wanting != 0) i->use.wanted += clipped(i->since, end);
    all.push_back(std::move(i->use));
  }
  return all;
}

}  // namespace usher::predict
