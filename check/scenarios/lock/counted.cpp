// Plain, stray, try, timed, no-nodes: each thread acquires the lock twice, in the ways that the scenario allows, and adds
// one to a plain counter. The thread with the last acquisition ends the lock's life after its unlock has returned. The
// life of a lock with `touched_after_hand_over` ends after all threads.
#include "check/scenarios/lock/lock_program.hpp"

namespace usher::check {

void counted_program::thread(unsigned) {
  const std::uint32_t last = threads * acquisitions;
  for (unsigned i = 0; i < acquisitions; i++) {
    acquire();
    const std::uint32_t n = acquired.get() + 1;
    acquired.set(n);
    world.gather(crowd, nobody);
    hold();
    if (the_lock->has_certain_successor != nullptr && the_lock->has_certain_successor(state()) && n == last)
      fail("has_certain_successor() is true, and no other thread comes");
    if (the_lock->unlock_is_due != nullptr && n == last && the_lock->unlock_is_due(state()))
      fail("unlock_is_due() is true, and no other thread comes");
    release();
    if (n == last) {
      if (crowd == 0) expect_free();
      end_life();
    }
  }
  world.goes_home();
}

lock_program* lock_programs::counted(unsigned threads) {
  return begin<counted_program>(threads);
}

}  // namespace usher::check
