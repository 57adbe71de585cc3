// Variants of locks that the papers mention without a listing: k42-stack, c-ptl-tkt-fast, mcs-awake.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "scripted.hpp"
#include "usher/locks/cohort_fast.hpp"
#include "usher/locks/k42_stack.hpp"
#include "usher/locks/mcs_awake.hpp"
#include "usher/mutex.hpp"
#include "usher/platform/native.hpp"
#include "waiters.hpp"

namespace usher {
namespace {

using test::actor;
using test::admission_order;
using test::scripted;
using test::word;
using by_script = waiting<scripted, waiting_kind::spin>;
using scripted_stp = waiting<scripted, waiting_kind::spin_then_park>;

const std::vector<unsigned> first_first{0, 1, 2, 3, 4, 5};

// ---- K42 with nodes on the stack

/// The native platform without queue nodes.
struct without_nodes : native {
  static node_handle take_node() {
    ADD_FAILURE() << "a lock has asked for a queue node";
    return no_node;
  }
};
template <waiting_kind K>
using k42_without_nodes = k42_stack<without_nodes, waiting<without_nodes, K>>;

/// Returns the lock's 64-bit words: tail, next.
template <class Lock>
std::vector<std::uint64_t> words_of(const Lock& l) {
  const auto wide = [&](std::size_t i) { return word(l, 2 * i) | std::uint64_t{word(l, 2 * i + 1)} << 32; };
  return {wide(0), wide(1)};
}
const std::vector<std::uint64_t> free_words{0, 0}, held_words{1, 0};

template <waiting_kind K>
void k42_keeps_the_order() {
  k42_without_nodes<K> l{};
  static_assert(sizeof l == 16 && alignof(decltype(l)) == 8, "what a pthread_mutex_t has");
  EXPECT_EQ(admission_order(l, 6), first_first);
  EXPECT_EQ(words_of(l), free_words);
}
TEST(k42_stack, takes_no_queue_nodes_and_keeps_the_order) {
  k42_keeps_the_order<waiting_kind::spin_then_park>();
  k42_keeps_the_order<waiting_kind::park>();
}

TEST(k42_stack, excludes_a_crowd) {
  k42_without_nodes<waiting_kind::spin_then_park> l{};
  test::lets_a_crowd_in(l, 40);
  k42_without_nodes<waiting_kind::spin> spinning{};
  test::lets_a_crowd_in(spinning, 4);
}

/// A thread that has waited owns the lock, and its call of lock() has returned. Its node, which was on the stack of
/// that call, no longer exists, so the lock's words must not contain the node's address.
TEST(k42_stack, a_holder_that_has_waited_leaves_no_address_in_the_lock) {
  k42_without_nodes<waiting_kind::spin_then_park> l{};
  std::vector<std::uint64_t> seen;
  l.lock();
  {
    const std::jthread waiter = test::asleep_in([&] {
      l.lock();
      seen = words_of(l);
      l.unlock();
    });
    EXPECT_FALSE(l.has_no_successor());
    const auto busy = words_of(l);
    EXPECT_GT(busy[0], 1u);
    EXPECT_EQ(busy[1], busy[0]) << "one waiter, the first and the last";
    l.unlock();
  }
  EXPECT_EQ(seen, held_words);
  EXPECT_EQ(words_of(l), free_words);
}

/// A waiter that gets the lock while another waits behind it stores the other one's address in the lock. Then the
/// waiter's thread ends, and its stack is unmapped before the other waiter continues.
TEST(k42_stack, a_waiters_stack_may_end_while_others_wait) {
  const auto l = std::make_unique<mutex<k42_stack>>();
  unsigned entered = 0;
  l->lock();
  std::vector<std::jthread> team;
  for (unsigned i = 0; i < 8; i++)
    team.push_back(test::asleep_in([&] {
      l->lock();
      entered++;
    }));
  for (unsigned i = 0; i < 8; i++) {
    l->unlock();  // the unlocking thread is not the owner, whose thread has ended
    team[i].join();
    EXPECT_EQ(entered, i + 1);
  }
  l->unlock();
  EXPECT_TRUE(l->try_lock());
}

// ---- the cohort lock's fast path

template <class P, class W>
using c_mcs_mcs_fast = cohort_fast<P, W, mcs, mcs>;
/// The layout of the lock in parts of 128 bytes: the global lock, the number of the holder's NUMA node, and one part
/// for each NUMA node.
constexpr std::size_t global_part = 0, part = 128, first_home = 2 * part;
static_assert(sizeof(c_mcs_mcs_fast<native, waiting<native, waiting_kind::spin>>) ==
                  sizeof(c_mcs_mcs<native, waiting<native, waiting_kind::spin>>),
              "the mark has room beside the local lock");

/// Returns the number of recorded operations of one kind on a part of the lock.
template <class Lock>
long operations(const Lock& l, enum test::done::what what, std::size_t at) {
  const auto* const begin = reinterpret_cast<const unsigned char*>(&l) + at;
  return std::count_if(test::history.begin(), test::history.end(), [&](const test::done& d) {
    const auto* const word = static_cast<const unsigned char*>(d.word);
    return d.what == what && word >= begin && word < begin + part;
  });
}

TEST(cohort_fast, without_contention_only_the_global_lock_is_taken) {
  c_mcs_mcs_fast<scripted, by_script> l{};
  for (int i = 0; i < 3; i++) {
    test::history.clear();
    EXPECT_TRUE(i != 1 ? (l.lock(), true) : l.try_lock());
    EXPECT_FALSE(l.try_lock());
    l.unlock();
    EXPECT_EQ(operations(l, test::done::modify, global_part), 2) << "one to lock, one to unlock";
    EXPECT_EQ(operations(l, test::done::modify, first_home), 0);
    EXPECT_EQ(operations(l, test::done::store, first_home), 0);
  }
}

/// The first waiter of a NUMA node finds the global lock taken. It acquires the local lock and waits for the global
/// lock. Later waiters of the node do not access the global lock: each gets it from its predecessor.
TEST(cohort_fast, a_cohort_forms_under_contention) {
  c_mcs_mcs_fast<scripted, by_script> l{};
  actor first(0), second(0), again(0);
  std::vector<int> order;
  l.lock();
  first.start([&] { l.lock(), order.push_back(1); });
  first.run();
  EXPECT_TRUE(first.waits());
  test::history.clear();
  second.start([&] { l.lock(), order.push_back(2); });
  second.run();
  EXPECT_TRUE(second.waits());
  EXPECT_EQ(operations(l, test::done::load, global_part) + operations(l, test::done::modify, global_part), 0);
  EXPECT_FALSE(l.try_lock());
  l.unlock();
  first.run();
  test::history.clear();
  l.unlock();  // releases the lock that the thread `first` has acquired: any thread may unlock
  second.run();
  EXPECT_EQ(operations(l, test::done::load, global_part) + operations(l, test::done::modify, global_part), 0)
      << "within the NUMA node the global lock stays where it is";
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  l.unlock();
  test::history.clear();
  again.start([&] { l.lock(), l.unlock(); });
  again.run();
  EXPECT_TRUE(again.ended());
  EXPECT_EQ(operations(l, test::done::modify, first_home), 0) << "the mark is cleared: the fast path is open again";
}

/// As in the lock `cohort`: while threads of the NUMA node wait, 64 hand-overs stay in the node; then the next node has
/// its turn.
TEST(cohort_fast, passes_64_times) {
  c_ptl_tkt_fast<scripted, by_script> l{};
  actor far(1);
  std::deque<actor> team;
  const auto arrive = [&] {
    team.emplace_back(0).start([&] { l.lock(); });
    team.back().run();
    EXPECT_TRUE(team.back().waits());
  };
  l.lock();
  arrive();
  far.start([&] { l.lock(); });
  far.run();
  arrive();
  l.unlock();  // the owner acquired the lock when it was free
  team[0].run();
  ASSERT_TRUE(team[0].ended());
  unsigned passed = 0;
  for (; passed < 1000; passed++) {
    arrive();
    l.unlock();
    far.run();
    if (far.ended()) break;
    team[passed + 1].run();
    ASSERT_TRUE(team[passed + 1].ended());
  }
  EXPECT_EQ(passed, 64u);
}

TEST(cohort_fast, excludes_a_crowd) {
  mutex<c_ptl_tkt_fast> l;
  test::lets_a_crowd_in(l, 20);
}

// ---- MCS that prefers waiters that are awake

/// A lock with waiters that the script lets arrive one after the other.
template <class P>
struct awake_lock {
  mcs_awake_with_node<P, waiting<P, waiting_kind::spin_then_park>, 1000> lock{};
  std::deque<actor> team;
  std::vector<unsigned> order;
  // a node that no waiter gets: take_node() returns the first free node
  const node_handle mine = first_node + P::nodes - 1;

