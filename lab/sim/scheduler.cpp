#include "lab/sim/scheduler.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "lab/sim/trace.hpp"

namespace usher::sim {
namespace {

constexpr cycles start_skew = 2000;  // the largest random delay of a thread's beginning

bool spins(const simulated_thread& t) {
  return t.does == activity::spins;
}

}  // namespace

void scheduler::check(unsigned cpu) const {
  if (cpu >= cpus_.size())
    throw bad_machine(machine_.file_or_name() + ": there is no CPU " + std::to_string(cpu) + ", there are " +
                      std::to_string(cpus_.size()));
  if (machine_.os) return;
  for (unsigned i = 0; i < engine_.threads(); i++)
    if (engine_.thread(i).cpu == cpu)
      throw bad_machine(machine_.file_or_name() + ": more threads than CPUs need a section [scheduler]");
}

void scheduler::place(simulated_thread& t, unsigned cpu, bool urgent, cycles begin) {
  t.urgent = urgent;
  put_on(t, cpu);
  if (sharing_) sharing_->begin(t.share, urgent);
  processor& p = cpus_[cpu];
  if (begin != 0) {
    engine_.push(begin + engine_.chance().below(start_skew), event_kind::ready, t);
  } else if (p.runs == nullptr) {
    start(p, t, engine_.chance().below(start_skew));
  } else if (sharing_) {
    queue_on(cpu, t, end_of_queue::back, 0);
  } else {
    p.queue.push_back(&t);
    watch_slice(cpu);
  }
}

void scheduler::put_on(simulated_thread& t, unsigned cpu) const {
  t.cpu = cpu;
  t.core = cpu / machine_.hardware_threads;
  t.socket = t.core / machine_.cores;
}

cycles scheduler::cpu_time(cycles now) const {
  cycles sum = cpu_time_;
  for (const processor& p : cpus_)
    if (p.runs != nullptr && p.runs->on_cpu_since < now) sum += now - p.runs->on_cpu_since;
  return sum;
}

void scheduler::end(simulated_thread& t) {
  t.does = activity::ended;
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes(trace::what::ends, t.id, t.now, nullptr);
  release_cpu(t, t.now);
}

void scheduler::time_out(simulated_thread& t, cycles at) {
  std::erase(sleepers_, &t);
  make_ready(t, at);
}

void scheduler::start(processor& p, simulated_thread& t, cycles at) {
  if (p.runs == nullptr) idle_cpus_--;
  const cycles context_switch = machine_.os ? machine_.os->context_switch : 0;
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes_cpu(trace::what::gets_cpu, t.id, at, t.cpu, context_switch);
  p.runs = &t;
  p.slice_end = at + context_switch + (machine_.os ? machine_.os->slice : 0);
  run(t, at, context_switch);
  if (machine_.os) watch_interrupts(t.cpu, at);
  if (!p.queue.empty()) watch_slice(t.cpu);
}

/// Lets the thread continue on its CPU after the delay.
void scheduler::run(simulated_thread& t, cycles at, cycles delay) {
  t.on_cpu = true;
  t.on_cpu_since = at;
  t.epoch++;
  t.now = at + delay + t.owed;
  t.owed = 0;
  if (spins(t) && t.deadline != 0 && t.now >= t.deadline) {
    t.does = activity::works;
    t.timed_out = true;
    t.deadline = 0;
    t.watched = nullptr;
  }
  pipelines_.add(t.core, spins(t));
  if (spins(t)) {
    engine_.push(t.now, event_kind::poll, t);
    if (t.deadline != 0) engine_.push(t.deadline, event_kind::expire, t);
  } else {
    engine_.push(t.now, event_kind::resume, t);
  }
}

/// Queues events for the next interruptions of a CPU that runs a thread; an idle CPU is not interrupted. If all threads
/// wait, the engine ends the run although CPUs with spinning threads are still interrupted.
void scheduler::watch_interrupts(unsigned cpu, cycles at) {
  const machine::scheduler& os = *machine_.os;
  processor& p = cpus_[cpu];
  // tick_cpus of the CPUs have a timer, at equal distances.
  const bool has_timer = os.tick_cpus == 0 || std::size_t{cpu} * os.tick_cpus % cpus_.size() < os.tick_cpus;
  if (os.tick_period != 0 && !p.ticks && has_timer) {
    p.ticks = true;
    // The CPUs' timers are out of phase by parts of the period.
    const cycles phase = os.tick_period / cpus_.size() * cpu;
    const cycles next = (at + os.tick_period - phase) / os.tick_period * os.tick_period + phase;
    engine_.push({std::max(next, at + 1), engine_.tie(), 0, cpu, event_kind::tick});
  }
  if (os.daemon_period != 0 && !p.daemons) {
    p.daemons = true;
    constexpr cycles unit = 4096;  // keeps the product in exponential() below 2^64
    engine_.push({at + 1 + engine_.chance().exponential(os.daemon_period / unit) * unit, engine_.tie(), 0, cpu,
                  event_kind::daemon});
  }
}

void scheduler::interrupt(unsigned cpu, event_kind by, cycles at) {
  processor& p = cpus_[cpu];
  (by == event_kind::tick ? p.ticks : p.daemons) = false;
  if (p.runs == nullptr) return;
  const machine::scheduler& os = *machine_.os;
  simulated_thread& t = *p.runs;
  stop(t, at);
  const cycles length = by == event_kind::tick ? os.tick : os.context_switch + engine_.chance().exponential(os.daemon);
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes_cpu(trace::what::gets_cpu, t.id, at, t.cpu, length);
  run(t, at, length);
  watch_interrupts(cpu, at);
}

/// Takes the thread's CPU away.
void scheduler::stop(simulated_thread& t, cycles at) {
  if (spins(t)) access_.stop_watching(t);
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes_cpu(trace::what::loses_cpu, t.id, at, t.cpu);
  pipelines_.remove(t.core, spins(t));
  t.owed = t.does == activity::works && t.now > at ? t.now - at : 0;
  t.on_cpu = false;
  cpu_time_ += at - std::min(at, t.on_cpu_since);
  t.epoch++;
}

/// Returns the CPU from whose queue an idle CPU takes the first thread, preferably one in the same socket: the CPU with
/// the longest queue or, with the time-sharing class, with the highest priority in its queue. Null if all queues are
/// empty.
scheduler::processor* scheduler::queue_to_take_from(unsigned cpu) {
  processor* from = nullptr;
  if (!sharing_) {
    for (processor& other : cpus_)
      if (!other.queue.empty() && (from == nullptr || other.queue.size() > from->queue.size())) from = &other;
    return from;
  }
  const unsigned own = cpu / cpus_of_socket();
  for (unsigned s = 0; s < machine_.sockets && from == nullptr; s++) {
    const unsigned first = (own + s) % machine_.sockets * cpus_of_socket();
    for (unsigned i = 1; i <= cpus_of_socket(); i++) {
      processor& other = cpus_[first + (cpu + i) % cpus_of_socket()];
      if (best(other) > (from == nullptr ? -1 : best(*from))) from = &other;
    }
  }
  return from;
}

/// Takes the CPU from a thread that sleeps or has ended. The CPU then runs the first thread of its own queue or, if
/// that is empty, of another CPU's queue.
void scheduler::release_cpu(simulated_thread& t, cycles at) {
  count_ticks_until(at);
  const activity does = std::exchange(t.does, activity::works);  // the pipelines count it as working
  stop(t, at);
  t.does = does;
  t.owed = 0;
  t.share.left_cpu = at;
  processor& p = cpus_[t.cpu];
  p.runs = nullptr;
  p.idle_since = at;
  idle_cpus_++;
  if (p.queue.empty() && machine_.os && machine_.os->migrate) {
    if (processor* const from = queue_to_take_from(t.cpu)) {
      simulated_thread& stolen = *from->queue.front();
      from->queue.pop_front();
      move(stolen, t.cpu);
      p.queue.push_back(&stolen);
    }
  }
  if (p.queue.empty()) return;
  simulated_thread& after = *p.queue.front();
  p.queue.pop_front();
  start(p, after, at);
}

void scheduler::make_ready(simulated_thread& t, cycles at) {
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes(trace::what::ready, t.id, at, nullptr);
  t.does = activity::works;
  t.now = std::max(t.now, at);
  count_ticks_until(at);
  if (sharing_) sharing_->wake(t.share);
  if (processor* const p = idle_for(t)) {
    const auto cpu = unsigned(p - cpus_.data());
    if (cpu != t.cpu) move(t, cpu);
    start(*p, t, at);
  } else if (sharing_) {
    queue_up(t, at);
  } else if (t.urgent && !cpus_[t.cpu].runs->urgent) {
    cpus_[t.cpu].queue.push_front(&t);
    preempt(cpus_[t.cpu], at);
  } else {
    cpus_[t.cpu].queue.push_back(&t);
    watch_slice(t.cpu);
  }
}

/// Returns the CPU on which the thread ran last, if that CPU is idle; otherwise the idle CPU whose core has the least
/// work, preferably in the thread's socket; null if no CPU is idle.
scheduler::processor* scheduler::idle_for(const simulated_thread& t) {
  if (cpus_[t.cpu].runs == nullptr) return &cpus_[t.cpu];
  if (idle_cpus_ == 0 || !machine_.os->migrate) return nullptr;
  processor* best = nullptr;
  unsigned least = ~0u;
  for (unsigned c = 0; c < cpus_.size(); c++) {
    if (cpus_[c].runs != nullptr) continue;
    const unsigned core = c / machine_.hardware_threads;
    const unsigned load = 2 * pipelines_.busy(core) + unsigned(core / machine_.cores != t.socket);
    if (load < least) {
      least = load;
      best = &cpus_[c];
    }
  }
  return best;
}

/// Returns the delay of a wake-up that is caused by the depth of the idle CPU's sleep: the longer the CPU has been
/// idle, the longer it takes to run the thread.
cycles scheduler::to_awake(const simulated_thread& t, cycles now) {
  const machine::scheduler& os = *machine_.os;
  if (os.idle_after.empty()) return 0;
  const processor* const p = idle_for(t);
  if (p == nullptr) return 0;
  const cycles idle = now - std::min(now, p->idle_since);
  cycles exit = 0;
  for (std::size_t i = 0; i < os.idle_after.size() && idle >= os.idle_after[i]; i++) exit = os.idle_exit[i];
  return exit;
}

void scheduler::move(simulated_thread& t, unsigned cpu) {
  put_on(t, cpu);
  counts_.migrations++;
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes_cpu(trace::what::moves, t.id, t.now, cpu);
}

/// Called when a thread is queued for the CPU. Queues an event for the end of the running thread's slice.
void scheduler::watch_slice(unsigned cpu) {
  processor& p = cpus_[cpu];
  if (p.slice_ends || sharing_) return;
  p.slice_ends = true;
  engine_.push({p.slice_end, engine_.tie(), 0, cpu, event_kind::slice});
}

void scheduler::end_slice(unsigned cpu, cycles at) {
  processor& p = cpus_[cpu];
  p.slice_ends = false;
  if (p.queue.empty()) return;
  if (at < p.slice_end) return watch_slice(cpu);  // another thread has begun a slice since
  preempt(p, at);
}

/// Gives the CPU to the first thread of its queue.
void scheduler::preempt(processor& p, cycles at) {
  simulated_thread& before = *p.runs;
  counts_.involuntary++;
  stop(before, at);
  p.queue.push_back(&before);
  simulated_thread& after = *p.queue.front();
  p.queue.pop_front();
  start(p, after, at);
}

void scheduler::sleep(const condition& c, std::uint32_t mask, cycles limit) {
  simulated_thread& t = engine_.me();
  if (!machine_.os) throw bad_machine(machine_.file_or_name() + ": a thread that sleeps needs a section [scheduler]");
  t.now += machine_.os->syscall;
  access_.drain();
  access_.load(c.word, c.size);
  t.timed_out = false;
  if (!c.holds(c.context, c.word)) return;
  // No event has been executed since the word was loaded, so no wake-up can be lost.
  counts_.voluntary++;
  t.waits_for = c;
  t.mask = mask;
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes(trace::what::sleeps, t.id, t.now, c.word);
  t.does = activity::sleeps;
  sleepers_.push_back(&t);
  release_cpu(t, t.now);
  if (limit != 0) {
    t.deadline = t.now + std::max(limit, machine_.os->least_sleep);
    engine_.push(t.deadline, event_kind::expire, t);
  }
  engine_.give_way();
}

void scheduler::nap(cycles n) {
  simulated_thread& t = engine_.me();
  if (!machine_.os) throw bad_machine(machine_.file_or_name() + ": a thread that sleeps needs a section [scheduler]");
  t.now += machine_.os->syscall;
  access_.drain();
  engine_.sync();
  counts_.voluntary++;
  t.waits_for = {nullptr, nullptr, nullptr, 0};
  if (trace_ != nullptr) [[unlikely]]
    trace_->notes(trace::what::naps, t.id, t.now, nullptr, n);
  t.does = activity::sleeps;
  sleepers_.push_back(&t);
  release_cpu(t, t.now);
  t.deadline = t.now + std::max({n, machine_.os->least_sleep, cycles{1}});
  engine_.push(t.deadline, event_kind::expire, t);
  engine_.give_way();
}

void scheduler::wake(const void* key, std::uint32_t mask, int most) {
  simulated_thread& t = engine_.me();
  if (!machine_.os) return;  // without a scheduler no thread sleeps
  const machine::scheduler& os = *machine_.os;
  t.now += os.syscall;
  access_.drain();
  engine_.sync();
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
    s.deadline = 0;
    if (trace_ != nullptr) [[unlikely]]
      trace_->wakes(s.id);
    if (os.wake_queued != 0 && idle_for(s) == nullptr) {
      t.now += os.wake_queued;
      engine_.push(t.now, event_kind::ready, s);
      continue;
    }
    engine_.push(t.now + os.latency_least + engine_.chance().exponential(os.latency_mean - os.latency_least) +
                     to_awake(s, t.now),
                 event_kind::ready, s);
    t.now += os.wake;
  }
}

