// Freed, for locks with timed waiters beside them: one thread has no deadline. The others have deadlines that never come,
// and one of them always waits. Every second unlock must free the lock.
#include "check/scenarios/lock/progress_program.hpp"

namespace usher::check {
namespace {

class freed_program : public progress_program {
 public:
  using progress_program::progress_program;

 private:
  void choose_course() override {
    progress_program::choose_course();
    world.count_all();
  }
  void come_in() override {
    world.wants(true);
    the_search.favoured = true;
    the_lock->lock_without_deadline(state());
    the_search.favoured = false;
  }
  void pass_in() override { the_lock->lock_with_deadline(state()); }
  /// The held-back thread, which has no deadline, runs as soon as it can when an unlock frees the lock: only threads that
  /// were granted the lock earlier may acquire it in between.
  void see_pass(bool over) override {
    if (!over && world.is_waiting(the_search.held_back) && ++passes > 8)
      fail("a thread without a deadline waits, and the lock is not freed at each second unlock");
  }
};

}  // namespace

lock_program* lock_programs::freed(unsigned threads) {
  return begin<freed_program>(threads);
}

}  // namespace usher::check
