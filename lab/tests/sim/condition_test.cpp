// Tests of the condition variable and of the mutex to which its waiters are requeued, on a simulated machine. They run
// the shipped code, core/condition_core.hpp and core/wait_morphing.hpp. No token may be lost, and a thread that is
// notified under the mutex must not be woken before the mutex is free.
#include <gtest/gtest.h>

#include "known_machine.hpp"
#include "lab/sim/harness.hpp"
#include "lab/sim/runtime.hpp"
#include "lab/sim/simulated_platform.hpp"
#include "usher/core/condition_core.hpp"
#include "usher/locks/loiter.hpp"
#include "usher/locks/mcs.hpp"
#include "usher/locks/steady.hpp"
#include "usher/locks/ticket.hpp"

namespace usher::sim {
namespace {

machine small() {
  machine m = known_machine("epyc-7003");
  m.sockets = 2;
  m.cores = 2;
  m.hardware_threads = 1;
  m.complexes = 1;
  m.os->slice = m.from_ns(100000);
  return m;
}

template <class Mutex>
struct shared_words {
  Mutex mutex;
  basic_condition_variable<simulated> condition;
  simulated_plain<std::uint32_t> tokens, waiting;
};

/// Takers wait for tokens. A poster adds tokens under the mutex, notifies, and holds the mutex for a while longer.
/// Returns the number of times that threads slept.
template <class Mutex>
std::uint64_t voluntary_switches(bool all_at_once, std::uint64_t seed) {
  constexpr unsigned takers = 6, rounds = 20;
  simulation s(small(), seed);
  runtime p(s, takers + 1);
  auto& w = *s.shared().template make_array<shared_words<Mutex>>(1, 128);
  unsigned taken = 0;
  for (unsigned t = 0; t < takers; t++)
    s.add_thread(t % 4, [&] {
      for (unsigned r = 0; r < rounds; r++) {
        w.mutex.lock();
        w.waiting.set(w.waiting.get() + 1);
        while (w.tokens.get() == 0) w.condition.wait(w.mutex);
        w.tokens.set(w.tokens.get() - 1);
        taken++;
        w.mutex.unlock();
        s.compute(20000);
      }
    });
  s.add_thread(3, [&] {
    for (unsigned given = 0; given < takers * rounds;) {
      w.mutex.lock();
      const unsigned now = all_at_once ? w.waiting.get() : std::min(w.waiting.get(), 1u);
      w.waiting.set(w.waiting.get() - now);
      w.tokens.set(w.tokens.get() + now);
      given += now;
      all_at_once ? w.condition.notify_all() : w.condition.notify_one();
      s.compute(30000);  // with the mutex still held
      w.mutex.unlock();
      s.compute(10000);
    }
  });
  s.run();
  EXPECT_EQ(taken, takers * rounds);
  return s.counted().voluntary;
}

template <template <class, class> class Lock>
using bare = Lock<simulated, waiting<simulated, waiting_kind::park>>;
template <template <class, class> class Lock>
using requeueing = requeue_mutex<simulated, bare<Lock>>;

/// Returns how often threads sleep in runs with thirty seeds. With only a few seeds, under a lock that restricts
/// concurrency, either variant (with or without requeueing) may sleep less by chance.
template <class Mutex>
std::uint64_t sleeps(bool all_at_once) {
  std::uint64_t sum = 0;
  for (unsigned seed = 1; seed <= 30; seed++) sum += voluntary_switches<Mutex>(all_at_once, seed);
  return sum;
}

constexpr double most_by_chance = 1.05;

/// Tests that requeueing avoids sleeps: without it, a thread that is notified under the mutex wakes, finds the mutex
/// held, and sleeps again.
template <template <class, class> class Lock>
void sleeps_less_where_it_is_requeued(std::initializer_list<bool> all_at_once = {false, true}) {
  for (const bool all : all_at_once)
    EXPECT_LT(double(sleeps<requeueing<Lock>>(all)), (all ? most_by_chance : 1) * double(sleeps<bare<Lock>>(all)))
        << (all ? "all" : "one");
}

TEST(condition_variable, requeues_to_mcs) {
  sleeps_less_where_it_is_requeued<mcs>();
}
TEST(condition_variable, requeues_to_ticket) {
  sleeps_less_where_it_is_requeued<ticket>();
}
TEST(condition_variable, requeues_to_a_lock_that_restricts) {
  sleeps_less_where_it_is_requeued<loiter>();
  // steady is tested only with one notification at a time. If all threads are notified at once, most sleeps are the
  // naps of the standby, with and without requeueing.
  sleeps_less_where_it_is_requeued<steady>({false});
}

}  // namespace
}  // namespace usher::sim
