// The locks of the paper "Malthusian Locks", and the wide Fairlock. The tests check the order of admission and the
// locks' words.
#include <gtest/gtest.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "scripted.hpp"
#include "team.hpp"
#include "usher/core/inflatable.hpp"
#include "usher/locks/fairlock_wide.hpp"
#include "usher/locks/lifo.hpp"
#include "usher/locks/loiter.hpp"
#include "usher/locks/loiter_cohort.hpp"
#include "usher/locks/loiter_variants.hpp"
#include "usher/locks/mcs.hpp"
#include "usher/locks/mcs_ahead.hpp"
#include "usher/locks/mcscr.hpp"
#include "usher/locks/mcscrn.hpp"
#include "usher/platform/native.hpp"
#include "waiters.hpp"

namespace usher {
namespace {

using std::chrono::milliseconds;
using test::admission_order;
using test::word;
using stp = waiting<native, waiting_kind::spin_then_park>;
using spin = waiting<native, waiting_kind::spin>;
using park = waiting<native, waiting_kind::park>;

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
  basic_lifo<native, park, 1> l{};  // the eldest waiter's turn comes at each unlock
  EXPECT_EQ(admission_order(l, 6), (std::vector<unsigned>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(word(l, 0), 0u);
}

TEST(lifo, its_word) {
  lifo_cr<native, stp> l{};
  static_assert(sizeof l == 4);
  EXPECT_TRUE(l.try_lock());
  EXPECT_EQ(word(l, 0), 1u) << "held, no waiters";
  EXPECT_FALSE(l.has_certain_successor());
  std::jthread waiter([&] {
    l.lock();
    l.unlock();
  });
  while (!l.has_certain_successor()) std::this_thread::yield();
  EXPECT_GE(word(l, 0), first_node);
  l.unlock();
  waiter.join();
  EXPECT_EQ(word(l, 0), 0u);
}

// ---- LIFO with nodes on the stack

/// The native platform without queue nodes.
struct without_nodes : native {
  static node_handle take_node() {
    ADD_FAILURE() << "a lock has asked for a queue node";
    return no_node;
  }
};
template <std::uint32_t FairnessPeriod, waiting_kind K>
using lifo_on_stacks =
    basic_lifo<without_nodes, waiting<without_nodes, K>, FairnessPeriod, false, lifo_stack_nodes<without_nodes>>;

TEST(lifo_cr_stack, takes_no_queue_nodes_and_keeps_the_order) {
  lifo_on_stacks<0, waiting_kind::spin_then_park> latest{};
  static_assert(sizeof latest == 8);
  EXPECT_EQ(admission_order(latest, 6), last_first);
  lifo_on_stacks<1, waiting_kind::park> eldest{};
  EXPECT_EQ(admission_order(eldest, 6), (std::vector<unsigned>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(word(eldest, 0), 0u);
  EXPECT_EQ(word(eldest, 1), 0u);
}

TEST(lifo_cr_stack, excludes_a_crowd) {
  lifo_on_stacks<1000, waiting_kind::spin_then_park> l{};
  test::lets_a_crowd_in(l, 40);
  lifo_on_stacks<1000, waiting_kind::spin> spinning{};
  test::lets_a_crowd_in(spinning, 4);
}

// ---- LOITER's parts

constexpr std::uint32_t held = 1, asleep = 4, impatient = 8, one_spins = 256;

template <class Lock>
void set_outer(Lock& lock, std::uint32_t w) {
  test::set_word(lock, 0, w);
}

TEST(loiter_parts, plain_loiter_is_as_large_as_it_was) {
  static_assert(sizeof(loiter<native, stp>) == 12 && sizeof(loiter_defer<native, stp>) == 12);
  static_assert(sizeof(loiter_numa<native, stp>) == 16);
  static_assert(sizeof(loiter_cohort<native, stp>) == 2304);
}

TEST(loiter_parts, deferred_unpark_leaves_the_standby_asleep_while_an_arrival_spins) {
  loiter_defer<native, stp> l{};
  set_outer(l, held | asleep | one_spins);
  l.unlock();
  EXPECT_EQ(word(l, 0), asleep | one_spins) << "the standby's mark stays in the free word";
  set_outer(l, held | asleep);
  l.unlock();
  EXPECT_EQ(word(l, 0), 0u) << "no thread spins, so the standby is woken";
  loiter<native, stp> plain{};
  set_outer(plain, held | asleep);
  plain.unlock();
  EXPECT_EQ(word(plain, 0) & asleep, 0u) << "the standby is woken even if threads spin, because they are not counted";
}

/// Returns the CPU time of a thread, so that other processes do not affect the result.
std::chrono::nanoseconds cpu_time_of(std::jthread& thread) {
  clockid_t clock{};
  timespec time{};
  EXPECT_EQ(pthread_getcpuclockid(thread.native_handle(), &clock), 0);
  EXPECT_EQ(clock_gettime(clock, &time), 0);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

TEST(loiter_parts, the_cap_on_spinners_sends_arrivals_to_the_inner_lock) {
  native::set_limits({1000000000, 1000});
  loiter_cap<native, stp> l{};
  set_outer(l, held | 2 * one_spins);
  {
    std::jthread third([&] {
      l.lock();
      l.unlock();
    });
    while (word(l, 1) == 0) std::this_thread::yield();
    EXPECT_LT(cpu_time_of(third), milliseconds(500)) << "otherwise the thread spins for a second";
    EXPECT_EQ(word(l, 0) / one_spins, 2u);
    __atomic_fetch_sub(reinterpret_cast<std::uint32_t*>(&l), 2 * one_spins, __ATOMIC_RELAXED);
    l.unlock();
  }
  EXPECT_EQ(word(l, 0), 0u);
  native::set_limits({5555, 1000000});
}

TEST(loiter_parts, many_arrivals_end_the_spinning_of_an_earlier_one) {
  native::set_limits({1000000000, 1000});
  loiter_flux<native, stp> l{};
  static_assert(sizeof l == 16);
  constexpr unsigned arrivals_word = 3;
  set_outer(l, held);
  {
    std::jthread first([&] {
      l.lock();
      l.unlock();
    });
    while (word(l, arrivals_word) != 1) std::this_thread::yield();
    EXPECT_EQ(word(l, 1), 0u) << "it spins";
    __atomic_fetch_add(reinterpret_cast<std::uint32_t*>(&l) + arrivals_word, 9, __ATOMIC_RELAXED);
    while (word(l, 1) == 0) std::this_thread::yield();
    EXPECT_LT(cpu_time_of(first), milliseconds(500)) << "otherwise the thread spins for a second";
    l.unlock();
  }
  EXPECT_EQ(word(l, 0), 0u);
  native::set_limits({5555, 1000000});
}

TEST(loiter_parts, spinning_adapts_to_its_success) {
  native::set_limits({1000, 1000});  // short spins, which fail
  loiter_adaptive<native, stp> l{};
  static_assert(sizeof l == 16);
  constexpr unsigned less_word = 3;
  for (std::uint32_t before = 0, i = 0; i < 30; i++) {
    set_outer(l, held);
    {
      std::jthread waiter([&] {
        l.lock();
        l.unlock();
      });
      while (word(l, 1) == 0) std::this_thread::yield();
      EXPECT_GE(word(l, less_word), before);
      EXPECT_LE(word(l, less_word), 248u);
      before = word(l, less_word);
      l.unlock();
    }
  }
  const std::uint32_t short_spins = word(l, less_word);
  EXPECT_GT(short_spins, 200u);
  native::set_limits({4000000000, 1000});  // long spins, which end in time unless the waiter loses its CPU for long
  for (unsigned i = 0; i < 1000 && word(l, less_word) >= short_spins; i++) {
    set_outer(l, held);
    std::jthread waiter([&] {
      l.lock();
      l.unlock();
    });
    // time for the waiter to begin its spin, which no word of the lock shows
    if (i % 2 == 0) std::this_thread::sleep_for(milliseconds(1));
    l.unlock();
  }
  EXPECT_LT(word(l, less_word), short_spins);
  native::set_limits({5555, 1000000});
}

TEST(loiter_parts, without_hand_over_the_standby_is_never_impatient) {
  const auto marks = [](auto& l, std::uint32_t wanted) {
    l.lock();
    const std::jthread standby = test::asleep_in([&] {
      l.lock();
      l.unlock();
    });
    test::eventually([&] { return word(l, 0) == wanted; });
    const std::uint32_t w = word(l, 0);
    l.unlock();
    return w;
  };
  loiter<native, stp> plain{};
  EXPECT_EQ(marks(plain, held | asleep | impatient), held | asleep | impatient);
  loiter_barging<native, stp> barging{};
  EXPECT_EQ(marks(barging, held | asleep), held | asleep);
}

TEST(loiter_parts, a_mark_that_a_plain_store_has_wiped_out_costs_a_look) {
  loiter_store<native, stp> l{};
  l.lock();
  std::atomic<bool> in{false};
  std::jthread standby([&] {
    l.lock();
    in = true;
    l.unlock();
  });
  for (int i = 0; i < 5; i++) {
    while ((word(l, 0) & asleep) == 0) std::this_thread::yield();
    set_outer(l, held);  // simulates an unlock and the next lock by plain stores, which overwrite the standby's mark
  }
  set_outer(l, 0);  // simulates such an unlock without a next lock: no thread wakes the standby
  const auto begin = std::chrono::steady_clock::now();
  while (!in && std::chrono::steady_clock::now() - begin < std::chrono::seconds(20)) std::this_thread::yield();
  EXPECT_TRUE(in);
}

// ---- unpark ahead of time
// ---- MCSCR and MCSCRN

using test::actor;
using test::scripted;
using scripted_spin = waiting<scripted, waiting_kind::spin>;
using scripted_stp = waiting<scripted, waiting_kind::spin_then_park>;

/// Starts n actors (scripted threads) one after the other. Each calls arrive(i) while the test holds the lock, and runs
/// until it sleeps.
template <class Arrive>
void lets_sleepers_arrive(std::deque<actor>& team, unsigned n, Arrive arrive) {
  for (unsigned i = 0; i < n; i++) {
    team.emplace_back().start([arrive, i] { arrive(i); });
    team.back().run();
  }
}
void until_all_have_ended(std::deque<actor>& team) {
  for (bool any = true; any;) {
    any = false;
    for (actor& a : team)
      if (!a.ended()) a.run(), any = true;
  }
}
const auto& flag_of(unsigned i) {
  return scripted::node(first_node + i).flag;
}

TEST(wake_ahead, lifo_wakes_the_waiter_that_it_leaves_on_top) {
  lifo_cr_ahead<scripted, scripted_stp> l{};
  std::deque<actor> team;
  std::vector<unsigned> order;
  l.lock();
  lets_sleepers_arrive(team, 3, [&](unsigned i) {
    l.lock();
    order.push_back(i);
    l.unlock();
  });
  for (unsigned i = 0; i < 3; i++) ASSERT_EQ(flag_of(i).peek(), flag_parked);
  l.unlock();
  EXPECT_EQ(flag_of(2).peek(), flag_granted);
  EXPECT_EQ(flag_of(1).peek(), flag_waiting) << "the waiter that is next but one polls";
  EXPECT_EQ(scripted::last_woken, &flag_of(1)) << "its wake-up comes after that of the next owner";
  EXPECT_EQ(flag_of(0).peek(), flag_parked);
  team[1].run();
  EXPECT_EQ(flag_of(1).peek(), flag_parked) << "it goes back to sleep if it is not granted in time";
  until_all_have_ended(team);
  EXPECT_EQ(order, (std::vector<unsigned>{2, 1, 0}));
  EXPECT_EQ(word(l, 0), 0u);
}

TEST(wake_ahead, a_waiter_that_is_awake_is_not_woken) {
  lifo_cr_ahead<scripted, scripted_stp> l{};
  std::deque<actor> team;
  l.lock();
  team.emplace_back().start([&] { l.lock(), l.unlock(); });
  team.back().until_changed([&] { return word(l, 0); });  // the waiter is on the stack, and does not sleep yet
  team.emplace_back().start([&] { l.lock(), l.unlock(); });
  team.back().run();
  EXPECT_EQ(flag_of(0).peek(), flag_waiting);
  EXPECT_EQ(flag_of(1).peek(), flag_parked);
  l.unlock();
  EXPECT_EQ(scripted::last_woken, &flag_of(1)) << "only the next owner is woken";
  until_all_have_ended(team);
}

template <unsigned Distance>
void wakes_at_distance() {
  mcs_ahead_with_node<scripted, scripted_stp, Distance> l{};
  std::deque<actor> team;
  std::vector<unsigned> order;
  // a node that no waiter gets: take_node() returns the first free node
  const node_handle mine = first_node + scripted::nodes - 1;
  l.lock(mine);
  lets_sleepers_arrive(team, 4, [&](unsigned i) {
    const node_handle h = scripted::take_node();
    l.lock(h);
    order.push_back(i);
    l.unlock(h);
    scripted::give_node(h);
  });
  l.unlock(mine);
  EXPECT_EQ(flag_of(0).peek(), flag_granted);
  for (unsigned i = 1; i < 4; i++) EXPECT_EQ(flag_of(i).peek(), i == Distance ? flag_waiting : flag_parked);
  EXPECT_EQ(scripted::last_woken, &flag_of(Distance));
  until_all_have_ended(team);
  EXPECT_EQ(order, (std::vector<unsigned>{0, 1, 2, 3}));
  EXPECT_EQ(word(l, 0), 0u);
}

TEST(wake_ahead, mcs_wakes_the_waiter_behind_the_next_owner) {
  wakes_at_distance<1>();
  wakes_at_distance<3>();
}

TEST(wake_ahead, is_no_call_of_the_kernel_with_one_waiter) {
  mcs_ahead_with_node<scripted, scripted_stp, 1> l{};
  std::deque<actor> team;
  const node_handle mine = first_node + scripted::nodes - 1;
  l.lock(mine);
  lets_sleepers_arrive(team, 1, [&](unsigned) {
    const node_handle h = scripted::take_node();
    l.lock(h);
    l.unlock(h);
    scripted::give_node(h);
  });
  l.unlock(mine);
  EXPECT_EQ(scripted::last_woken, &flag_of(0));
  until_all_have_ended(team);
}

// ---- LOITER over a cohort lock

using scripted_park = waiting<scripted, waiting_kind::park>;

/// Lets waiters from these NUMA nodes arrive one after the other at a held LOITER, then unlocks. Returns the order in
/// which they are admitted.
template <class Lock>
std::vector<unsigned> standbys_from(const std::vector<unsigned>& numa_nodes) {
  Lock l{};
  std::vector<unsigned> order;
  std::deque<actor> team;
  l.lock();
  for (unsigned i = 0; i < numa_nodes.size(); i++) {
    team.emplace_back(numa_nodes[i]).start([&, i] {
      l.lock();
      order.push_back(i);
      EXPECT_EQ(l.has_certain_successor(), order.size() < numa_nodes.size());
      l.unlock();
    });
    team.back().run();
  }
  EXPECT_TRUE(l.has_certain_successor());
  l.unlock();
  until_all_have_ended(team);
  EXPECT_TRUE(l.try_lock());
  EXPECT_FALSE(l.has_certain_successor());
  return order;
}

TEST(loiter_cohort, standbys_come_from_one_numa_node) {
  EXPECT_EQ((standbys_from<loiter_cohort<scripted, scripted_park>>({1, 0, 1, 0, 1})),
            (std::vector<unsigned>{0, 2, 4, 1, 3}));
  EXPECT_EQ((standbys_from<loiter<scripted, scripted_park>>({1, 0, 1, 0, 1})), (std::vector<unsigned>{0, 1, 2, 3, 4}))
      << "plain LOITER's are FIFO";
}

TEST(loiter_cohort, leaves_a_numa_node_whose_turns_are_over) {
  EXPECT_EQ((standbys_from<basic_loiter_cohort<scripted, scripted_park, 1>>({0, 0, 0, 1, 0, 1})),
            (std::vector<unsigned>{0, 1, 3, 5, 2, 4}))
      << "two standbys in a row, then the other NUMA node";
}

// ---- MCSCRN

/// Lets waiters from these NUMA nodes arrive one after the other at a held lock, then unlocks. Returns the order in
/// which they are admitted.
template <class Lock>
std::vector<unsigned> order_from(Lock& lock, const std::vector<unsigned>& numa_nodes) {
  std::vector<unsigned> order;
  std::deque<actor> team;
  const node_handle mine = scripted::take_node();
  lock.lock(mine);
  for (unsigned i = 0; i < numa_nodes.size(); i++) {
    team.emplace_back(numa_nodes[i]).start([&, i] {
      const node_handle h = scripted::take_node();
      lock.lock(h);
      order.push_back(i);
      lock.unlock(h);
      scripted::give_node(h);
    });
    team.back().run();
  }
  lock.unlock(mine);
  for (std::size_t before = 1; before != 0;) {
    before = 0;
    for (actor& a : team) {
      if (!a.ended()) a.run(), before++;
    }
  }
  scripted::give_node(mine);
  return order;
}

/// A platform on which a random choice of probability 1/1 succeeds; of all other random choices only call number `due`
/// succeeds.
struct once : scripted {
  static inline unsigned calls = 0, due = 0;
  static bool bernoulli(std::uint32_t n) { return n == 1 || ++calls == due; }
};

template <std::uint32_t FairnessPeriod, std::uint32_t CullPeriod>
std::vector<unsigned> mcscr_order(unsigned waiters, unsigned due = 0) {
  once::calls = 0;
  once::due = due;
  mcscr_with_node<once, waiting<once, waiting_kind::spin>, FairnessPeriod, CullPeriod> l{};
  const std::vector<unsigned> order = order_from(l, std::vector<unsigned>(waiters, 0u));
  EXPECT_EQ(word(l, 0), 0u) << "the lock is free";
  const node_handle h = scripted::take_node();
  EXPECT_TRUE(l.try_lock(h));
  EXPECT_FALSE(l.has_certain_successor(h)) << "no thread is passive";
  l.unlock(h);
  scripted::give_node(h);
  return order;
}

TEST(mcscr, one_unlock_makes_one_thread_passive_and_the_latest_returns_first) {
  EXPECT_EQ((mcscr_order<1000, 1>(3)), (std::vector<unsigned>{1, 2, 0}));
  EXPECT_EQ((mcscr_order<1000, 1>(5)), (std::vector<unsigned>{1, 3, 4, 2, 0}));
}

TEST(mcscr, an_unlock_that_does_not_look_for_surplus_is_that_of_mcs) {
  EXPECT_EQ((mcscr_order<1000, 8>(3)), (std::vector<unsigned>{0, 1, 2}));
  EXPECT_EQ((mcscr_order<1000, 8>(4, 1)), (std::vector<unsigned>{1, 2, 3, 0})) << "only the first unlock looks";
}

TEST(mcscr, serves_the_eldest_passive_thread) {
  // With a fairness period of 1, each unlock admits the passive thread if there is one, so at most one thread is
  // passive.
  EXPECT_EQ((mcscr_order<1, 1>(5)), (std::vector<unsigned>{1, 0, 3, 2, 4}));
  // Waiters 0 and 2 are passive when waiter 3 unlocks; this unlock admits 0, the eldest. Then 4 becomes passive, and is
  // admitted before 2.
  EXPECT_EQ((mcscr_order<1000, 1>(6, 2)), (std::vector<unsigned>{1, 3, 0, 5, 4, 2}));
}

std::uint32_t home(const auto& lock) {
  return word(lock, 2) >> 24;
}

TEST(mcscrn, prefers_threads_at_home_then_moves_home) {
  mcscrn_with_node<scripted, scripted_spin> l{};
  EXPECT_EQ(order_from(l, {1, 0, 1, 0}), (std::vector<unsigned>{1, 3, 0, 2}));
  EXPECT_EQ(home(l), 1u);
  EXPECT_EQ(order_from(l, {0, 1, 0, 1}), (std::vector<unsigned>{1, 3, 0, 2})) << "home is node 1";
  EXPECT_EQ(home(l), 0u);
  EXPECT_EQ(word(l, 0), 0u);
  EXPECT_EQ(word(l, 1), 0u) << "no thread is passive";
  EXPECT_EQ(word(l, 2), 0u) << "no thread is remote";
}

TEST(mcscrn, sets_surplus_threads_at_home_aside) {
  mcscrn_with_node<scripted, scripted_spin> l{};
  EXPECT_EQ(order_from(l, {0, 0, 0}), (std::vector<unsigned>{1, 2, 0})) << "like MCSCR";
  // Waiter 4 is on the remote NUMA node, so it is last. The waiters that were set aside (passive) come before it,
  // because they are on the home node.
  EXPECT_EQ(order_from(l, {0, 0, 0, 0, 1}), (std::vector<unsigned>{1, 3, 2, 0, 4}));
  EXPECT_EQ(home(l), 1u);
}

/// A platform on which a random choice of probability 1/1 succeeds: with a period of 1, each unlock that may change the
/// home node changes it.
struct fickle : scripted {
  static bool bernoulli(std::uint32_t n) { return n == 1; }
};

TEST(mcscrn, home_changes_now_and_then_though_somebody_is_at_home) {
  mcscrn_with_node<fickle, waiting<fickle, waiting_kind::spin>, 1> l{};
  EXPECT_EQ(order_from(l, {1, 0, 1, 0}), (std::vector<unsigned>{1, 0, 2, 3}))
      << "the eldest remote thread is admitted before 3";
}

TEST(mcscrn, a_change_of_home_makes_passive_threads_remote) {
  mcscrn_with_node<fickle, waiting<fickle, waiting_kind::spin>, 1> l{};
  // Waiter 0 is on the remote node. Waiter 1 becomes passive, so that waiter 2 is admitted. The unlock of waiter 2
  // makes node 1 the home node. Waiter 1 is admitted when its own node is the home node again.
  EXPECT_EQ(order_from(l, {1, 0, 0}), (std::vector<unsigned>{2, 0, 1}));
  EXPECT_EQ(home(l), 0u);
}

TEST(node_ring, keeps_order) {
  using ring = node_ring<native>;
  std::vector<node_handle> h;
  for (int i = 0; i < 6; i++) h.push_back(native::take_node());
  node_handle a = no_node, b = no_node;
  for (int i = 0; i < 3; i++) a = ring::add(a, h[std::size_t(i)]);
  for (int i = 3; i < 6; i++) b = ring::add(b, h[std::size_t(i)]);
  EXPECT_EQ(ring::eldest(a), h[0]);
  a = ring::remove(a, h[1]);
  a = ring::join(a, b);
  a = ring::remove(a, h[5]);
  std::vector<node_handle> order;
  while (a != no_node) {
    order.push_back(ring::eldest(a));
    a = ring::remove(a, order.back());
  }
  EXPECT_EQ(order, (std::vector<node_handle>{h[0], h[2], h[3], h[4]}));
  EXPECT_EQ(ring::join(no_node, h[0]), h[0]);
  EXPECT_EQ(ring::join(h[0], no_node), h[0]);
  for (node_handle n : h) native::give_node(n);
}

// ---- wide Fairlock

/// A lock with only two slots in each word, so that four scripted threads need several words.
using wide = basic_fairlock_wide<scripted, scripted_spin, 512, 2>;

/// Lets actors (scripted threads) arrive in this order at a held lock, each `times` times. An actor that has unlocked
/// arrives again before the next one unlocks. Returns the order of admission.
std::vector<unsigned> round_robin(const std::vector<unsigned>& arrivals, unsigned times) {
  wide l{};
  std::vector<unsigned> order;
  std::deque<actor> team;  // their slots ascend
  for (std::size_t i = 0; i < arrivals.size(); i++) team.emplace_back();
  l.lock();
  for (const unsigned i : arrivals) {
    team[i].start([&, i, times] {
      for (unsigned k = 0; k < times; k++) {
        l.lock();
        order.push_back(i);
        l.unlock();
      }
    });
    team[i].run();
    EXPECT_TRUE(team[i].waits());
    EXPECT_FALSE(l.try_lock());
  }
  l.unlock();
  for (bool any = true; any;) {
    any = false;
    for (actor& a : team) {
      if (!a.ended()) a.run(), any = true;
    }
  }
  EXPECT_TRUE(l.try_lock());
  return order;
}

TEST(fairlock_wide, serves_slots_upwards_whatever_the_order_of_arrival) {
  EXPECT_EQ(round_robin({3, 1, 4, 0, 2}, 1), (std::vector<unsigned>{0, 1, 2, 3, 4}));
}

TEST(fairlock_wide, begins_behind_the_holder_and_wraps) {
  // Every thread calls lock() again at once after its unlock, and overtakes each other waiter exactly once in a round:
  // the bound for this number of threads.
  EXPECT_EQ(round_robin({2, 0, 3, 1}, 3), (std::vector<unsigned>{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}));
  static_assert(wide::traits.bypass == 1023);
}

TEST(fairlock_wide, many_waiters_in_the_compact_form) {
  inflatable<native, stp, fairlock_wide<native, stp>> lock{};
  static_assert(sizeof lock == 8);
  test::lets_a_crowd_in(lock, 80);
}

// ---- ways of waiting

/// Simulates the processor's instructions that arm a monitor on a word and wait for a write to it. A test can set two
/// functions, one called right after the arming and one during the wait; both may write to the word.
struct fake_monitor {
  static inline unsigned armed, waited;
  static inline std::function<void()> after_arming, while_waiting;
  static void reset() { armed = waited = 0, after_arming = while_waiting = nullptr; }
  static void arm(const volatile void*) {
    armed++;
    if (after_arming) after_arming();
  }
  static void wait() {
    waited++;
    if (while_waiting) while_waiting();
  }
};

class monitor : public testing::Test {
 protected:
  monitor() { fake_monitor::reset(); }
  auto wait(std::uint64_t ns) {
    return native_detail::await_by_monitor<fake_monitor>(
        word_, [](std::uint32_t v) { return v == 1; }, std::memory_order_acquire, ns, [this] { return clock_ += 10; });
  }
  std::atomic<std::uint32_t> word_{0};
  std::uint64_t clock_ = 0;
};

TEST_F(monitor, a_write_between_arming_and_waiting_is_seen) {
  fake_monitor::after_arming = [this] { word_ = 1; };
  EXPECT_EQ(wait(1000), 1u);
  EXPECT_EQ(fake_monitor::waited, 0u);
}
TEST_F(monitor, looks_again_after_each_wait) {
  fake_monitor::while_waiting = [this] { word_ = fake_monitor::waited == 3 ? 1 : 0; };
  EXPECT_EQ(wait(1000), 1u);
  EXPECT_EQ(fake_monitor::armed, 3u);
}
TEST_F(monitor, keeps_to_its_limit) {
  EXPECT_EQ(wait(100), std::nullopt);
  EXPECT_EQ(fake_monitor::waited, 9u);
}
TEST_F(monitor, a_limit_of_nothing_is_one_look) {
  EXPECT_EQ(wait(0), std::nullopt);
  word_ = 1;
  EXPECT_EQ(wait(0), 1u);
  EXPECT_EQ(fake_monitor::armed, 0u);
}
TEST_F(monitor, natively_with_what_the_processor_has) {
  // Without monitor instructions the waiter polls.
  const auto is_one = [](std::uint32_t v) { return v == 1; };
  EXPECT_EQ(native::await(word_, is_one, std::memory_order_acquire, pacing::monitoring.within(100000)), std::nullopt);
  EXPECT_EQ(usher_process_state.monitor.load(), std::uint32_t(native_detail::find_monitor()));
  std::jthread writer([this] {
    // time for the wait to begin: no state shows a wait without a system call
    std::this_thread::sleep_for(milliseconds(5));
    word_ = 1;
  });
  EXPECT_EQ(native::await(word_, is_one, std::memory_order_acquire, pacing::monitoring.within(20000000000)), 1u);
}

TEST(sleeping, nobody_is_woken_and_everybody_gets_in) {
  using nap = waiting<native, waiting_kind::sleep>;
  static_assert(!nap::parks);
  mcs<native, nap> l{};
  EXPECT_EQ(admission_order(l, 6), (std::vector<unsigned>{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace usher