void scheduler::yield() {
  simulated_thread& t = engine_.me();
  if (!machine_.os) {
    t.now += machine_.poll_period;
    return;
  }
  t.now += machine_.os->syscall;
  access_.drain();
  engine_.sync();
  processor& p = cpus_[t.cpu];
  if (p.queue.empty()) return;
  if (sharing_) {
    sharing_->yield(t.share);
    if (best(p) < t.share.priority) return;
    make_room(p, end_of_queue::back, t.now);
    return engine_.give_way();
  }
  counts_.involuntary++;  // as Linux counts it
  stop(t, t.now);
  p.queue.push_back(&t);
  simulated_thread& after = *p.queue.front();
  p.queue.pop_front();
  start(p, after, t.now);
  engine_.give_way();
}

// ---- the time-sharing class ----

/// Returns the CPU of a socket where the highest priority of the running thread and the queue is the lowest; of several
/// such CPUs, the first one from `from` on.
unsigned scheduler::least_important(unsigned socket, unsigned from) const {
  const unsigned first = socket * cpus_of_socket();
  unsigned least = 0;
  int lowest = time_sharing::above + 1;
  for (unsigned i = 0; i < cpus_of_socket(); i++) {
    const unsigned cpu = first + (from + i) % cpus_of_socket();
    const processor& p = cpus_[cpu];
    const int priority = std::max(p.runs == nullptr ? -1 : p.runs->share.priority, best(p));
    if (priority >= lowest) continue;
    lowest = priority;
    least = cpu;
  }
  return least;
}

