// Foreign: a thread unlocks a mutex that another thread has locked, while the other thread signals.
#include "check/scenarios/queue/queue_program.hpp"

namespace usher::check {
namespace {

class foreign_unlock_program : public queue_program {
 public:
  explicit foreign_unlock_program(unsigned threads) : queue_program(threads) { m.unlocked_by_others = true; }

  void thread(unsigned t) override {
    t == 0 ? take_one() : t == 1 ? signal_while_unlocked() : t == 2 ? unlock_anothers() : void();
  }

 private:
  void take_one() {
    lock();
    while (tokens.get() == 0) wait_for_ever();
    tokens.set(0);
    unlock();
  }
  void signal_while_unlocked() {
    lock();
    tokens.set(1);
    if (threads == 2) return announce(true), unlock();
    handed_over.store(1, std::memory_order_release);
    if (void* const w = select(false)) the_queue->deliver(w);
  }
  void unlock_anothers() {
    checked::await(
        handed_over, [](std::uint32_t h) { return h == 1; }, std::memory_order_acquire, pacing::polling);
    unlock();
  }
};

}  // namespace

queue_program* begin_foreign_unlock(unsigned threads) {
  return begin<foreign_unlock_program>(threads);
}

}  // namespace usher::check
