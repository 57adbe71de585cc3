// Stopped, for locks that promise it: a thread that waits stops for good, after any of its steps. The others go on.
#include "check/scenarios/lock/lock_program.hpp"

namespace usher::check {
namespace {

class stopped_program : public lock_program {
 public:
  using lock_program::lock_program;

  void thread(unsigned t) override {
    world.run([&] { acquire_and_stop(t); });
  }

 private:
  void choose_course() override { world.run_timers(); }

  /// The stopping thread owns the lock, so the one that it stops does not.
  void acquire_and_stop(unsigned t) {
    for (unsigned i = 0; i < acquisitions; i++) {
      acquire();
      acquired.set(acquired.get() + 1);
      done[t]++;
      for (unsigned steps = rl::rand(16); steps > 0; steps--) checked::backoff(0);  // the others go on with their waits
      if (const unsigned other = the_search.held_back; other != t && rl::rand(2) == 0 && world.stop(other))
        in_all = (threads - 1) * acquisitions + done[other];
      release();
    }
    world.goes_home();
  }

  void check_end() override {
    lock_program::check_end();
    node_lost = in_all != threads * acquisitions;
  }

  std::array<unsigned, execution::most_threads> done{};  ///< acquisitions so far
};

}  // namespace

lock_program* lock_programs::stopped(unsigned threads) {
  return begin<stopped_program>(threads);
}

}  // namespace usher::check
