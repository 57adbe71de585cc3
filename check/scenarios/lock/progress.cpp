// Progress, for locks without starvation. The schedule is as unfavourable to the held-back thread as fairness allows
// (checker_scheduler.hpp). If other threads can keep a thread from the lock's doorway, the schedule is unfavourable only
// after the doorway. An owner unlocks only when others wait, the clock may leap or creep, and random draws are
// unfavourable to the thread. No wake-up is spurious. All scenarios check the bounds on bypass; in this one a waiter can
// be overtaken often.
#include "check/scenarios/lock/progress_program.hpp"

namespace usher::check {

void progress_program::choose_course() {
  if (threads > 2 && rl::rand(3) == 0) stays_home = (the_search.held_back + 1 + rl::rand(threads - 1)) % threads;
}

void progress_program::thread(unsigned t) {
  if (stays_away(t)) return world.goes_home();
  t == the_search.held_back ? come_once() : come_again();
}

void progress_program::come_in() {
  world.wants(true);
  the_search.helped = !the_lock->traits->bounded_doorway && the_search.against != search::adversary::late;
  the_lock->lock(state());
  the_search.helped = false;
}

void progress_program::come_once() {
  come_in();
  is_in.set(1);
  the_lock->unlock(state());
  world.goes_home();
}

void progress_program::come_again() {
  for (bool over = false; !over;) {
    approach();
    the_search.inside++;
    world.wants(true);
    pass_in();
    world.wants(false);
    over = is_in.get() != 0;
    see_pass(over);
    the_search.held = true;  // the scheduler reads it, the program does not
    acquired.set(acquired.get() + 1);
    if (!over) world.gather(crowd, the_search.held_back);
    linger();
    the_search.held = false;
    the_lock->unlock(state());
    the_search.inside--;
  }
  world.goes_home();
}

lock_program* lock_programs::progress(unsigned threads) {
  return begin<progress_program>(threads);
}

}  // namespace usher::check