  awake_lock() { lock.lock(mine); }
  void arrives() {
    team.emplace_back().start([this, i = unsigned(team.size())] {
      const node_handle h = P::take_node();
      lock.lock(h);
      order.push_back(i - 1);
      lock.unlock(h);
      P::give_node(h);
    });
  }
  void arrives_and_sleeps() {
    arrives();
    team.back().run();
    ASSERT_TRUE(team.back().waits());
  }
  void arrives_and_polls() {
    arrives();
    team.back().until_changed([&] { return word(lock, 0); });
    team.back().step();  // writes the link
  }
  void until_all_have_ended() {
    for (bool any = true; any;) {
      any = false;
      for (actor& a : team)
        if (!a.ended()) a.run(), any = true;
    }
    EXPECT_EQ(word(lock, 0), 0u);
    EXPECT_EQ(word(lock, 1), 0u);
  }
};
const auto& flag_of(unsigned i) {
  return scripted::node(first_node + i).flag;
}

TEST(mcs_awake, a_waiter_that_polls_is_granted_before_those_that_sleep) {
  awake_lock<scripted> l;
  l.arrives_and_sleeps();
  l.arrives_and_sleeps();
  l.arrives_and_polls();
  scripted::last_woken = nullptr;
  l.lock.unlock(l.mine);
  EXPECT_EQ(flag_of(2).peek(), flag_granted);
  EXPECT_EQ(flag_of(0).peek(), flag_parked);
  EXPECT_EQ(flag_of(1).peek(), flag_parked);
  EXPECT_EQ(scripted::last_woken, nullptr) << "no thread is woken";
  EXPECT_TRUE(l.lock.has_certain_successor(first_node + 2));
  l.team[2].run();
  EXPECT_EQ(scripted::last_woken, &flag_of(1)) << "no other thread is in the queue: the latest passive one is woken";
  l.until_all_have_ended();
  EXPECT_EQ(l.order, (std::vector<unsigned>{2, 1, 0}));
}

TEST(mcs_awake, a_waiter_in_front_that_polls_is_granted) {
  awake_lock<scripted> l;
  l.arrives_and_polls();
  l.arrives_and_polls();
  l.lock.unlock(l.mine);
  EXPECT_EQ(flag_of(0).peek(), flag_granted);
  l.until_all_have_ended();
  EXPECT_EQ(l.order, (std::vector<unsigned>{0, 1}));
}

TEST(mcs_awake, one_unlock_passes_over_eight_sleepers) {
  awake_lock<scripted> l;
  for (unsigned i = 0; i < 10; i++) l.arrives_and_sleeps();
  l.lock.unlock(l.mine);
  for (unsigned i = 0; i < 10; i++) EXPECT_EQ(flag_of(i).peek(), i == 8 ? flag_granted : flag_parked);
  EXPECT_EQ(scripted::last_woken, &flag_of(8));
  l.until_all_have_ended();
  EXPECT_EQ(l.order, (std::vector<unsigned>{8, 9, 7, 6, 5, 4, 3, 2, 1, 0}));
}

/// A platform on which every random choice succeeds, so that each unlock serves the eldest waiter.
struct always : scripted {
  static bool bernoulli(std::uint32_t) { return true; }
};

TEST(mcs_awake, serves_the_eldest_if_it_is_its_turn) {
  awake_lock<always> l;
  for (unsigned i = 0; i < 4; i++) l.arrives_and_sleeps();
  l.lock.unlock(l.mine);
  l.until_all_have_ended();
  EXPECT_EQ(l.order, (std::vector<unsigned>{3, 0, 1, 2}));
}

TEST(mcs_awake, excludes_a_crowd) {
  mutex<mcs_awake> l;
  test::lets_a_crowd_in(l, 40);
}

}  // namespace
}  // namespace usher
