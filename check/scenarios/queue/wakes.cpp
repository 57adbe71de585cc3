// Wakes: one thread signals only while a thread waits without a limit, and signals again only after a thread has
// returned from its wait. Other threads wait, some with a limit. Neither a thread that leaves nor a thread that arrives
// later may consume a signal without returning because of it.
#include "check/scenarios/queue/queue_program.hpp"

namespace usher::check {
namespace {

class wakes_program : public queue_program {
 public:
  explicit wakes_program(unsigned threads) : queue_program(threads) {}

  void thread(unsigned t) override { t == 0 ? wake_one_by_one() : be_woken_twice(); }

 private:
  void wake_one_by_one() {
    for (unsigned done = 0; done < 2 * (threads - 1);) {
      lock();
      const bool outside = rl::rand(2) == 0, waits = tokens.get() != 0;
      if (waits && !outside) the_queue->signal(queue());
      unlock();
      if (!waits) {
        checked::backoff(0);
        continue;
      }
      if (outside) the_queue->signal(queue());
      checked::await(
          returned, [done](std::uint32_t n) { return n > done; }, std::memory_order_relaxed, pacing::polling);
      done++;
    }
  }

  /// Here `tokens` counts the threads that wait without a limit.
  void be_woken_twice() {
    for (unsigned times = 0; times < 2;) {
      lock();
      if (rl::rand(3) == 0) {
        // `gave_up`: the waiter was cancelled and has forwarded the signal.
        const bool reached = wait(rl::rand(2) == 0 ? manner::timed : manner::cancelled) && !gave_up[rl::thread_index()];
        if (reached) {
          returned.fetch_add(1, std::memory_order_relaxed);
          times++;
        }
      } else {
        tokens.set(tokens.get() + 1);
        wait_for_ever();
        tokens.set(tokens.get() - 1);
        returned.fetch_add(1, std::memory_order_relaxed);
        times++;
      }
      unlock();
    }
  }
};

}  // namespace

queue_program* begin_wakes(unsigned threads) {
  return begin<wakes_program>(threads);
}

}  // namespace usher::check
