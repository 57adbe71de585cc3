// The eight-byte form of locks that are too large for a mutex. While threads contend, such a lock has its large
// (inflated) state from a pool; afterwards it returns the state.
#include "usher/core/inflatable.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "team.hpp"
#include "usher/locks/mcs.hpp"
#include "usher/locks/ticket.hpp"
#include "usher/platform/native.hpp"

namespace usher {
namespace {

/// A ticket lock that is too large for eight bytes.
template <class P, class W>
class roomy {
 public:
  static constexpr lock_traits traits = ticket<P, W>::traits;
  void lock() { lock_.lock(); }
  bool try_lock() { return lock_.try_lock(); }
  void unlock() { lock_.unlock(); }

 private:
  alignas(128) ticket<P, W> lock_;
  char room_[8192] = {};
};

using parking = waiting<native, waiting_kind::spin_then_park>;
using roomy_lock = roomy<native, parking>;
using small_form = inflatable<native, parking, roomy_lock>;
static_assert(sizeof(small_form) == 8);
static_assert(std::is_same_v<embeddable_or_inflatable<native, parking, roomy_lock>, small_form>);
static_assert(
    std::is_same_v<embeddable_or_inflatable<native, parking, ticket<native, parking>>, ticket<native, parking>>);

/// Takes all inflated states that are in the pool, and returns their handles.
std::vector<std::uint32_t> take_all() {
  std::vector<std::uint32_t> taken;
  while (const std::uint32_t h = native::take_inflated<roomy_lock>())
    if (h != retake_inflated) taken.push_back(h);
  return taken;
}
void give_back(const std::vector<std::uint32_t>& taken) {
  for (const std::uint32_t h : taken) native::give_inflated<roomy_lock>(h);
}

template <class Lock>
void count_in_threads(Lock& lock, unsigned threads, long rounds) {
  long counter = 0;
  test::in_threads(threads, [&](unsigned) {
    for (long i = 0; i < rounds; i++) {
      lock.lock();
      counter++;
      lock.unlock();
    }
  });
  EXPECT_EQ(counter, long{threads} * rounds);
}

TEST(inflatable, excludes_and_gives_the_large_lock_back) {
  const auto all = take_all();
  give_back(all);
  ASSERT_GT(all.size(), 1000u);
  small_form lock{};
  for (unsigned threads : {2u, 4u, 8u}) count_in_threads(lock, threads, 5000);
  const auto again = take_all();
  EXPECT_EQ(again.size(), all.size());
  give_back(again);
}

TEST(inflatable, is_a_ticket_lock_while_the_pool_is_empty) {
  const auto all = take_all();
  small_form lock{};
  count_in_threads(lock, 4, 5000);
  give_back(all);
  count_in_threads(lock, 4, 5000);
}

TEST(inflatable, locks_of_different_types_share_the_pool) {
  using other = inflatable<native, parking, mcs<native, parking>>;
  using of_the_same_size = inflatable<native, parking, ticket<native, parking>>;
  small_form first{};
  other second{};
  of_the_same_size third{};
  long counters[3] = {};
  test::in_threads(4, [&](unsigned) {
    for (int i = 0; i < 5000; i++) {
      first.lock();
      counters[0]++;
      first.unlock();
      second.lock();
      counters[1]++;
      second.unlock();
      third.lock();
      counters[2]++;
      third.unlock();
    }
  });
  for (const long counter : counters) EXPECT_EQ(counter, 20000);
}

/// Ten million locks with short lives, each with two contending threads. The pool must not run out, and no thread may
/// find the state of another lock in place of its lock's state.
TEST(inflatable, serves_ten_million_short_lives) {
  struct generation {
    small_form lock{};
    long counter = 0;
  };
  constexpr int lives = 10000000, at_a_time = 10000;
  long sum = 0;
  for (int done = 0; done < lives; done += at_a_time) {
    const auto some = std::make_unique<generation[]>(at_a_time);
    std::atomic<int> arrived = 0;
    test::in_threads(2, [&](unsigned) {
      arrived++;
      while (arrived < 2) std::this_thread::yield();
      for (int i = 0; i < at_a_time; i++) {
        some[i].lock.lock();
        some[i].counter++;
        some[i].lock.unlock();
      }
    });
    for (int i = 0; i < at_a_time; i++) sum += some[i].counter;
  }
  EXPECT_EQ(sum, 2L * lives);
  const auto all = take_all();
  EXPECT_GT(all.size(), 1000u);
  give_back(all);
}

/// A thread that has claimed a block may never map it: the thread may not exist in the child of a fork, or it may be
/// the calling thread, interrupted by a signal handler. So the next thread waits for a limited time and then maps the
/// block itself.
TEST(inflatable, maps_a_block_whose_claim_was_abandoned) {
  using native_detail::inflated_class;
  const std::uint32_t last = inflated_class::first_block(inflated_class::classes) - 1;
  auto& entry = usher_process_state.inflated_block[last];
  if (entry.load() != nullptr) GTEST_SKIP() << "the block is mapped: the test can run once in a process";
  entry.store(reinterpret_cast<unsigned char*>(1));
  EXPECT_FALSE(native_detail::blocks::inflated_is_mapped(last));
  ASSERT_TRUE(native_detail::blocks::has_inflated(last));
  EXPECT_TRUE(native_detail::blocks::inflated_is_mapped(last));
  entry.load()[native_detail::block_bytes - 1] = 1;
}

/// Threads that need the same block at the same time all find it at one address.
TEST(inflatable, threads_agree_on_a_block) {
  const std::uint32_t block = native_detail::inflated_class::first_block(native_detail::inflated_class::classes) - 2;
  std::atomic<unsigned char*> first = nullptr;
  test::in_threads(8, [&](unsigned) {
    ASSERT_TRUE(native_detail::blocks::has_inflated(block));
    unsigned char* const mine = usher_process_state.inflated_block[block].load();
    unsigned char* other = nullptr;
    const bool is_first = first.compare_exchange_strong(other, mine);
    EXPECT_TRUE(is_first || other == mine);
  });
}

}  // namespace
}  // namespace usher
