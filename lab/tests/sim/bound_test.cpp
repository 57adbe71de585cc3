// Tests the bound on waiting in steady's header: the longest wait of a thread while the other threads retake the lock
// as fast as they can, on simulated machines with one to three NUMA nodes.
#include <gtest/gtest.h>

#include <algorithm>

#include "known_machine.hpp"
#include "lab/sim/harness.hpp"
#include "lab/sim/runtime.hpp"
#include "lab/sim/simulated_platform.hpp"
#include "usher/core/condition_core.hpp"
#include "usher/locks/steady.hpp"

namespace usher::sim {
namespace {

constexpr std::uint64_t microsecond = 1000, millisecond = 1000 * microsecond;  // ns

machine with_nodes(unsigned nodes) {
  machine m = known_machine("epyc-7003");
  m.sockets = nodes;
  m.cores = 4;
  m.hardware_threads = 1;
  m.complexes = 1;
  return m;
}

template <template <class, class> class Lock>
using sleeping = Lock<simulated, waiting<simulated, waiting_kind::spin_then_park>>;
template <template <class, class> class Lock>
using parking = Lock<simulated, waiting<simulated, waiting_kind::park>>;

/// Returns the longest time in ns for which a thread can be the standby (the first waiter in the queue), if each holder
/// keeps the lock for `hold` ns. It includes 100 µs for polling and wake-ups, far more than they take.
std::uint64_t a_turn(std::uint64_t hold) {
  return 4 * millisecond + 2 * hold + 100 * microsecond;
}

/// Returns the bound of steady's header in ns, if at most `before` threads precede the waiting thread.
std::uint64_t bound(unsigned before, std::uint64_t hold, unsigned nodes) {
  const std::uint64_t turns = (before + 1) * a_turn(hold), home = 4 * millisecond;
  return nodes == 1 ? turns : nodes == 2 ? turns + a_turn(hold) + home : nodes * (turns + home);
}

/// Returns the longest wait of any thread in a run of `length` ns, in ns.
template <class Lock>
std::uint64_t longest_wait(unsigned nodes, unsigned threads, std::uint64_t hold, std::uint64_t length) {
  simulation s(with_nodes(nodes), 1);
  runtime p(s, threads);
  Lock& lock = *::new (s.shared().allocate(sizeof(Lock), 128)) Lock{};
  const cycles end = s.on().from_ns(length);
  cycles longest = 0;
  unsigned took_part = 0;
  for (unsigned t = 0; t < threads; t++)
    s.add_thread(t * s.on().cpus() / threads, [&] {
      for (unsigned n = 0; s.now() < end; n++) {
        const cycles came = s.now();
        lock.lock();
        longest = std::max(longest, s.now() - came);
        took_part += n == 0 ? 1 : 0;
        s.compute(s.on().from_ns(hold));
        lock.unlock();
      }
    });
  s.run();
  EXPECT_EQ(took_part, threads);
  return s.on().to_ns(longest);
}

template <class Lock>
void waits_within_the_bound() {
  for (const unsigned nodes : {1u, 2u, 3u})
    for (const std::uint64_t hold : {microsecond, 30 * microsecond, 700 * microsecond, 3 * millisecond}) {
      SCOPED_TRACE(testing::Message() << nodes << " nodes, holds of " << hold << " ns");
      EXPECT_LE(longest_wait<Lock>(nodes, 2, hold, 40 * millisecond), bound(0, hold, 1));
      const unsigned threads = 4 * nodes;
      EXPECT_LE(longest_wait<Lock>(nodes, threads, hold, 60 * millisecond), bound(threads - 2, hold, nodes));
    }
}

TEST(steady_bound, holds_where_it_polls_first) {
  waits_within_the_bound<sleeping<steady>>();
}
TEST(steady_bound, holds_where_it_sleeps_at_once) {
  waits_within_the_bound<parking<steady>>();
}

// ---- requeued threads -------------------------------------------------------------------------------------------

struct waits {
  cycles locking = 0, requeued = 0;  ///< the longest waits
};

/// One thread repeatedly notifies another under the mutex, while other threads take the mutex as fast as they can.
template <class Lock>
waits longest_of_requeued(unsigned others, std::uint64_t hold) {
  struct words {
    requeue_mutex<simulated, Lock> mutex;
    basic_condition_variable<simulated> condition;
    simulated_plain<std::uint32_t> token, waits;
  };
  simulation s(with_nodes(2), 1);
  runtime p(s, others + 2);
  auto& w = *s.shared().template make_array<words>(1, 128);
  const cycles end = s.on().from_ns(60 * millisecond);
  waits longest;
  cycles notified = 0;
  bool over = false;
  const auto goes_on = [&] { return !over && s.now() < 10 * end; };  // so that a starved thread gets its turn, too
  const auto lock = [&] {
    const cycles came = s.now();
    w.mutex.lock();
    longest.locking = std::max(longest.locking, s.now() - came);
  };
  s.add_thread(0, [&] {
    while (!over) {
      w.mutex.lock();
      w.waits.set(1);
      while (w.token.get() == 0) w.condition.wait(w.mutex);
      longest.requeued = std::max(longest.requeued, s.now() - notified);
      w.token.set(0);
      over = s.now() >= end;
      w.mutex.unlock();
    }
  });
  s.add_thread(1, [&] {
    while (goes_on()) {
      lock();
      if (w.waits.get() != 0) {
        w.waits.set(0);
        w.token.set(1);
        notified = s.now();
        w.condition.notify_one();
      }
      s.compute(s.on().from_ns(hold));
      w.mutex.unlock();
      s.compute(s.on().from_ns(5 * microsecond));
    }
  });
  for (unsigned t = 0; t < others; t++)
    s.add_thread(2 + t, [&] {
      while (goes_on()) {
        lock();
        s.compute(s.on().from_ns(hold));
        w.mutex.unlock();
      }
    });
  s.run();
  EXPECT_GT(longest.requeued, 0u);
  return {s.on().to_ns(longest.locking), s.on().to_ns(longest.requeued)};
}

/// A requeued thread stays asleep for at most 1 ms or one hold. After that it waits no longer than a thread that
/// arrives at that time.
template <class Lock>
void requeued_threads_are_soon_as_others() {
  for (const unsigned others : {1u, 4u, 6u})
    for (const std::uint64_t hold : {microsecond, 30 * microsecond, 700 * microsecond, 3 * millisecond}) {
      SCOPED_TRACE(testing::Message() << others << " others, holds of " << hold << " ns");
      const waits longest = longest_of_requeued<Lock>(others, hold);
      EXPECT_LE(longest.locking, bound(others, hold, 2));
      EXPECT_LE(longest.requeued, std::max(millisecond, hold) + bound(others, hold, 2));
    }
}

TEST(requeued, are_at_most_1_ms_later_than_others_under_steady) {
  requeued_threads_are_soon_as_others<sleeping<steady>>();
  requeued_threads_are_soon_as_others<parking<steady>>();
}

}  // namespace
}  // namespace usher::sim
