// Served, for locks with timed waiters beside them: one or two threads have deadlines that never come, the others have
// none, and never leave the lock free. At every second unlock, a thread with a deadline must get the lock.
#include "check/scenarios/lock/progress_program.hpp"

namespace usher::check {
namespace {

class served_program : public progress_program {
 public:
  using progress_program::progress_program;

  void thread(unsigned t) override {
    if (!stays_away(t) && t == second_timed && t != the_search.held_back)
      return come_with_deadline(), world.goes_home();
    progress_program::thread(t);
  }

 private:
  void choose_course() override {
    progress_program::choose_course();
    world.count_all();
    second_timed = (the_search.held_back + threads - 1) % threads;
    if (stays_home == second_timed || threads == 2) second_timed = the_search.held_back;
  }

  void come_with_deadline() {
    for (unsigned i = 0; i < 3; i++) {
      world.wants(true);
      the_lock->lock_with_deadline(state());
      world.wants(false);
      passes = 0;
      the_lock->unlock(state());
    }
    world.wants(true);
  }

  void come_in() override {
    come_with_deadline();
    the_lock->lock_with_deadline(state());
  }
  void pass_in() override { the_lock->lock_without_deadline(state()); }
  /// A thread has announced itself before its second sleep: (4) in timed_waiters.hpp. After that at most three others may
  /// acquire: the owner, one after an unlock that had checked before the announcement, and one more.
  void see_pass(bool) override {
    if ((world.sleeps(the_search.held_back) > 1 || world.sleeps(second_timed) > 1) && ++passes > 3)
      fail("a thread with a deadline waits, and none is served at each second unlock");
  }

  unsigned second_timed = 0;  ///< also locks a few times with a deadline
};

}  // namespace

lock_program* lock_programs::served(unsigned threads) {
  return begin<served_program>(threads);
}

}  // namespace usher::check
