// Outrun: `progress` against an adversary. The thread loses every race that it can lose (`beats`), or runs only while
// others hold the lock and wait for it (`late`), so that luck cannot end its wait (checker_scheduler.hpp).
#include "check/scenarios/lock/progress_program.hpp"

namespace usher::check {
namespace {

class outrun_program : public progress_program {
 public:
  using progress_program::progress_program;

 private:
  void choose_course() override {
    progress_program::choose_course();
    world.run_timers();
    stays_home = nobody;
    the_search.against = rl::rand(2) == 0 ? search::adversary::beats : search::adversary::late;
    the_search.reads_newest = rl::rand(2) == 0;
    // Against `beats`, half of the executions have only one other thread that competes. The held-back thread then
    // takes steps only while the lock is free, as it is whenever the other thread is outside.
    the_search.if_free = one_other = the_search.against == search::adversary::beats && rl::rand(2) == 0;
  }
  bool stays_away(unsigned t) override {
    return one_other && t != the_search.held_back && t != (the_search.held_back + 1) % threads;
  }
  void approach() override { rl::yield(1, info(place::current())); }
  void linger() override {
    the_search.turn = the_lock->traits->bounded_doorway ? 1 : 4;
    rl::yield(1, info(place::current()));
    the_search.turn = 0;  // the wake-up by the unlock must not begin a turn
  }

  bool one_other = false;
};

}  // namespace

lock_program* lock_programs::outrun(unsigned threads) {
  return begin<outrun_program>(threads);
}

}  // namespace usher::check
