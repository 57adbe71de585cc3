// The order in which sleeping waiters with real-time priorities are admitted. Most tests replace the platform's
// function that reads a thread's priority; some use the kernel's priorities.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "team.hpp"
#include "usher/condition_variable.hpp"
#include "usher/locks/loiter.hpp"
#include "usher/locks/loiter_cohort.hpp"
#include "usher/locks/loiter_variants.hpp"
#include "usher/locks/mcs.hpp"
#include "usher/locks/steady.hpp"
#include "usher/semaphore.hpp"
#include "waiters.hpp"

namespace usher {
namespace {

using namespace std::chrono_literals;

/// The native platform, except that each thread sets its priority in `rank`.
struct ranked : native {
  static inline thread_local std::uint32_t rank = 0;
  static std::uint32_t thread_id() { return rank + 1; }
  static std::uint32_t priority(std::uint32_t thread = 0) { return thread != 0 ? thread - 1 : rank; }
};
static_assert(platform<ranked>);

// The priorities of the threads 0 to 7, and these threads in the order of their priorities, the highest first.
const std::vector<std::uint32_t> ranks{5, 12, 0, 8, 12, 5, 0, 99};
const std::vector<unsigned> by_rank{7, 1, 4, 3, 0, 5, 2, 6};

/// Starts a thread for each entry of `ranks`. Each sleeps before the next one arrives.
template <class Enter>
std::vector<std::jthread> in_turn(Enter enter) {
  std::vector<std::jthread> team;
  for (unsigned i = 0; i < ranks.size(); i++)
    team.push_back(test::asleep_in([enter, i] {
      ranked::rank = ranks[i];
      enter(i);
    }));
  return team;
}

// ---- lists ------------------------------------------------------------------------------------------------------

struct element {
  unsigned number;
  waiter_rank<ranked> rank;
  native::plain<element*> next, prev;
};

std::vector<unsigned> numbers(const waiter_list<ranked, element>& list) {
  std::vector<unsigned> all;
  const element* before = nullptr;
  for (element* e = list.front(); e != nullptr; before = e, e = e->next.get()) {
    EXPECT_EQ(e->prev.get(), before);
    all.push_back(e->number);
  }
  return all;
}

TEST(lists, are_sorted_by_priority_and_else_as_they_always_were) {
  std::vector<element> e(8);
  waiter_list<ranked, element> list;
  list.clear();
  for (unsigned i = 0; i < e.size(); i++) {
    e[i].number = i;
    e[i].rank.thread.set(ranks[i] + 1);
    list.push_back(e[i]);
  }
  EXPECT_EQ(numbers(list), by_rank);
  list.remove(e[4]);
  list.remove(e[7]);
  list.remove(e[6]);
  EXPECT_EQ(numbers(list), (std::vector<unsigned>{1, 3, 0, 5, 2}));
  list.push_front(e[4]);
  list.push_front(e[6]);
  list.push_front(e[7]);
  EXPECT_EQ(numbers(list), (std::vector<unsigned>{7, 4, 1, 3, 0, 5, 6, 2})) << "they precede waiters of equal priority";
  for (element& one : e) list.remove(one);
  EXPECT_EQ(list.front(), nullptr);
  list.push_front(e[2]);
  EXPECT_EQ(numbers(list), std::vector<unsigned>{2});
}

using queue = wait_queue<ranked>;

std::vector<queue::waiter*> chain_of(queue::waiter& first) {
  std::vector<queue::waiter*> all;
  for (queue::waiter* w = &first; w != nullptr; w = w->next.get()) all.push_back(w);
  EXPECT_EQ(first.prev.get(), all.back()) << "a chain records its last waiter";
  return all;
}

TEST(chains, are_made_one_by_priority_and_then_by_age) {
  // Tests all pairs of sorted chains with up to four waiters and three priorities.
  std::vector<std::vector<std::uint32_t>> sorted;
  for (std::uint32_t length = 1; length <= 4; length++)
    for (std::uint32_t code = 0; code < 81; code++) {
      std::vector<std::uint32_t> p;
      for (std::uint32_t i = 0, c = code; i < length; i++, c /= 3) p.push_back(c % 3);
      if (std::is_sorted(p.begin(), p.end(), std::greater<>()) && std::ranges::find(sorted, p) == sorted.end())
        sorted.push_back(p);
    }
  const auto link = [](std::vector<queue::waiter>& all, const std::vector<std::uint32_t>& priorities) {
    for (std::size_t i = 0; i < priorities.size(); i++) {
      all[i].rank.thread.set(priorities[i] + 1);
      all[i].next.set(i + 1 < priorities.size() ? &all[i + 1] : nullptr);
    }
    all[0].prev.set(&all[priorities.size() - 1]);
  };
  for (const auto& p : sorted)
    for (const auto& q : sorted) {
      std::vector<queue::waiter> a(p.size()), b(q.size());
      link(a, p);
      link(b, q);
      std::vector<queue::waiter*> expected;
      for (auto& w : a) expected.push_back(&w);
      for (auto& w : b) expected.push_back(&w);
      std::ranges::stable_sort(expected, std::greater<>(), [](queue::waiter* w) { return w->rank.get(); });
      EXPECT_EQ(chain_of(queue::append(a[0], b[0])), expected);
    }
}

// ---- semaphores, condition variables ------------------------------------------------------------------------------

using core = semaphore_core<ranked>;

TEST(semaphores, serve_by_priority_and_then_in_order_of_arrival) {
  std::vector<core::waiter> w(ranks.size());
  core s;
  for (unsigned i = 0; i < w.size(); i++) {
    ranked::rank = ranks[i];
    ASSERT_FALSE(s.enter(w[i], {}));
  }
  ranked::rank = 0;
  for (unsigned i : by_rank) {
    EXPECT_TRUE(s.release());
    EXPECT_EQ(w[i].state.load(), core::waiter::notified) << i;
    EXPECT_TRUE(s.arrive(w[i]));
  }
  EXPECT_EQ(s.value(), 0u);
}

TEST(semaphores, a_thread_that_was_called_in_vain_is_the_first_of_its_equals) {
  core::waiter a, b, high;
  core s;
  ranked::rank = 3;
  ASSERT_FALSE(s.enter(a, {}));
  ASSERT_FALSE(s.enter(b, {}));
  EXPECT_TRUE(s.release());
  ranked::rank = 7;
  EXPECT_TRUE(s.try_acquire()) << "a thread that arrives may take the credit";
  ASSERT_FALSE(s.enter(high, {}));
  ranked::rank = 0;
  ASSERT_EQ(a.state.load(), core::waiter::notified);
  EXPECT_FALSE(s.arrive(a));
  for (core::waiter* w : {&high, &a, &b}) {
    EXPECT_TRUE(s.release());
    EXPECT_EQ(w->state.load(), core::waiter::notified);
    EXPECT_TRUE(s.arrive(*w));
  }
}

TEST(semaphores, impatience_counts_among_equals) {
  core::waiter a, high;
  core s;
  ranked::rank = 3;
  ASSERT_FALSE(s.enter(a, {}));
  EXPECT_TRUE(s.release());
  EXPECT_TRUE(s.try_acquire());
  std::this_thread::sleep_for(3ms);  // longer than core::handoff_after
  EXPECT_FALSE(s.arrive(a)) << "from now on the waiter wants a hand-off";
  ranked::rank = 7;
  ASSERT_FALSE(s.enter(high, {}));
  ranked::rank = 0;
  EXPECT_TRUE(s.release());
  EXPECT_EQ(a.state.load(), core::waiter::waiting);
  EXPECT_EQ(high.state.load(), core::waiter::notified);
  EXPECT_TRUE(s.arrive(high));
  EXPECT_TRUE(s.release());
  EXPECT_EQ(a.state.load(), core::waiter::granted) << "the credit is granted to the waiter";
  EXPECT_TRUE(s.arrive(a));
}

TEST(conditions, serve_by_priority_and_then_in_order_of_arrival) {
  for (const bool all : {false, true}) {
    mcs<native, waiting<native, waiting_kind::spin_then_park>> m{};
    basic_condition_variable<ranked> c;
    std::vector<unsigned> order;
    std::atomic<unsigned> done = 0;
    {
      auto team = in_turn([&](unsigned i) {
        m.lock();
        c.wait(m);
        order.push_back(i);
        m.unlock();
        done++;
      });
      for (unsigned i = 0; i < (all ? 1 : ranks.size()); i++) {
        all ? c.notify_all() : c.notify_one();
        while (!all && done != i + 1) std::this_thread::yield();
      }
    }
    EXPECT_EQ(order, by_rank) << (all ? "all" : "one by one");
  }
}

// ---- loiter, steady -------------------------------------------------------------------------------------------------

template <class Lock>
class loiters : public testing::Test {};
template <waiting_kind K>
using ranked_waiting = waiting<ranked, K>;
using forms = testing::Types<
    loiter<ranked, ranked_waiting<waiting_kind::spin_then_park>>,
    loiter<ranked, ranked_waiting<waiting_kind::yield_then_park>>, loiter<ranked, ranked_waiting<waiting_kind::park>>,
    loiter_eager<ranked, ranked_waiting<waiting_kind::spin_then_park>>,
    loiter_barging<ranked, ranked_waiting<waiting_kind::spin_then_park>>,
    loiter_cull<ranked, ranked_waiting<waiting_kind::spin_then_park>>,
    loiter_flux<ranked, ranked_waiting<waiting_kind::spin_then_park>>,
    loiter_numa<ranked, ranked_waiting<waiting_kind::spin_then_park>>,
    loiter_cohort<ranked, ranked_waiting<waiting_kind::spin_then_park>>,
    steady<ranked, ranked_waiting<waiting_kind::spin_then_park>>, steady<ranked, ranked_waiting<waiting_kind::park>>>;
TYPED_TEST_SUITE(loiters, forms);

TYPED_TEST(loiters, let_sleepers_in_by_priority_and_then_in_order_of_arrival) {
  static_assert(TypeParam::traits.by_priority);
  TypeParam l{};
  std::vector<unsigned> order;
  l.lock();
  {
    auto team = in_turn([&](unsigned i) {
      l.lock();
      order.push_back(i);
      l.unlock();
    });
    // the standby (the first waiter) now wants a hand-over, but the urgent waiter is still served first
    std::this_thread::sleep_for(6ms);
    EXPECT_TRUE(l.has_certain_successor());
    l.unlock();
  }
  EXPECT_EQ(order, by_rank);
  EXPECT_EQ(test::word(l, 0), 0u);
  EXPECT_EQ(test::word(l, 1), 0u);
}

TYPED_TEST(loiters, exclude_where_some_threads_are_urgent) {
  TypeParam l{};
  long counter = 0;
  test::in_threads(6, [&](unsigned me) {
    ranked::rank = me / 2;
    for (int i = 0; i < 1500; i++) {
      l.lock();
      counter++;
      l.unlock();
    }
  });
  EXPECT_EQ(counter, 6 * 1500);
  EXPECT_TRUE(l.try_lock());
}

TYPED_TEST(loiters, know_that_an_urgent_waiter_is_certain_to_come) {
  TypeParam l{};
  l.lock();
  EXPECT_FALSE(l.has_certain_successor());
  const std::jthread urgent = test::asleep_in([&] {
    ranked::rank = 1;
    l.lock();
    EXPECT_FALSE(l.has_certain_successor()) << "no thread is behind it";
    l.unlock();
  });
  EXPECT_TRUE(l.has_certain_successor());
  EXPECT_EQ(test::word(l, 1), 0u) << "it is not in the inner lock's queue";
  l.unlock();
}

// ---- the kernel's priorities ----------------------------------------------------------------------------------------

TEST(native_priority, is_the_kernels) {
  std::jthread([] {
    errno = 4711;
    EXPECT_EQ(native::priority(), 0u);
    const sched_param batch{.sched_priority = 0};
    ASSERT_EQ(sched_setscheduler(0, SCHED_BATCH, &batch), 0);
    EXPECT_EQ(native::priority(), 0u);
    EXPECT_EQ(errno, 4711);
  }).join();
  std::jthread([] {
    const sched_param real_time{.sched_priority = 7};
    if (sched_setscheduler(0, SCHED_FIFO, &real_time) != 0)
      GTEST_SKIP() << "this process may not set a real-time priority";
    EXPECT_EQ(native::priority(), 7u);
    ASSERT_EQ(sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &real_time), 0);
    EXPECT_EQ(native::priority(), 7u);
  }).join();
}

TEST(native_priority, can_be_faked_by_niceness) {
  native::set_priorities_by_nice(true);
  std::jthread([] {
    errno = 4711;
    EXPECT_EQ(native::priority(), std::uint32_t(19 - getpriority(PRIO_PROCESS, 0)));
    ASSERT_EQ(setpriority(PRIO_PROCESS, 0, 16), 0);
    errno = 4711;
    EXPECT_EQ(native::priority(), 3u);
    ASSERT_EQ(setpriority(PRIO_PROCESS, 0, 19), 0);
    EXPECT_EQ(native::priority(), 0u);
    EXPECT_EQ(errno, 4711);
  }).join();
  native::set_priorities_by_nice(false);
  EXPECT_EQ(native::priority(), 0u);
}

}  // namespace
}  // namespace usher
