// With USHER_DEBUG, misuse of a mutex ends the program with a line that names the mistake. Correct use works as without
// USHER_DEBUG.
#define USHER_DEBUG

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "usher/condition_variable.hpp"
#include "usher/locks/mcs.hpp"
#include "usher/mutex.hpp"
#include "usher/usher.h"

namespace {

using plain = usher::mutex<usher::mcs>;
using timed = usher::timed_mutex<>;

template <class Mutex>
struct checked_mutex : testing::Test {};
using every_mutex = testing::Types<plain, timed>;
TYPED_TEST_SUITE(checked_mutex, every_mutex);

TYPED_TEST(checked_mutex, is_not_locked_twice_by_a_thread) {
  TypeParam m;
  m.lock();
  EXPECT_FALSE(m.try_lock());
  EXPECT_DEATH(m.lock(), "^usher: lock\\(\\) of the mutex at 0x[0-9a-f]+: the calling thread holds it, and would wait");
  m.unlock();
  ASSERT_TRUE(m.try_lock());
  EXPECT_DEATH(m.lock(), "the calling thread holds it");
  m.unlock();
}

TYPED_TEST(checked_mutex, is_not_unlocked_when_free) {
  TypeParam m;
  EXPECT_DEATH(m.unlock(), "usher: unlock\\(\\) of the mutex at 0x[0-9a-f]+: it is not locked");
  m.lock();
  m.unlock();
  EXPECT_DEATH(m.unlock(), "it is not locked");
}

TYPED_TEST(checked_mutex, is_not_destroyed_when_locked) {
  EXPECT_DEATH(
      {
        TypeParam m;
        m.lock();
      },
      "usher: destruction of the mutex at 0x[0-9a-f]+: it is still locked");
}

TYPED_TEST(checked_mutex, may_be_unlocked_by_another_thread) {
  TypeParam m;
  m.lock();
  std::thread([&] { m.unlock(); }).join();
  m.lock();
  m.unlock();
}

TYPED_TEST(checked_mutex, works_with_condition_variables) {
  TypeParam m;
  usher::condition_variable turned;
  unsigned turn = 0;
  std::vector<std::thread> team;
  for (unsigned me = 0; me < 3; me++)
    team.emplace_back([&, me] {
      for (int i = 0; i < 300; i++) {
        std::unique_lock lock(m);
        turned.wait(lock, [&] { return turn == me; });
        turn = (turn + 1) % 3;
        turned.notify_all();
      }
    });
  for (auto& t : team) t.join();
}

TEST(checked_timed_mutex, is_not_awaited_by_its_owner) {
  timed m;
  ASSERT_TRUE(m.try_lock_for(std::chrono::seconds(1)));
  EXPECT_DEATH((void)m.try_lock_for(std::chrono::hours(1)), "usher: try_lock_until\\(\\) of the mutex at");
  m.unlock();
}

TEST(checked_c_mutex, is_used_as_mutexes_must_be) {
  usher_mutex_t m = USHER_MUTEX_INITIALIZER;
  EXPECT_DEATH(usher_mutex_unlock(&m), "usher: usher_mutex_unlock\\(\\) of the mutex at 0x[0-9a-f]+: it is not locked");
  EXPECT_EQ(usher_mutex_lock(&m), 0);
  EXPECT_DEATH(usher_mutex_lock(&m), "usher: usher_mutex_lock\\(\\) of the mutex at .*: the calling thread holds it");
  timespec never{};
  never.tv_sec = 1L << 40;
  EXPECT_DEATH(usher_mutex_timedlock(&m, &never), "usher: usher_mutex_timedlock\\(\\) of the mutex at .* holds it");
  EXPECT_DEATH(usher_mutex_destroy(&m), "usher: usher_mutex_destroy\\(\\) of the mutex at .*: it is still locked");
  EXPECT_EQ(usher_mutex_unlock(&m), 0);
  EXPECT_EQ(usher_mutex_destroy(&m), 0);
}

}  // namespace
