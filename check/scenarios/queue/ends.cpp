// Ends: a thread ends the queue's life as soon as the pthread interface allows it, with or without the mutex.
#include "check/scenarios/queue/queue_program.hpp"

namespace usher::check {
namespace {

class ends_program : public queue_program {
 public:
  explicit ends_program(unsigned threads) : queue_program(threads) {}

  void thread(unsigned t) override { t == 0 ? finish() : attend(); }

 private:
  void attend() {
    const auto how = std::array{manner::for_ever, manner::timed, manner::cancelled}[rl::rand(3)];
    lock();
    if (how != manner::for_ever && !flag.get()) wait(how);
    if (how != manner::cancelled)
      while (!flag.get()) wait_for_ever();
    leave_and_unlock();
  }

  /// Selects all waiters, and then ends the queue's life.
  void finish() {
    lock();
    flag.set(1);
    const bool holds = rl::rand(2) == 0;
    if (!holds) leave_and_unlock();
    if (the_scenario->one_by_one) {
      for (unsigned i = 0; i < 2 * threads; i++)
        if (void* const w = select(false, true)) the_queue->deliver(w);
    } else if (void* const first = select(true)) {
      the_queue->deliver(first);
    }
    if (!the_queue->close(queue())) fail("close() says that threads wait, and all were selected");
    world.end_of(the_queues_life);
    if (holds) leave_and_unlock();
  }
};

class woken_ends_program : public queue_program {
 public:
  explicit woken_ends_program(unsigned threads) : queue_program(threads) {}

  void thread(unsigned t) override { t == 0 ? be_woken() : t == 1 ? wake() : void(); }

 private:
  /// A thread that returns from an unlimited wait was woken by the only signal. That signal is complete and no other
  /// thread uses the queue, so this thread may end the queue's life.
  void be_woken() {
    lock();
    flag.set(1);
    if (to_post.get() == 0) return leave_and_unlock();  // wake() has already ended
    wait(manner::for_ever);
    if (!the_queue->close(queue())) fail("close() says that threads wait, and there is none");
    world.end_of(the_queues_life);
    leave_and_unlock();
  }
  void wake() {
    lock();
    to_post.set(0);
    const bool waits = flag.get() != 0;
    leave_and_unlock();
    if (waits) announce(false);
  }
};

}  // namespace

queue_program* begin_ends(unsigned threads) {
  return begin<ends_program>(threads);
}
queue_program* begin_woken_ends(unsigned threads) {
  return begin<woken_ends_program>(threads);
}

}  // namespace usher::check