/// Returns the CPU at which a thread without a CPU queues: the CPU on which it ran last or, if that was long ago, the
/// CPU of its socket with the lowest priority. A CPU in another socket is chosen only if the thread can run there at
/// once, and nowhere in its own socket.
unsigned scheduler::choose(const simulated_thread& t, cycles at) const {
  if (!machine_.os->migrate || ticks(at) - ticks(t.share.left_cpu) <= machine_.os->rechoose_ticks) return t.cpu;
  const auto preempts_at = [&](unsigned cpu) {
    const processor& p = cpus_[cpu];
    return std::max(p.runs == nullptr ? -1 : p.runs->share.priority, best(p)) < t.share.priority;
  };
  const unsigned home = least_important(t.socket, t.cpu);
  if (preempts_at(home)) return home;
  for (unsigned s = 1; s < machine_.sockets; s++) {
    const unsigned away = least_important((t.socket + s) % machine_.sockets, 0);
    if (preempts_at(away)) return away;
  }
  return home;
}

/// Returns the CPU or, if too many threads of this priority are queued at it, the next CPU of its socket.
unsigned scheduler::balance(unsigned cpu, int priority) const {
  if (!machine_.os->migrate) return cpu;
  constexpr int equal_below = 16;     // disp.c: RUNQ_MATCH_PRI
  constexpr std::ptrdiff_t most = 2;  // disp.c: RUNQ_MAX_DIFF
  const auto queued = [&](unsigned at) {
    return std::count_if(cpus_[at].queue.begin(), cpus_[at].queue.end(),
                         [&](const simulated_thread* t) { return t->share.priority == priority; });
  };
  const std::ptrdiff_t length = queued(cpu) - (priority < equal_below ? 0 : most);
  if (length <= 0) return cpu;
  const unsigned first = cpu / cpus_of_socket() * cpus_of_socket();
  const unsigned next = first + (cpu + 1) % cpus_of_socket();
  return queued(next) < length ? next : cpu;
}

