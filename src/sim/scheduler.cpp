#include "sim/scheduler.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "sim/trace.hpp"

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
  processor& p = cpus_[cpu];
  if (begin != 0) {
    engine_.push(begin + engine_.chance().below(start_skew), event_kind::ready, t);
  } else if (p.runs == nullptr) {
    start(p, t, engine_.chance().below(start_skew));
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

/// Queues events for the next interruptions of a CPU that runs a thread. An idle CPU has none. If all threads wait, the
/// engine ends the run although CPUs of spinning threads are interrupted.
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

/// Takes the CPU from a thread that sleeps or has ended. The CPU then runs the first thread of its queue, or of the
/// longest other queue if its own is empty.
void scheduler::release_cpu(simulated_thread& t, cycles at) {
  const activity does = std::exchange(t.does, activity::works);  // the pipelines count it as working
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

void scheduler::make_ready(simulated_thread& t, cycles at) {
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

/// Returns the CPU on which the thread ran last, if it is idle; else the idle CPU whose core has the least work,
/// preferably in the thread's socket; null if no CPU is idle.
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

/// Returns by how much a wake-up is delayed because the CPU that the thread will get has been idle for long.
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
  if (p.slice_ends) return;
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
    t.deadline = t.now + limit;
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
  t.deadline = t.now + std::max<cycles>(n, 1);
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
  counts_.involuntary++;  // as Linux counts it
  stop(t, t.now);
  p.queue.push_back(&t);
  simulated_thread& after = *p.queue.front();
  p.queue.pop_front();
  start(p, after, t.now);
  engine_.give_way();
}

}  // namespace usher::sim
