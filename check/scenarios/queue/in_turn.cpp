// In-turn: the threads take turns; each has several waiters, so that many wait at once.
#include "check/scenarios/queue/queue_program.hpp"

namespace usher::check {
namespace {

class in_turn_program : public queue_program {
 public:
  explicit in_turn_program(unsigned threads) : queue_program(threads) {}

  void thread(unsigned t) override { take_turns(t); }

 private:
  /// A waiter of a thread that does not block: the thread polls the waiter when its turn comes.
  struct waiting {
    void* at = nullptr;
    unsigned thread = 0;
  };

  void take_turns(unsigned t) {
    for (;;) {
      checked::await(
          turn, [t](std::uint32_t v) { return v == t; }, std::memory_order_acquire, pacing::polling);
      const bool over = steps == 0 && std::ranges::all_of(places, [](const auto& p) { return p.at == nullptr; });
      if (!over) step(t);
      unsigned next = over ? (t + 1) % threads : rl::rand(threads);
      for (const auto& p : places)
        if (p.at != nullptr && record_of(p.at).is_awake &&
            (record_of(p.at).state == record::handed_over || rl::rand(2) == 0)) {
          next = p.thread;  // the waiter may own the mutex
          if (record_of(p.at).state == record::handed_over) break;
        }
      turn.store(next, std::memory_order_release);
      if (over) return;
    }
  }

  void step(unsigned t) {
    if (steps != 0) steps--;
    // In its turn, the thread returns from a wait, gives up a wait, or only locks the mutex.
    waiting* mine = nullptr;
    for (auto& p : places) {
      if (p.at == nullptr || p.thread != t) continue;
      const record& r = record_of(p.at);
      if (r.state == record::handed_over)
        mine = &p;
      else if (mine == nullptr && (r.is_awake ? steps == 0 || rl::rand(2) == 0 : r.is_listed() && rl::rand(8) == 0))
        mine = &p;
      if (r.state == record::handed_over) break;
    }
    mine != nullptr ? come_back(*mine) : lock();
    for (unsigned i = steps == 0 ? 0 : rl::rand(5); i != 0; i--) {
      const auto free = std::ranges::find(places, static_cast<void*>(nullptr), &waiting::at);
      if (rl::rand(3) == 0)
        announce(true);
      else if (free != places.end())
        come(*free, t);
    }
    if (steps == 0)
      if (void* const chain = select(true)) the_queue->deliver(chain);
    unlock();
    if (steps != 0 && rl::rand(8) == 0) announce(false);
  }

  void come(waiting& p, unsigned t) {
    record& r = begin_waiter({.number = ++arrivals, .priority = world.priority_of(t)});
    p = {r.at, t};
    the_queue->enter(r.at, queue(), m, chance());
    r.listed = true;
    arrived_after[t] = arrivals;
  }

  void come_back(waiting& p) {
    void* const w = p.at;
    record& r = record_of(w);
    const bool granted = the_queue->await_grant(w, manner::timed, 0, gave_up[p.thread]);
    if (granted != r.was_selected) fail("a wait does not return whether a signal has reached it");
    the_queue->come_back(w, granted, 0);
    see_lock();
    p.at = nullptr;
    end_waiter(r);
  }

  std::array<waiting, 10> places;
};

}  // namespace

queue_program* begin_in_turn(unsigned threads) {
  return begin<in_turn_program>(threads);
}

}  // namespace usher::check