/// Queues a woken thread behind the others of its priority, or before them if it left its CPU in this same tick.
void scheduler::queue_up(simulated_thread& t, cycles at) {
  if (ticks(at) == ticks(t.share.left_cpu))
    queue_on(t.cpu, t, end_of_queue::front, at);
  else
    queue_on(balance(choose(t, at), t.share.priority), t, end_of_queue::back, at);
}

/// Queues a thread that has no CPU. It preempts the CPU's thread if its priority is higher.
void scheduler::queue_on(unsigned cpu, simulated_thread& t, end_of_queue where, cycles at) {
  if (cpu != t.cpu) move(t, cpu);
  processor& p = cpus_[cpu];
  if (p.runs == nullptr) return start(p, t, at);
  const bool is_best = t.share.priority > best(p);
  const int least = t.share.priority + (where == end_of_queue::front ? 1 : 0);
  p.queue.insert(std::find_if(p.queue.begin(), p.queue.end(),
                              [&](const simulated_thread* other) { return other->share.priority < least; }),
                 &t);
  if (!std::exchange(clock_runs_, true)) engine_.push({next_tick(), 0, 0, 0, event_kind::clock});
  if (is_best && p.runs->share.priority < t.share.priority) choose_again(p, at);
}

/// Decides whether a CPU goes on with its thread or runs the first thread of its queue.
void scheduler::choose_again(processor& p, cycles at) {
  time_share& own = p.runs->share;
  const bool back = sharing_->give_way(own);
  if (best(p) < own.priority + (back ? 0 : 1)) return;
  make_room(p, back ? end_of_queue::back : end_of_queue::front, at);
}

