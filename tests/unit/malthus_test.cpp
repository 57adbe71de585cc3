// The locks of "Malthusian Locks" and the wider Fairlock: who comes in when, by their words.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "team.hpp"
#include "usher/locks/lifo.hpp"
#include "usher/platform/native.hpp"

namespace usher {
namespace {

using std::chrono::milliseconds;
using stp = waiting<native, waiting_kind::spin_then_park>;
using spin = waiting<native, waiting_kind::spin>;
using park = waiting<native, waiting_kind::park>;

/// A lock's words as its header describes them.
template <class Lock>
std::uint32_t word(const Lock& lock, std::size_t i) {
  return __atomic_load_n(reinterpret_cast<const std::uint32_t*>(&lock) + i, __ATOMIC_RELAXED);
}

/// Lets n threads come one after the other while the lock is held, and returns the order in which they get in.
template <class Lock>
std::vector<unsigned> admission_order(Lock& lock, unsigned n) {
  std::vector<unsigned> order;
  lock.lock();
  {
    std::vector<std::jthread> team;
    for (unsigned i = 0; i < n; i++) {
      team.emplace_back([&, i] {
        lock.lock();
        order.push_back(i);
        lock.unlock();
      });
      std::this_thread::sleep_for(milliseconds(10));  // it waits by now: asleep, if it parks
    }
    lock.unlock();
  }
  return order;
}

const std::vector<unsigned> last_first{5, 4, 3, 2, 1, 0};

// ---- LIFO

TEST(lifo, the_last_to_come_is_the_first_to_go) {
  lifo<native, stp> l{};
  EXPECT_EQ(admission_order(l, 6), last_first);
  EXPECT_EQ(word(l, 0), 0u);
}

TEST(lifo, parked) {
  lifo<native, park> l{};
  EXPECT_EQ(admission_order(l, 6), last_first);
}

TEST(lifo_cr, serves_the_eldest_if_it_is_its_turn) {
  basic_lifo<native, park, 1> l{};  // each unlock
  EXPECT_EQ(admission_order(l, 6), (std::vector<unsigned>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(word(l, 0), 0u);
}

TEST(lifo, its_word) {
  lifo_cr<native, stp> l{};
  static_assert(sizeof l == 4);
  EXPECT_TRUE(l.try_lock());
  EXPECT_EQ(word(l, 0), 1u) << "held, nobody waits";
  EXPECT_FALSE(l.contended());
  std::jthread waiter([&] {
    l.lock();
    l.unlock();
  });
  while (!l.contended()) std::this_thread::yield();
  EXPECT_GE(word(l, 0), first_node);
  l.unlock();
  waiter.join();
  EXPECT_EQ(word(l, 0), 0u);
}

}  // namespace
}  // namespace usher
