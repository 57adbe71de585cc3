// The condition variable and the semaphore that C++ programs embed: their guarantees, and the order of their waiters.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "library/catalog/probability.hpp"
#include "team.hpp"
#include "usher/condition_variable.hpp"
#include "usher/locks/futex.hpp"
#include "usher/locks/loiter.hpp"
#include "usher/locks/mcs.hpp"
#include "usher/locks/ticket.hpp"
#include "usher/mutex.hpp"
#include "usher/semaphore.hpp"
#include "waiters.hpp"

namespace usher {
namespace {

using namespace std::chrono_literals;

TEST(probability, is_read_as_people_write_it) {
  EXPECT_EQ(parse_probability("1"), 1);
  EXPECT_EQ(parse_probability("1.000"), 1);
  EXPECT_DOUBLE_EQ(parse_probability("0.001"), 0.001);
  EXPECT_DOUBLE_EQ(parse_probability(".25"), 0.25);
  for (const char* wrong :
       {"", ".", "0", "0.0", "-1", "1.1", "2", "0x1", "1e-3", " 1", "1 ", "0,5", "1..0", "nan", "1/2"})
    EXPECT_EQ(parse_probability(wrong), 0) << '"' << wrong << '"';
}

TEST(append_probability, is_a_probability_and_never_zero) {
  const auto tails = [](append_probability c) {
    int n = 0;
    for (int i = 0; i < 20000; i++) n += c.at_tail<native>() ? 1 : 0;
    return n;
  };
  EXPECT_EQ(tails(append_probability()), 20000);
  EXPECT_EQ(tails(append_probability(1)), 20000);
  EXPECT_NEAR(tails(append_probability(0.5)), 10000, 600);  // more than eight standard deviations
  EXPECT_NEAR(tails(append_probability(0.01)), 200, 120);
  EXPECT_LE(tails(append_probability(1e-30)), 1);
}

/// Starts threads that arrive one after the other. Each sleeps in the list before the next one arrives.
template <class Enter>
std::vector<std::jthread> in_turn(unsigned n, Enter enter) {
  std::vector<std::jthread> waiting;
  for (unsigned i = 0; i < n; i++) waiting.push_back(test::asleep_in([enter, i] { enter(i); }));
  return waiting;
}

template <class Lock>
class conditions : public testing::Test {};
using lockables =
    testing::Types<mutex<steady>, mutex<loiter>, mutex<mcs>, mutex<ticket, waiting_kind::park>, std::mutex,
                   timed_mutex<steady>, timed_mutex<loiter>, timed_mutex<mcs>, timed_mutex<ticket, waiting_kind::park>>;
TYPED_TEST_SUITE(conditions, lockables);

TYPED_TEST(conditions, a_bounded_queue_loses_nothing) {
  for (const append_probability chance : {append_probability(), append_probability(0.001), append_probability(0.5)}) {
    TypeParam m;
    condition_variable not_empty(chance), not_full(chance);
    long queued = 0, produced = 0, consumed = 0;
    constexpr long each = 2000, bound = 3;
    test::in_threads(6, [&](unsigned i) {
      for (long n = 0; n < each; n++) {
        std::unique_lock lock(m);
        if (i % 2 == 0) {
          not_full.wait(lock, [&] { return queued < bound; });
          queued++, produced++;
          not_empty.notify_one();
        } else {
          not_empty.wait(lock, [&] { return queued > 0; });
          queued--, consumed++;
          lock.unlock();
          not_full.notify_one();
        }
      }
    });
    EXPECT_EQ(queued, 0);
    EXPECT_EQ(produced, 3 * each);
    EXPECT_EQ(consumed, 3 * each);
  }
}

TYPED_TEST(conditions, notify_all_reaches_all_and_the_variable_may_go) {
  for (int round = 0; round < 50; round++) {
    TypeParam m;
    auto c = std::make_unique<condition_variable>();
    bool go = false;
    int waiting = 0, through = 0;
    std::vector<std::jthread> team;
    for (int i = 0; i < 8; i++)
      team.emplace_back([&, i] {
        std::unique_lock lock(m);
        waiting++;
        // Every second thread waits with a time limit of 200 µs, so that some waits time out at about the moment of the
        // notification.
        while (!go)
          if (i % 2 == 0)
            c->wait(lock);
          else
            c->wait_for(lock, 200us);
        through++;
      });
    for (bool all = false; !all;) {
      std::unique_lock lock(m);
      if ((all = waiting == 8)) {
        go = true;
        c->notify_all();
        EXPECT_TRUE(c->close());
        void* const gone = c.release();
        std::memset(gone, 0xff, sizeof *c);  // no thread may access it after this
        ::operator delete(gone);
      }
    }
    team.clear();
    EXPECT_EQ(through, 8);
  }
}

TYPED_TEST(conditions, waits_end_in_time) {
  TypeParam m;
  condition_variable c;
  std::unique_lock lock(m);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(c.wait_for(lock, 20ms), std::cv_status::timeout);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 20ms);
  EXPECT_EQ(c.wait_until(lock, std::chrono::system_clock::now() + 5ms), std::cv_status::timeout);
  EXPECT_EQ(c.wait_until(lock, std::chrono::steady_clock::now() - 1h), std::cv_status::timeout);
  EXPECT_FALSE(c.wait_for(lock, 1ms, [] { return false; }));
  EXPECT_TRUE(c.wait_for(lock, std::chrono::hours::max(), [] { return true; }));
  EXPECT_TRUE(lock.owns_lock());
  c.notify_one();  // no thread waits
  c.notify_all();
}

TEST(condition_variable, serves_in_order_of_arrival) {
  mutex<> m;
  condition_variable c;
  std::vector<unsigned> order;
  unsigned tokens = 0;
  {
    auto waiting = in_turn(6, [&](unsigned i) {
      std::unique_lock lock(m);
      c.wait(lock, [&] { return tokens > 0; });
      tokens--;
      order.push_back(i);
    });
    for (unsigned i = 0; i < 6; i++) {
      std::unique_lock lock(m);
      tokens++;
      lock.unlock();
      c.notify_one();
      while (true) {
        std::unique_lock again(m);
        if (order.size() == i + 1) break;
      }
    }
  }
  EXPECT_EQ(order, (std::vector<unsigned>{0, 1, 2, 3, 4, 5}));
}

TEST(condition_variable, serves_the_last_first_where_it_is_to) {
  mutex<> m;
  condition_variable c(append_probability(1e-9));
  std::vector<unsigned> order;
  {
    auto waiting = in_turn(5, [&](unsigned i) {
      std::unique_lock lock(m);
      c.wait(lock);
      order.push_back(i);
    });
    c.notify_all();  // the same order as before
  }
  EXPECT_EQ(order, (std::vector<unsigned>{4, 3, 2, 1, 0}));
}

/// A lock whose unlock() throws.
struct refusing {
  void lock() { FAIL() << "it was never unlocked"; }
  void unlock() { throw std::runtime_error("not locked"); }
};

TEST(condition_variable, is_left_again_when_unlock_throws) {
  condition_variable c;
  refusing r;
  EXPECT_THROW(c.wait(r), std::runtime_error);
  c.notify_one();
  c.notify_all();
}

/// Starts one waiter and notifies it while the caller holds the mutex, so that the waiter is requeued to the mutex.
/// Returns the waiter's thread.
template <class Mutex>
std::vector<std::jthread> requeue_one(Mutex& m, condition_variable& c, bool& told) {
  auto waiting = in_turn(1, [&](unsigned) {
    std::unique_lock lock(m);
    c.wait(lock, [&] { return told; });
  });
  native::ensure_owner_tag();
  m.lock();
  told = true;
  c.notify_one();
  return waiting;
}

TEST(timed_mutex, a_notified_thread_is_requeued) {
  timed_mutex<futex> m;
  condition_variable c;
  bool told = false;
  auto waiting = requeue_one(m, c, told);
  EXPECT_NE(m.words_beside().requeued(), nullptr);
  m.unlock();
  waiting.clear();
  EXPECT_EQ(m.words_beside().requeued(), nullptr);
  EXPECT_TRUE(m.try_lock());
  m.unlock();
}

/// A requeued waiter's record lies on the waiter's stack. In the child of a fork this memory may have another use, so
/// an unlock in the child must not write to the record.
TEST(timed_mutex, a_child_does_not_touch_requeued_threads) {
  timed_mutex<futex> m;
  condition_variable c;
  bool told = false;
  auto waiting = requeue_one(m, c, told);
  const pid_t child = fork();
  if (child == 0) {
    const auto* const left_behind = m.words_beside().chain.get();
    unsigned char before[sizeof *left_behind];
    std::memcpy(before, static_cast<const void*>(left_behind), sizeof before);
    m.unlock();
    const bool free = m.try_lock();
    _exit(free && std::memcmp(before, static_cast<const void*>(left_behind), sizeof before) == 0 ? 0 : 1);
  }
  m.unlock();
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

/// An unlock may hand the mutex over to a thread whose wait ends by an exception. The mutex must not stay locked.
TEST(timed_mutex, is_unlocked_by_a_thread_that_could_not_wait) {
  timed_mutex<> m;
  condition_variable c;
  native::ensure_owner_tag();
  m.lock();
  std::atomic<int> refused = 0;
  std::jthread waiter([&](std::stop_token over) {
    while (!over.stop_requested()) {
      std::unique_lock lock(m, std::defer_lock);
      EXPECT_THROW(c.wait(lock), std::system_error);
      refused++;
    }
  });
  for (int round = 0; round < 20; round++) {
    const int before = refused;
    // Sends notifications until three of the thread's waits have failed, or the thread has been requeued to this mutex.
    for (int i = 0; i < 2000 && refused < before + 3 && m.words_beside().requeued() == nullptr; i++) c.notify_one();
    std::this_thread::sleep_for(6ms);  // after 4 ms an unlock hands the mutex over to the waiter
    m.unlock();
    ASSERT_TRUE(m.try_lock_for(20s));
  }
  waiter.request_stop();
  m.unlock();
}

TEST(semaphores, credits_are_neither_lost_nor_made) {
  for (const append_probability chance : {append_probability(), append_probability(0.001), append_probability(0.5)}) {
    semaphore s(2, chance);
    std::atomic<long> taken = 0, inside = 0;
    test::in_threads(6, [&](unsigned i) {
      for (int n = 0; n < 3000; n++) {
        if (i == 0) {
          if (!s.try_acquire_for(30us)) continue;
        } else if (i == 1) {
          if (!s.try_acquire()) continue;
        } else {
          s.acquire();
        }
        EXPECT_LE(++inside, 2);
        taken++;
        inside--;
        s.release();
      }
    });
    EXPECT_GE(taken, 4 * 3000);
    EXPECT_TRUE(s.try_acquire());
    EXPECT_TRUE(s.try_acquire());
    EXPECT_FALSE(s.try_acquire());
  }
}

TEST(semaphores, the_woken_thread_may_destroy_it) {
  for (int round = 0; round < 2000; round++) {
    auto s = std::make_unique<semaphore>();
    std::jthread poster([raw = s.get()] { raw->release(); });
    s->acquire();
    // if a thread accesses the semaphore later, the test fails or a sanitizer reports it
    std::memset(static_cast<void*>(s.get()), 0xff, sizeof *s);
    s.reset();
  }
}

TEST(semaphores, several_at_once_wake_several) {
  semaphore s;
  std::atomic<int> through = 0;
  std::vector<std::jthread> team;
  for (int i = 0; i < 8; i++) team.emplace_back([&] { s.acquire(), through++; });
  s.release(8);
  team.clear();
  EXPECT_EQ(through, 8);
  EXPECT_FALSE(s.try_acquire());
}

TEST(semaphores, waits_end_in_time) {
  semaphore s;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(s.try_acquire_for(20ms));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 20ms);
  EXPECT_FALSE(s.try_acquire_until(std::chrono::system_clock::now() - 1h));
  s.release();
  EXPECT_TRUE(s.try_acquire_until(std::chrono::system_clock::now() - 1h));
}

TEST(semaphores, serve_in_the_order_that_was_asked_for) {
  for (const bool fifo : {true, false}) {
    semaphore s(0, fifo ? append_probability() : append_probability(1e-9));
    std::vector<unsigned> order;
    std::atomic<std::size_t> served = 0;
    {
      auto waiting = in_turn(5, [&](unsigned i) {
        s.acquire();
        order.push_back(i);
        served++;
      });
      for (unsigned i = 1; i <= 5; i++) {
        s.release();
        while (served != i) std::this_thread::yield();
      }
    }
    EXPECT_EQ(order, fifo ? (std::vector<unsigned>{0, 1, 2, 3, 4}) : (std::vector<unsigned>{4, 3, 2, 1, 0}));
  }
}

TEST(semaphores, have_a_largest_value) {
  semaphore s{std::uint32_t{semaphore::max()}};
  EXPECT_FALSE(s.release_one());
  s.release(5);  // exceeds the maximum, so it is refused
  EXPECT_TRUE(s.try_acquire());
  EXPECT_TRUE(s.release_one());
  EXPECT_FALSE(s.release_one());
}

TEST(semaphores, many_credits_are_released_in_one_step) {  // 2³¹ steps take more than 10 s
  const std::clock_t before = std::clock();                // CPU time
  semaphore s;
  s.release(3);
  for (int i = 0; i < 3; i++) EXPECT_TRUE(s.try_acquire());
  s.release(0);
  s.release(-1);
  EXPECT_FALSE(s.try_acquire());
  s.release(semaphore::max() - 1);
  s.release(semaphore::max());
  EXPECT_FALSE(s.release_one());
  EXPECT_LT(std::clock() - before, 2 * CLOCKS_PER_SEC);
}

TEST(semaphores, have_no_credit_if_they_begin_with_fewer_than_none) {
  semaphore s(-1);
  EXPECT_FALSE(s.try_acquire());
}

// Constant-initialised objects, which constructors of other static objects may use in any order of initialisation.
constinit semaphore early_semaphore(1, append_probability(0.001));
constinit semaphore early_fifo(1);
constinit condition_variable early_condition(append_probability(0.001));

TEST(semaphores, are_initialised_before_any_code_runs) {
  EXPECT_TRUE(early_semaphore.try_acquire());
  EXPECT_TRUE(early_fifo.try_acquire());
  early_condition.notify_all();
}

}  // namespace
}  // namespace usher