/// Queues the running thread of a CPU, which then runs the first thread of its queue.
void scheduler::make_room(processor& p, end_of_queue where, cycles at) {
  simulated_thread& before = *p.runs;
  counts_.involuntary++;
  stop(before, at);
  before.share.left_cpu = at;
  simulated_thread& after = *p.queue.front();
  p.queue.pop_front();
  start(p, after, at);
  // `before` does not preempt `after`, whose priority is at least as high.
  queue_on(where == end_of_queue::back ? balance(before.cpu, before.share.priority) : before.cpu, before, where, at);
}

/// Counts the clock ticks up to this time. Ticks are events only while a thread is queued. Otherwise they are counted
/// here, before a CPU changes its thread, so that they do not affect a run in which each thread has a CPU.
void scheduler::count_ticks_until(cycles at) {
  if (!sharing_ || clock_runs_) return;
  while (next_tick() <= at) count_tick();
}

/// Counts one clock tick. Returns whether a thread is queued.
bool scheduler::count_tick() {
  const cycles at = next_tick();
  ticks_++;
  for (processor& p : cpus_)
    if (p.runs != nullptr && sharing_->tick(p.runs->share, best(p))) choose_again(p, at);
  if (ticks_ % machine_.os->update_ticks == 0) update(at);
  return std::any_of(cpus_.begin(), cpus_.end(), [](const processor& p) { return !p.queue.empty(); });
}

void scheduler::clock() {
  clock_runs_ = count_tick();
  if (clock_runs_) engine_.push({next_tick(), 0, 0, 0, event_kind::clock});
}

/// Updates the priorities of all threads. As in Solaris, threads are in 16 lists, and each update begins with another
/// list (ts.c: TS_LISTS, ts_update_marker), since a thread whose priority is raised first is also queued first.
void scheduler::update(cycles at) {
  constexpr unsigned lists = 16;
  bool changed = false;
  for (unsigned i = 0; i < lists; i++)
    for (unsigned id = (updated_first_ + i) % lists; id < engine_.threads(); id += lists)
      changed |= update(engine_.thread(id), at);
  if (changed) updated_first_ = (updated_first_ + 1) % lists;
}

bool scheduler::update(simulated_thread& t, cycles at) {
  if (t.does == activity::ended) return false;
  if (t.on_cpu) {
    if (!sharing_->update(t.share, time_sharing::place::has_cpu)) return false;
    choose_again(cpus_[t.cpu], at);
    return true;
  }
  processor& p = cpus_[t.cpu];
  const auto found = std::find(p.queue.begin(), p.queue.end(), &t);
  if (found == p.queue.end()) return sharing_->update(t.share, time_sharing::place::sleeps);
  if (!sharing_->update(t.share, time_sharing::place::queued)) return false;
  p.queue.erase(found);
  queue_on(balance(choose(t, at), t.share.priority), t, end_of_queue::back, at);
  return true;
}

}  // namespace usher::sim
