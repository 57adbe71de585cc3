// Forked: the process forks at any moment. At the fork, thread 0 is outside the lock's operations and may own the lock. In
// the child thread 0 renews the lock as libusher.so renews a mutex, and continues with the child's own threads.
#include "check/scenarios/lock/lock_program.hpp"

namespace usher::check {
namespace {

class forked_program : public lock_program {
 public:
  using lock_program::lock_program;

  void thread(unsigned t) override {
    world.run([&] { t == 0 ? fork_once() : acquire_in_turn(); });
  }

 private:
  /// Draws the time of the fork, and whether each thread belongs to the parent or the child. Thread 1 belongs to the
  /// parent.
  void choose_roles() override {
    unsigned of_child = 1;
    for (unsigned t = 2; t < threads; t++)
      if (rl::rand(2) == 0) {
        world.begins_after(t, 1);
        of_child++;
      }
    in_all = of_child * acquisitions;
    forks_at = rl::rand(2 * acquisitions + 1);
  }

  void fork_once() {
    for (unsigned i = 0;; i++) {
      if (forks_at == 2 * i) return go_on_in_child(false);
      acquire();
      acquired.set(acquired.get() + 1);
      if (forks_at == 2 * i + 1) return go_on_in_child(true);
      release();
    }
  }

  void go_on_in_child(bool holding) {
    world.fork(node_pool::anew);
    inflated_lost = !world.inflated_is_free();
    the_lock->end(state());
    the_lock->make(state());  // the child finds zero bytes
    if (holding)
      while (!the_lock->try_lock(state())) checked::backoff(0);
    acquired.set(0);
    world.start_threads();
    if (holding) count_and_release();
    acquire_in_turn(holding ? 1 : 0);
  }

  /// Makes the thread's remaining acquisitions. `done`: its acquisitions so far.
  void acquire_in_turn(unsigned done = 0) {
    const bool in_parent = world.forks() == 0;
    for (unsigned i = done; i < acquisitions; i++) {
      acquire();
      if (!in_parent) {
        count_and_release();
        continue;
      }
      acquired.set(acquired.get() + 1);
      release();
    }
  }

  void count_and_release() {
    const std::uint32_t n = acquired.get() + 1;
    acquired.set(n);
    release();
    if (n == in_all) end_life();
  }

  unsigned forks_at = 0;
};

}  // namespace

lock_program* lock_programs::forked(unsigned threads) {
  return begin<forked_program>(threads);
}

}  // namespace usher::check
