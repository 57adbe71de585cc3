// Due, for locks with unlock_is_due(): an owner keeps the lock while others wait, until the lock says that an unlock is
// due. Requeued threads that hand the mutex to each other behave like such an owner: they could keep it without end if its
// lock never said that an unlock is due.
#include "check/scenarios/lock/lock_program.hpp"

namespace usher::check {
namespace {

class due_program : public counted_program {
 public:
  using counted_program::counted_program;

 private:
  void choose_course() override { world.run_timers(); }
  void hold() override {
    if (rl::rand(2) != 0) return;
    bool others_wait = false;
    for (unsigned t = 0; t < threads; t++) others_wait |= t != rl::thread_index() && world.is_waiting(t);
    while (others_wait && !the_lock->unlock_is_due(state())) {
      checked::now();
      checked::backoff(0);
    }
  }
};

}  // namespace

lock_program* lock_programs::due(unsigned threads) {
  return begin<due_program>(threads);
}

}  // namespace usher::check
