// Ranks, for locks that promise it: threads have priorities. Threads that sleep when the owner unlocks must be admitted by
// priority.
#include "check/scenarios/lock/lock_program.hpp"

namespace usher::check {
namespace {

class ranks_program : public counted_program {
 public:
  using counted_program::counted_program;

 private:
  unsigned choose_crowd() override { return 0; }
  void choose_roles() override {
    for (unsigned t = 0; t < threads; t++) world.set_priority(t, rl::rand(3));
  }
  void before_unlock() override { world.let_sleepers_in_by_priority(); }
};

}  // namespace

lock_program* lock_programs::ranks(unsigned threads) {
  return begin<ranks_program>(threads);
}

}  // namespace usher::check
