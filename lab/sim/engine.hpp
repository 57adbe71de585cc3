// The event loop of a simulated run: the fibers of its threads, their clocks, and the pending events.
//
// Each simulated thread is a fiber with a clock of its own. A thread continues without a switch while its clock is the
// earliest. Otherwise it queues an event, and the thread of the earliest event continues. So operations on shared words
// happen in the order of simulated time.
//
// The engine executes the events `resume` and `call` itself, and passes all others to its handler.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "lab/sim/event_queue.hpp"
#include "lab/sim/machine.hpp"
#include "lab/sim/random.hpp"
#include "lab/sim/thread.hpp"

namespace usher::sim {

/// Thrown if no thread can continue. The text names the word for which each thread waits.
struct deadlock : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class engine {
 public:
  class handler {
   public:
    /// Executes an event of any kind except `resume` and `call`. The engine drops void events (thread.hpp: `epoch`).
    virtual void happens(const event& e) = 0;
    /// Called when the thread's function has returned. The engine then continues with the next event.
    virtual void ended(simulated_thread& t) = 0;
    /// Whether each thread that has not ended waits for another one without a time limit. Asked after many
    /// interruptions of CPUs without any other event.
    virtual bool is_stuck() const = 0;
    /// Returns the text of a deadlock: what each thread waits for.
    virtual std::string what_is_waited_for() const = 0;

   protected:
    ~handler() = default;
  };

  engine(handler& h, std::uint64_t seed) : handler_(h), random_(seed) {}

  /// Adds a thread with a fiber. The thread begins at its first event `resume`.
  simulated_thread& add_thread(std::function<void()> body);
  /// Schedules a call of the function at that simulated time. The call takes no simulated time. To be called before
  /// run().
  void at(cycles time, std::function<void()> call);
  /// Runs until all threads have ended. Throws deadlock, and any exception that a thread throws.
  void run();
  /// Unwinds the fibers of threads that have not ended.
  void remove_threads() { threads_.clear(); }

  unsigned threads() const { return unsigned(threads_.size()); }
  simulated_thread& thread(unsigned id) { return *threads_[id]; }
  const simulated_thread& thread(unsigned id) const { return *threads_[id]; }
  /// The random numbers of the model. Each thread has a generator of its own for its program.
  random& chance() { return random_; }

  // ---- events ----

  void push(const event& e) { events_.push(e); }
  void push(cycles t, event_kind k, const simulated_thread& of) { events_.push(event_of(t, k, of)); }
  /// Returns a random number for the field `tie` of an event.
  std::uint32_t tie() { return std::uint32_t(random_.bits()); }

  // ---- called by the running thread ----

  simulated_thread& me() const { return *me_; }
  /// Suspends the running thread and switches to the thread of the next event. The running thread must have an event
  /// queued, or another thread must queue one for it later.
  void give_way() { give_way_to(next()); }
  /// Executes all events that are earlier than the running thread's clock.
  void sync() {
    me_->synced = me_->now;
    if (events_.empty() || me_->now < events_.first_time()) return;
    give_way_to(next(events_.exchange(event_of(me_->now, event_kind::resume, *me_))));
  }

  struct counts {
    std::uint64_t events = 0, fiber_switches = 0;
  };
  const counts& counted() const { return counts_; }

 private:
  using fiber = boost::context::fiber;

  event event_of(cycles t, event_kind k, const simulated_thread& of) { return {t, tie(), of.epoch, of.id, k}; }
  simulated_thread* next() {
    event e;
    return events_.pop(e) ? next(e) : nullptr;
  }
  simulated_thread* next(event e);
  void give_way_to(simulated_thread* after);
  fiber end_of_thread();

  handler& handler_;
  random random_;
  event_queue events_;
  std::vector<std::unique_ptr<simulated_thread>> threads_;
  std::vector<std::function<void()>> calls_;
  unsigned living_ = 0;
  simulated_thread* me_ = nullptr;
  fiber main_;
  std::exception_ptr failure_;
  unsigned interruptions_ = 0;  // since the last event of another kind, polls and slices apart
  counts counts_;
};

}  // namespace usher::sim
