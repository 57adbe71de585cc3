// std::lock_guard, compiled as users compile their programs: if the unlock is the last action of a function, the
// compiler may make it a tail call, and the function then has no frame on the stack.
#include <mutex>
#include <thread>

#include "known_work.hpp"

namespace causes {

std::mutex guarded_mutex, guarded_shards[256];
long guarded_sum = 0;

/// The last action of this function is the unlock.
[[gnu::noinline]] void guarded_section(std::mutex& lock, double us) {
  const std::lock_guard guard(lock);
  burn(us);
  guarded_sum = guarded_sum + 1;
}

void start_guarded() {
  start(plan.threads, [] {
    while (!stopped()) {
      guarded_section(removed("lock") ? guarded_shards[self] : guarded_mutex, about(plan.hold_us));
      between(plan.gap, plan.gap_us);
      count();
    }
  });
}

/// Each operation starts a thread whose last action is the unlock. So the caller of the unlock is in the C++ library.
void start_guarded_threads() {
  start(plan.threads, [] {
    while (!stopped()) {
      std::mutex& lock = removed("lock") ? guarded_shards[self] : guarded_mutex;
      std::thread(guarded_section, std::ref(lock), about(plan.hold_us)).join();
      between(plan.gap, plan.gap_us);
      count();
    }
  });
}

}  // namespace causes
