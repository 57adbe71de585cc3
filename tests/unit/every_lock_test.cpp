// Tests the guarantees of every lock in the catalogue, in each way of waiting. The tests call each lock through its
// table of functions in the catalogue, so a new lock is tested without a change of this file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "team.hpp"
#include "usher/catalog.hpp"

namespace usher {
namespace {

struct alignas(64) storage {
  unsigned char bytes[128] = {};
};

class every_lock : public testing::TestWithParam<const lock_table*> {
 protected:
  const lock_table& lock_ = *GetParam();
  storage state_;

  void lock() { lock_.lock(state_.bytes); }
  bool try_lock() { return lock_.try_lock(state_.bytes); }
  void unlock() { lock_.unlock(state_.bytes); }
  /// True for the C library's mutexes. The tests then skip calls that these mutexes allow in practice but that a
  /// sanitizer reports.
  bool is_beyond_posix() const { return lock_.traits->native_only; }
  /// The number of acquisitions for a test. It is smaller for ways of waiting with slow hand-overs. With more threads
  /// than CPUs, each hand-over of a spinning FIFO lock may wait for the next owner's time slice; a lock that sleeps
  /// between polls hands over once per sleep at most.
  long rounds() const { return lock_.kind == waiting_kind::spin || lock_.kind == waiting_kind::sleep ? 300 : 5000; }
};

TEST_P(every_lock, fits_into_what_a_pthread_mutex_leaves) {
  if (lock_.traits->native_only) {
    EXPECT_EQ(lock_.size, lock_.traits->words * 4) << "this lock is measured beside ours and must not be wrapped";
    return;
  }
  EXPECT_LE(lock_.size, 16u);
  EXPECT_LE(lock_.align, 8u);
}

TEST_P(every_lock, zero_bytes_are_free_and_try_lock_says_who_has_it) {
  EXPECT_TRUE(try_lock());
  EXPECT_FALSE(try_lock());
  std::jthread([&] { EXPECT_FALSE(try_lock()); }).join();
  unlock();
  EXPECT_TRUE(try_lock());
  unlock();
}

TEST_P(every_lock, excludes) {
  for (unsigned threads : {2u, 4u}) {
    long counter = 0;  // plain, so that the sanitizers observe it
    test::in_threads(threads, [&](unsigned) {
      for (long i = 0; i < rounds(); i++) {
        lock();
        counter++;
        unlock();
      }
    });
    EXPECT_EQ(counter, long{threads} * rounds());
  }
}

TEST_P(every_lock, excludes_with_try_lock_among_lock) {
  long counter = 0, tried = 0;
  test::in_threads(3, [&](unsigned me) {
    for (long i = 0; i < rounds(); i++) {
      if (me == 0) {
        if (!try_lock()) continue;
        tried++;
      } else {
        lock();
      }
      counter++;
      unlock();
    }
  });
  EXPECT_EQ(counter, tried + 2 * rounds());
  EXPECT_TRUE(try_lock()) << "the lock was left locked";
  unlock();
}

TEST_P(every_lock, wakes_waiters_that_sleep) {
  // The mutex is held so long that every waiter that can park sleeps. If a wake-up is lost, the test hangs.
  constexpr int threads = 4, turns = 3;
  int entered = 0;
  test::in_threads(threads, [&](unsigned) {
    for (int i = 0; i < turns; i++) {
      lock();
      entered++;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the length of the hold
      unlock();
    }
  });
  EXPECT_EQ(entered, threads * turns);
}

TEST_P(every_lock, may_be_unlocked_by_another_thread) {
  if (is_beyond_posix()) GTEST_SKIP() << "this lock is not one of ours";
  for (int i = 0; i < 20; i++) {
    lock();
    std::jthread([&] { unlock(); }).join();
  }
  EXPECT_TRUE(try_lock());
  unlock();
}

TEST_P(every_lock, many_are_held_at_once_and_released_in_any_order) {
  if (is_beyond_posix()) GTEST_SKIP() << "this lock is not one of ours";
  constexpr std::size_t n = 1000;
  std::vector<storage> states(n);
  std::vector<std::size_t> order(n);
  for (std::size_t i = 0; i < n; i++) order[i] = i;
  std::mt19937 random(1);
  for (int round = 0; round < 2; round++) {
    for (auto& s : states) lock_.lock(s.bytes);
    for (auto& s : states) EXPECT_FALSE(lock_.try_lock(s.bytes));
    std::shuffle(order.begin(), order.end(), random);
    for (auto i : order) lock_.unlock(states[i].bytes);
  }
}

TEST_P(every_lock, hand_over_hand) {
  constexpr std::size_t n = 8;
  storage chain[n];
  std::vector<long> visits(n);
  test::in_threads(3, [&](unsigned) {
    for (long i = 0; i < rounds() / 20 + 1; i++) {
      lock_.lock(chain[0].bytes);
      for (std::size_t k = 1; k < n; k++) {
        lock_.lock(chain[k].bytes);
        lock_.unlock(chain[k - 1].bytes);
        visits[k]++;
      }
      lock_.unlock(chain[n - 1].bytes);
    }
  });
  for (std::size_t k = 1; k < n; k++) EXPECT_EQ(visits[k], 3 * (rounds() / 20 + 1));
}

TEST_P(every_lock, memory_may_be_reused_by_the_next_owner) {
  if (is_beyond_posix()) GTEST_SKIP() << "this lock is not one of ours";
  // The next owner overwrites the lock with other data, so the previous owner's unlock() must not read the lock after
  // its release. An incorrect lock fails this test only sometimes; the header of each lock explains why its unlock is
  // correct.
  for (int i = 0; i < 200; i++) {
    auto s = std::make_unique<storage>();
    lock_.lock(s->bytes);
    std::jthread last([&, p = s.get()] {
      lock_.lock(p->bytes);
      std::memset(p->bytes, 0x5a, sizeof p->bytes);
    });
    lock_.unlock(s->bytes);
    last.join();
  }
}

std::vector<const lock_table*> all_locks() {
  std::vector<const lock_table*> all;
  for (const lock_table* t : catalog())
    if (t->traits->excludes) all.push_back(t);
  return all;
}

INSTANTIATE_TEST_SUITE_P(catalog, every_lock, testing::ValuesIn(all_locks()), [](const auto& info) {
  std::string name = info.param->name;
  for (std::size_t at; (at = name.find('+')) != std::string::npos;) name.replace(at, 1, "_plus");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(catalogue, names_are_found_and_misspelt_ones_have_a_neighbour) {
  for (const lock_table* t : catalog()) EXPECT_EQ(find_lock(t->name), t);
  EXPECT_EQ(find_lock("mcs-stp"), find_lock("mcs"));
  EXPECT_EQ(find_lock("nonsense"), nullptr);
  EXPECT_EQ(nearest_lock("tickt"), "ticket");
  EXPECT_EQ(nearest_lock("mcscrr-spin"), "mcscr-spin");
  EXPECT_EQ(nearest_lock("steday"), "steady");
  for (const char* far : {"", "x", "std", "nonsense"}) EXPECT_EQ(nearest_lock(far), "") << far;
}

TEST(catalogue, has_every_promised_lock) {
  for (const char* name : {"tas", "ttas", "futex", "ticket", "twa", "mcs", "mcscr", "mcsg", "fairlock", "loiter",
                           "steady", "pthread", "pthread-adaptive"}) {
    const lock_table* t = find_lock(name);
    ASSERT_NE(t, nullptr) << name;
    EXPECT_TRUE(t->plain()) << name;
    EXPECT_EQ(t->kind, waiting_kind::spin_then_park) << name;
  }
}

TEST(catalogue, twa_is_as_large_as_ticket) {
  EXPECT_EQ(find_lock("twa")->size, find_lock("ticket")->size);
}

}  // namespace
}  // namespace usher
