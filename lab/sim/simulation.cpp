#include "lab/sim/simulation.hpp"

#include <utility>

namespace usher::sim {

simulation::simulation(machine m, std::uint64_t seed)
    : machine_(std::move(m)),
      pipelines_(machine_),
      engine_(*this, seed),
      work_(machine_, engine_, pipelines_),
      access_(machine_, arena_, engine_, pipelines_),
      scheduler_(machine_, engine_, access_, pipelines_) {
  current_ = this;
}

simulation::~simulation() {
  engine_.remove_threads();  // fibers are unwound while all other parts exist
  current_ = nullptr;
}

void simulation::add_thread(unsigned cpu, std::function<void()> body, bool urgent, cycles begin) {
  scheduler_.check(cpu);
  simulated_thread& t = engine_.add_thread([this, body = std::move(body)] {
    body();
    access_.drain();
    engine_.sync();
  });
  scheduler_.place(t, cpu, urgent, begin);
}

void simulation::set_trace(trace* t) {
  trace_ = t;
  access_.set_trace(t);
  scheduler_.set_trace(t);
}

void simulation::run() {
  current_ = this;
  engine_.run();
}

void simulation::happens(const event& e) {
  if (e.kind == event_kind::slice) return scheduler_.end_slice(e.of, e.time);
  if (e.kind == event_kind::tick || e.kind == event_kind::daemon) return scheduler_.interrupt(e.of, e.kind, e.time);
  if (e.kind == event_kind::clock) return scheduler_.clock();
  simulated_thread& t = engine_.thread(e.of);
  switch (e.kind) {
    case event_kind::poll:
      access_.poll(t, e.time);
      break;
    case event_kind::commit:
      access_.commit(t, e.epoch, e.time);
      break;
    case event_kind::ready:
      scheduler_.make_ready(t, e.time);
      break;
    case event_kind::expire:
      t.timed_out = true;
      t.deadline = 0;
      if (t.does == activity::sleeps)
        scheduler_.time_out(t, e.time);
      else
        access_.give_up(t, e.time);
      break;
    default:
      break;
  }
}

simulation::counts simulation::counted() const {
  const engine::counts& e = engine_.counted();
  const access::counts& a = access_.counted();
  const scheduler::counts& s = scheduler_.counted();
  return {e.events + a.accesses, e.fiber_switches, a.polls,         a.writes,     s.voluntary,
          s.involuntary,         s.migrations,     a.fetched_ahead, a.lost_ahead, work_.without_pipeline()};
}

std::vector<std::string> simulation::what_threads_do() const {
  std::vector<std::string> texts;
  for (unsigned i = 0; i < engine_.threads(); i++) {
    const simulated_thread& t = engine_.thread(i);
    std::string text = t.does == activity::works     ? "works"
                       : t.does == activity::ended   ? "has ended"
                       : t.does == activity::spins   ? "spins on "
                       : t.waits_for.word == nullptr ? "sleeps"
                                                     : "sleeps on ";
    if (text.ends_with("on ")) text += arena_.name_of(t.waits_for.word);
    text += (t.on_cpu ? ", CPU " : ", without a CPU, last on ") + std::to_string(t.cpu) + ", core " +
            std::to_string(t.core) + ", socket " + std::to_string(t.socket);
    texts.push_back(std::move(text));
  }
  return texts;
}

bool simulation::is_stuck() const {
  for (unsigned i = 0; i < engine_.threads(); i++) {
    const simulated_thread& t = engine_.thread(i);
    if (t.does == activity::works || t.deadline != 0) return false;
  }
  return true;
}

std::string simulation::what_is_waited_for() const {
  std::string text = "deadlock: no thread can continue";
  for (unsigned i = 0; i < engine_.threads(); i++) {
    const simulated_thread& t = engine_.thread(i);
    if (t.does == activity::ended) continue;
    text += "; thread " + std::to_string(t.id);
    if (t.does == activity::works)
      text += " works";
    else
      text += (t.does == activity::spins ? " spins on word " : " sleeps on word ") +
              std::to_string(arena_.offset_of(t.waits_for.word));
  }
  return text;
}

}  // namespace usher::sim
