// The locks of the MCSg paper: its figures step by step with scripted threads, and its guarantees with native threads.
#include <gtest/gtest.h>

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "any_lock.hpp"
#include "scripted.hpp"
#include "team.hpp"
#include "usher/core/inflatable.hpp"
#include "usher/locks/clh.hpp"
#include "usher/locks/cohort.hpp"
#include "usher/locks/k42.hpp"
#include "usher/locks/mcs.hpp"
#include "usher/locks/mcsg.hpp"
#include "usher/locks/mcsg_plus.hpp"
#include "usher/platform/native.hpp"
#include "waiters.hpp"

namespace usher {
namespace {

using std::chrono::milliseconds;
using test::actor;
using test::any_lock;
using test::named_lock;
using test::scripted;

// Pretends that the machine has two NUMA nodes. Must run before the first request for a node.
const bool two_nodes = setenv("USHER_FAKE_NODES", "2", 1) == 0;

using stp = waiting<native, waiting_kind::spin_then_park>;
using park = waiting<native, waiting_kind::park>;
using spin = waiting<native, waiting_kind::spin>;

using by_script = waiting<scripted, waiting_kind::spin>;
using parks_by_script = waiting<scripted, waiting_kind::park>;

constexpr node_handle pi = 1, n1 = 16, n2 = 17, n3 = 18, n4 = 19;
// values of a node's `next`; 4, which is not tested, is the acknowledgement (GA)
constexpr node_handle gw = 1, gg = 3, ns = 5;

/// The word at an offset in a lock.
template <class Lock>
auto word_of(const Lock& lock, std::size_t i) {
  return [&lock, i] {
    std::uint32_t w;
    std::memcpy(&w, reinterpret_cast<const unsigned char*>(&lock) + 4 * i, sizeof w);
    return w;
  };
}
node_handle next_of(node_handle h) {
  return scripted::node(h).next.peek();
}
std::uint32_t flag_of(node_handle h) {
  return scripted::node(h).flag.peek();
}

// ---- Figure 2: one group of waiters overtakes another

/// Figure 2 for MCSg. A leader of a group restores π, the tail's value after a guest's arrival, so a second group of
/// waiters can form behind the same guest. Each function executes some steps of the figure; the comments have the
/// steps' letters.
struct two_groups_of_mcsg {
  mcsg_with_node<scripted, by_script> lock{};
  actor t1, t2, t3, t4;
  std::function<std::uint32_t()> tail = word_of(lock, 0);

  void t1_and_t2_wait_behind_guest() {
    lock.lock();  // (a) a guest
    EXPECT_EQ(tail(), pi);

    t1.start([this] { lock.lock(n1); });
    t1.until_changed(tail);  // (b) T1 has executed its first exchange and found π
    EXPECT_EQ(tail(), n1);

    t2.start([this] { lock.lock(n2); });
    t2.until_changed(tail);  // (c) T2 has found T1's node in the tail, which is neither free nor π
    EXPECT_EQ(tail(), n2);
    EXPECT_EQ(next_of(n1), no_node);

    t1.until_changed(tail);  // (d) T1 restores π, learns that T2 is its group's last, and watches the tail;
    EXPECT_EQ(tail(), pi);
    t1.run();
    EXPECT_TRUE(t1.waits());
    t2.run();  //               T2 has linked itself to T1
    EXPECT_TRUE(t2.waits());
    EXPECT_EQ(next_of(n1), n2);
  }

  void t3_and_t4_wait_as_second_group() {
    t3.start([this] { lock.lock(n3); });  // (e) T3 and T4 behave like T1 and T2
    t3.until_changed(tail);
    t4.start([this] { lock.lock(n4); });
    t4.until_changed(tail);
    t4.run();
    EXPECT_EQ(tail(), n4);
    EXPECT_EQ(next_of(n3), n4);

    t3.until_changed(tail);  // (f) T3 restores π and also watches the tail: two leaders
    t3.run();
    EXPECT_EQ(tail(), pi);
    EXPECT_TRUE(t1.waits() && t2.waits() && t3.waits() && t4.waits());
  }

  void second_group_overtakes_first() {
    lock.unlock();  // (g) the guest leaves;
    EXPECT_EQ(tail(), no_node);
    t3.run();  // T3 is faster and gets the lock for its group,
    EXPECT_TRUE(t3.ended());
    EXPECT_EQ(tail(), n4);
    t1.run();  // and the older group 1 queues behind it
    EXPECT_TRUE(t1.waits());
    EXPECT_EQ(next_of(n4), n1);
    EXPECT_EQ(tail(), n2);
  }

  /// The order within each group is kept: T3, T4, then T1, T2.
  void order_within_groups_is_kept() {
    lock.unlock(n3);
    EXPECT_EQ(flag_of(n1), flag_waiting);
    t4.run();
    EXPECT_TRUE(t4.ended());
    t1.run(), t2.run();
    EXPECT_TRUE(t1.waits() && t2.waits());
    lock.unlock(n4);
    t1.run(), t2.run();
    EXPECT_TRUE(t1.ended() && t2.waits());
    lock.unlock(n1);
    t2.run();
    EXPECT_TRUE(t2.ended());
    lock.unlock(n2);
    EXPECT_EQ(tail(), no_node);
  }
};

TEST(figure_2, mcsg) {
  two_groups_of_mcsg s;
  s.t1_and_t2_wait_behind_guest();
  s.t3_and_t4_wait_as_second_group();
  s.second_group_overtakes_first();
  s.order_within_groups_is_kept();
}

/// Builds two groups of waiters in MCSg+. Here a leader does not restore π (the tail's value after a guest's arrival),
/// so a second group forms only if another guest arrives in between. The arrivals are: a guest (the test), T1, T2, the
/// guest G2, T3, T4. Then the first guest unlocks. At the end the leaders T1 and T3 are about to try again.
template <class Lock>
struct two_groups {
  Lock lock{};
  actor t1, t2, g2, t3, t4;
  std::function<std::uint32_t()> tail = word_of(lock, 0);

  two_groups() {
    lock.lock();
    EXPECT_EQ(tail(), pi);
    t1.start([this] { lock.lock(n1); });
    t1.until_changed(tail);
    t1.run();  // T1 leads a group, and waits until it knows the group's last node
    EXPECT_TRUE(t1.waits());
    t2.start([this] { lock.lock(n2); });
    t2.run();
    EXPECT_EQ(tail(), n2) << "π has not been put back";
    EXPECT_EQ(next_of(n1), n2);

    g2.start([this] { lock.lock(); });
    g2.until_changed(tail);
    EXPECT_EQ(tail(), pi);
    g2.run();
    EXPECT_EQ(next_of(n2), gw);

    t3.start([this] { lock.lock(n3); });
    t3.run();
    EXPECT_EQ(tail(), n3);
    t4.start([this] { lock.lock(n4); });
    t4.run();
    EXPECT_EQ(tail(), n4);
    EXPECT_EQ(next_of(n4), no_node);

    lock.unlock();  // the unlock marks the last node of the group at the tail, T4
    EXPECT_EQ(tail(), no_node);
    EXPECT_EQ(next_of(n4), ns);
  }
};

TEST(figure_2, mcsg_plus) {
  two_groups<mcsg_plus_with_node<scripted, by_script, no_turns>> s;
  s.t3.run();  // the younger group
  EXPECT_TRUE(s.t3.ended());
  EXPECT_EQ(s.tail(), n4);
  EXPECT_EQ(next_of(n4), no_node) << "the mark is gone: T4 may have a successor";
  s.t1.run();
  EXPECT_TRUE(s.t1.waits());
  EXPECT_EQ(next_of(n4), n1);
  EXPECT_EQ(s.tail(), pi) << "group 1 ends with a guest";

  s.lock.unlock(n3);
  s.t4.run();
  ASSERT_TRUE(s.t4.ended());
  s.lock.unlock(n4);
  s.t1.run();
  ASSERT_TRUE(s.t1.ended());
  s.lock.unlock(n1);
  s.t2.run();
  ASSERT_TRUE(s.t2.ended());
  // The hand-over to a guest.
  actor leaves;
  leaves.start([&] { s.lock.unlock(n2); });
  leaves.run();
  EXPECT_TRUE(leaves.waits()) << "the regular waits for the guest's acknowledgement";
  EXPECT_EQ(next_of(n2), gg);
  s.g2.run();
  EXPECT_TRUE(s.g2.ended());
  leaves.run();
  EXPECT_TRUE(leaves.ended());
  s.lock.unlock();
  EXPECT_EQ(s.tail(), no_node);
}

TEST(figure_2, mcsg_plus_plus) {
  using lock_type = mcsg_plus_with_node<scripted, by_script, leader_turns<scripted, by_script>>;
  two_groups<lock_type> s;
  const auto next_ticket = word_of(s.lock, 1), served = word_of(s.lock, 2);
  EXPECT_EQ(next_ticket(), 4u) << "each leader has a ticket, and numbers advance by 2";
  s.t3.run();
  EXPECT_TRUE(s.t3.waits()) << "it is not its turn, although the lock is free";
  EXPECT_EQ(s.tail(), no_node);
  EXPECT_EQ(served(), 0u);

  s.t1.run();
  EXPECT_TRUE(s.t1.ended());
  EXPECT_EQ(s.tail(), pi);
  EXPECT_EQ(served(), 2u) << "the turn was passed on after the exchange returned 0";
  s.t3.run();  // T3's turn has come, but T3 finds π, joins behind it once more and keeps its ticket
  EXPECT_TRUE(s.t3.waits());
  EXPECT_EQ(s.tail(), n4);
  EXPECT_EQ(next_ticket(), 4u);
  EXPECT_EQ(served(), 2u);

  s.lock.unlock(n1);
  s.t2.run();
  ASSERT_TRUE(s.t2.ended());
  actor leaves;
  leaves.start([&] { s.lock.unlock(n2); });
  leaves.run();
  EXPECT_TRUE(leaves.waits());
  s.g2.run();
  ASSERT_TRUE(s.g2.ended());
  leaves.run();
  ASSERT_TRUE(leaves.ended());
  s.lock.unlock();
  s.t3.run();
  EXPECT_TRUE(s.t3.ended());
  EXPECT_EQ(served(), 4u);
  s.lock.unlock(n3);
  s.t4.run();
  EXPECT_TRUE(s.t4.ended());
  s.lock.unlock(n4);
  EXPECT_EQ(s.tail(), no_node);
}

TEST(figure_2, a_regular_that_comes_at_the_right_moment_overtakes_in_mcsg_plus_plus_too) {
  using lock_type = mcsg_plus_with_node<scripted, by_script, leader_turns<scripted, by_script>>;
  two_groups<lock_type> s;
  constexpr node_handle n5 = 20;
  const auto served = word_of(s.lock, 2);
  s.lock.lock(n5);
  EXPECT_EQ(s.tail(), n5);
  s.t1.run();  // T1 finds the lock taken again, and queues behind n5
  EXPECT_TRUE(s.t1.waits());
  EXPECT_EQ(next_of(n5), n1);
  EXPECT_EQ(served(), 2u) << "the turn was passed on although the thread does not have the lock";
  EXPECT_EQ(s.tail(), pi);
  s.t3.run();
  EXPECT_EQ(s.tail(), n4);
}

TEST(mcsg_plus_plus, a_leader_that_is_behind_a_guest_retries_only_when_the_tail_has_changed) {
  using lock_type = mcsg_plus_with_node<scripted, by_script, leader_turns<scripted, by_script>>;
  lock_type lock{};
  const auto tail = word_of(lock, 0), served = word_of(lock, 2);
  actor t1, g2;
  lock.lock();
  t1.start([&] { lock.lock(n1); });
  t1.run();
  g2.start([&] { lock.lock(); });
  g2.run();
  EXPECT_EQ(next_of(n1), gw);
  t1.run();  // Algorithm 3, lines 9 to 11
  EXPECT_TRUE(t1.waits());
  EXPECT_EQ(tail(), pi);
  EXPECT_EQ(served(), 0u);
  lock.unlock();
  t1.run();
  EXPECT_TRUE(t1.ended());
  EXPECT_EQ(tail(), pi) << "its group's last is a guest";
  EXPECT_EQ(served(), 2u);
}

// ---- back-off (G9)

/// Returns an actor's (a scripted thread's) operations on one word since this object was constructed.
struct deeds {
  explicit deeds(const void* word) : word(word) { test::history.clear(); }
  std::string of(const actor& a) const {  // l: load, s: store, m: read-modify-write
    std::string some;
    for (const test::done& d : test::history)
      if (d.word == word && d.actor == a.number()) some += "lsm"[d.what];
    return some;
  }
  const void* word;
};

TEST(back_off, of_an_mcsg_guest_is_exponential_and_bounded) {
  const auto pauses = []<class W>(W) {
    mcsg_with_node<scripted, W> lock{};
    actor guest;
    lock.lock();
    guest.start([&] { lock.lock(); });
    scripted::pauses.clear();
    for (int i = 0; i < 30; i++) guest.run();
    const auto p = scripted::pauses;
    lock.unlock();
    guest.run();
    EXPECT_TRUE(guest.ended());
    return p;
  };
  for (const auto& [p, most] :
       {std::pair(pauses(by_script{}), 1u << 16), std::pair(pauses(parks_by_script{}), 1u << 20)}) {
    ASSERT_GE(p.size(), 25u);
    for (std::size_t i = 1; i < p.size(); i++)  // random() is 1, so each pause is half of the bound
      EXPECT_EQ(p[i] - 1, std::min(2 * (p[i - 1] - 1), most / 2)) << i;
    EXPECT_EQ(p.back() - 1, most / 2);
  }
}

TEST(back_off, of_an_mcsg_regular_begins_after_its_first_two_exchanges) {
  mcsg_with_node<scripted, by_script> lock{};
  actor t1, t2;
  {
    const deeds d(&lock);
    t1.start([&] { lock.lock(n1); });
    t1.run();
    EXPECT_EQ(d.of(t1), "m") << "a thread that finds the lock free does not load the tail first";
    lock.unlock(n1);
  }
  lock.lock();
  const deeds d(&lock);
  t2.start([&] { lock.lock(n2); });
  t2.run();
  t2.run();
  t2.run();
  EXPECT_EQ(d.of(t2), "mmlll") << "after two exchanges the thread only loads while π is in the tail";
  lock.unlock();
  t2.run();
  EXPECT_TRUE(t2.ended());
  EXPECT_EQ(d.of(t2), "mmllllm");
  lock.unlock(n2);
}

TEST(back_off, of_an_mcsg_plus_plus_guest_lasts_while_the_tail_is_pi) {
  mcsg_plus_with_node<scripted, by_script, leader_turns<scripted, by_script>> lock{};
  actor g2;
  lock.lock();
  const deeds d(&lock);
  g2.start([&] { lock.lock(); });
  g2.run();
  g2.run();
  g2.run();
  EXPECT_EQ(d.of(g2), "mlll");
  lock.unlock();
  g2.run();
  EXPECT_TRUE(g2.ended());
  EXPECT_EQ(d.of(g2), "mllllm");
  lock.unlock();
}

// ---- tickets of leaders (G10)

TEST(tickets, are_drawn_by_leaders_only_and_once) {
  mcsg_plus_with_node<scripted, by_script, leader_turns<scripted, by_script>> lock{};
  const auto tail = word_of(lock, 0), next_ticket = word_of(lock, 1), served = word_of(lock, 2);
  actor t1, t2;
  lock.lock(n3);  // a regular (a thread with a queue node) that finds the lock free,
  t2.start([&] { lock.lock(n4); });
  t2.run();  // a regular that queues behind another one,
  EXPECT_TRUE(t2.waits());
  lock.unlock(n3);
  t2.run();
  lock.unlock(n4);
  lock.lock();  // and a guest (a thread without a queue node) draw no ticket
  EXPECT_EQ(next_ticket(), 0u);

  t1.start([&] { lock.lock(n1); });
  t1.run();
  EXPECT_EQ(next_ticket(), 2u);
  for (int i = 0; i < 3; i++) {  // guests acquire the lock before the leader three times: the leader keeps its ticket
    lock.unlock();
    lock.lock();
    t1.run();
    EXPECT_TRUE(t1.waits());
    EXPECT_EQ(next_ticket(), 2u);
    EXPECT_EQ(served(), 0u) << "the turn is not passed on before the leader has succeeded";
  }
  lock.unlock();
  t1.run();
  EXPECT_TRUE(t1.ended());
  EXPECT_EQ(served(), 2u);
  lock.unlock(n1);
  EXPECT_EQ(tail(), no_node);
}

/// A group's leader waits for its turn before every attempt, not only before the first one.
TEST(tickets, are_awaited_before_each_attempt) {
  two_groups<mcsg_plus_with_node<scripted, by_script, leader_turns<scripted, by_script>>> s;
  const deeds tail_of(&s.lock);
  for (int i = 0; i < 3; i++) s.t3.run();
  EXPECT_EQ(tail_of.of(s.t3), "") << "the thread reads the turn and does not access the tail";
}

TEST(tickets, may_wrap) {
  using lock_type = mcsg_plus_with_node<scripted, by_script, leader_turns<scripted, by_script>>;
  lock_type lock{};
  for (std::size_t i : {1, 2}) {
    const std::uint32_t last = ~std::uint32_t{1};  // bit 0 says that a waiter sleeps
    std::memcpy(reinterpret_cast<unsigned char*>(&lock) + 4 * i, &last, sizeof last);
  }
  const auto served = word_of(lock, 2);
  for (const std::uint32_t then : {0u, 2u}) {
    actor t;
    lock.lock();
    t.start([&] { lock.lock(n1); });
    t.run();
    lock.unlock();
    t.run();
    EXPECT_TRUE(t.ended());
    EXPECT_EQ(served(), then);
    lock.unlock(n1);
  }
}

// ---- when a guest's unlock waits (rows G11 and G12 of lab/pages/claims.md)

TEST(guest_unlock, is_wait_free_in_mcsg_plus_plus) {
  const auto operations = [](auto& lock) {
    actor leaves;
    test::history.clear();
    leaves.start([&] { lock.unlock(); });
    leaves.run();
    EXPECT_FALSE(leaves.waits());
    return test::history.size();
  };
  using lock_type = mcsg_plus_with_node<scripted, by_script, leader_turns<scripted, by_script>>;
  {
    lock_type alone{};
    alone.lock();
    EXPECT_EQ(operations(alone), 1u);
  }
  {
    lock_type lock{};
    actor t1;
    lock.lock();
    t1.start([&] { lock.lock(n1); });
    t1.until_changed(word_of(lock, 0));  // T1 has executed only its exchange of the tail
    EXPECT_EQ(operations(lock), 2u);
    t1.run();
    EXPECT_TRUE(t1.ended());
    lock.unlock(n1);
  }
}

TEST(guest_unlock, waits_in_mcsg_for_a_regular_between_its_exchanges) {
  mcsg_with_node<scripted, by_script> lock{};
  const auto tail = word_of(lock, 0);
  actor t1, leaves;
  lock.lock();
  t1.start([&] { lock.lock(n1); });
  t1.until_changed(tail);
  leaves.start([&] { lock.unlock(); });
  leaves.run();
  EXPECT_TRUE(leaves.waits());
  t1.until_changed(tail);
  leaves.run();
  EXPECT_TRUE(leaves.ended());
  t1.run();
  EXPECT_TRUE(t1.ended());
  lock.unlock(n1);
}

/// MCSg++ does not guarantee admission to a guest (a thread that locks without a queue node) if there are several
/// (§4.5).
TEST(mcsg_plus_plus, of_many_guests_one_may_starve) {
  mcsg_plus_with_node<scripted, by_script, leader_turns<scripted, by_script>> lock{};
  actor unlucky;
  lock.lock();
  unlucky.start([&] { lock.lock(); });
  for (int i = 0; i < 100; i++) {
    unlucky.run();
    ASSERT_TRUE(unlucky.waits());
    lock.unlock();
    lock.lock();  // before the guest reads the lock's words again
  }
  lock.unlock();
  unlucky.run();
  EXPECT_TRUE(unlucky.ended());
}

// ---- every wait can end in sleep (row G12 of lab/pages/claims.md)

TEST(mcsg_plus_plus, who_sleeps_says_so_and_is_woken) {
  using lock_type = mcsg_plus_with_node<scripted, parks_by_script, leader_turns<scripted, parks_by_script>>;
  lock_type lock{};
  const auto tail = word_of(lock, 0);
  actor t1, g2, g3;
  lock.lock();
  t1.start([&] { lock.lock(n1); });
  t1.run();
  EXPECT_EQ(next_of(n1), 6u) << "a leader sleeps";
  g2.start([&] { lock.lock(); });
  g2.until_changed(tail);
  g2.run();
  EXPECT_EQ(next_of(n1), 2u) << "a guest sleeps";
  EXPECT_EQ(scripted::last_woken, &scripted::node(n1).next);
  g3.start([&] { lock.lock(); });
  g3.run();
  EXPECT_EQ(tail(), 2u) << "the tail shows that a thread sleeps until it changes";
  t1.run();
  EXPECT_TRUE(t1.waits());
  EXPECT_EQ(tail(), 2u);
  scripted::last_woken = nullptr;
  lock.unlock();
  EXPECT_EQ(scripted::last_woken, &lock);
  t1.run();
  EXPECT_TRUE(t1.ended());
  EXPECT_EQ(tail(), pi) << "the wake-up has cleared the mark";
}

class guests : public testing::TestWithParam<named_lock> {};
INSTANTIATE_TEST_SUITE_P(with_guests, guests,
                         testing::ValuesIn(std::vector<named_lock>{
                             {"mcsg", any_lock::make<mcsg<native, stp>>},
                             {"mcsg_park", any_lock::make<mcsg<native, park>>},
                             {"mcsg_plus", any_lock::make<mcsg_plus<native, stp>>},
                             {"mcsg_plus_park", any_lock::make<mcsg_plus<native, park>>},
                             {"mcsg_plus_plus", any_lock::make<mcsg_plus_plus<native, stp>>},
                             {"mcsg_plus_plus_park", any_lock::make<mcsg_plus_plus<native, park>>},
                             {"c_mcsg_mcs", any_lock::make<c_mcsg_mcs<native, stp>>},
                             {"c_bo_mcsg_plus_plus", any_lock::make<c_bo_mcsg_plus_plus<native, stp>>},
                             {"c_bo_mcsg_plus_plus_park", any_lock::make<c_bo_mcsg_plus_plus<native, park>>},
                         }),
                         test::name_of);

/// All threads share one CPU, so a waiter must give up the CPU.
TEST_P(guests, progress_on_one_cpu) {
  cpu_set_t all_cpus, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all_cpus, &all_cpus), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  any_lock lock = GetParam().make();
  long counter = 0;
  test::in_threads(6, [&](unsigned me) {
    for (int i = 0; i < 300; i++) {
      if (me % 2)
        lock.lock_as_guest();
      else
        lock.lock();
      counter++;
      if (i % 16 == 0) std::this_thread::yield();
      lock.unlock();
    }
  });
  EXPECT_EQ(counter, 6 * 300);
  EXPECT_TRUE(lock.try_lock());
  sched_setaffinity(0, sizeof all_cpus, &all_cpus);
}

/// At first all threads lock as guests, without a queue node. In each further round one more thread calls lock()
/// instead (§1.2, §7).
TEST_P(guests, any_share_of_the_calls_may_be_guests) {
  any_lock lock = GetParam().make();
  long counter = 0;
  constexpr unsigned threads = 4;
  for (unsigned regulars = 0; regulars <= threads; regulars++)
    test::in_threads(threads, [&](unsigned me) {
      for (int i = 0; i < 1000; i++) {
        if (me < regulars)
          lock.lock();
        else
          lock.lock_as_guest();
        counter++;
        lock.unlock();
      }
    });
  EXPECT_EQ(counter, 1000l * threads * (threads + 1));
}

TEST_P(guests, sleep_while_others_hold_the_lock) {
  any_lock lock = GetParam().make();
  int entered = 0;
  for (const bool holder_is_guest : {false, true}) {
    holder_is_guest ? lock.lock_as_guest() : lock.lock();
    std::vector<std::jthread> team;
    for (int i = 0; i < 6; i++) {
      team.push_back(test::asleep_in([&, i] {
        i % 3 ? lock.lock() : lock.lock_as_guest();
        entered++;
        std::this_thread::sleep_for(milliseconds(2));  // so long a hold that the next waiter sleeps again
        lock.unlock();
      }));
    }
    lock.unlock();
  }
  EXPECT_EQ(entered, 12);
}

// ---- guarantees (G11)

/// Returns the first word of the lock. In each of these locks an arrival changes it.
std::uint32_t tail_of(const any_lock& lock) {
  return __atomic_load_n(static_cast<std::uint32_t*>(lock.address()), __ATOMIC_ACQUIRE);
}
void await_arrival(const any_lock& lock, std::uint32_t before) {
  EXPECT_TRUE(test::eventually([&] { return tail_of(lock) != before; }));
}

/// Lets threads queue one after the other behind an owner; a 'g' in `who` stands for a guest, a thread without a queue
/// node. Returns the order of admission.
template <class Lock>
std::string admission_order(const std::string& who) {
  any_lock lock = any_lock::make<Lock>();
  std::string order;
  lock.lock();
  {
    std::vector<std::jthread> team;
    for (const char c : who) {
      const std::uint32_t before = tail_of(lock);
      team.emplace_back([&, c] {
        c == 'g' ? lock.lock_as_guest() : lock.lock();
        order.push_back(c);
        lock.unlock();
      });
      if (c == 'g' && std::is_same_v<Lock, mcsg<native, stp>>)
        // no word shows a guest's arrival, so this gives it time; the test is also right if it comes later
        std::this_thread::sleep_for(milliseconds(15));
      else
        await_arrival(lock, before);
    }
    lock.unlock();
  }
  return order;
}

TEST(mcsg_plus_plus, one_guest_is_overtaken_by_nobody) {
  EXPECT_EQ((admission_order<mcsg_plus_plus<native, stp>>("123g")), "123g");
  EXPECT_EQ((admission_order<mcsg_plus<native, stp>>("123g")), "123g");
  const std::string order = admission_order<mcsg_plus_plus<native, stp>>("12g34");
  EXPECT_EQ(order.substr(0, 3), "12g");
  EXPECT_EQ(order, "12g34") << "a group keeps its order";
}

TEST(mcsg, a_guest_waits_until_all_regulars_have_gone) {
  EXPECT_EQ((admission_order<mcsg<native, stp>>("1g23")), "123g");
}

TEST(mcsg_plus_plus, a_guest_gets_in_though_regulars_never_pause) {
  mcsg_plus_plus<native, stp> lock{};
  std::atomic<bool> stop{false};
  std::vector<std::jthread> team;
  for (int i = 0; i < 3; i++)
    team.emplace_back([&] {
      while (!stop) {
        lock.lock();
        lock.unlock();
      }
    });
  for (int i = 0; i < 100; i++) {
    lock.lock_as_guest();
    lock.unlock();
  }
  stop = true;
}

void is_fifo(any_lock lock) {
  std::vector<unsigned> order;
  lock.lock();
  {
    std::vector<std::jthread> team;
    for (unsigned i = 0; i < 6; i++) {
      const std::uint32_t before = tail_of(lock);
      team.emplace_back([&, i] {
        lock.lock();
        order.push_back(i);
        lock.unlock();
      });
      await_arrival(lock, before);
    }
    lock.unlock();
  }
  EXPECT_EQ(order, (std::vector<unsigned>{0, 1, 2, 3, 4, 5}));
}
TEST(fifo, clh) {
  is_fifo(any_lock::make<clh<native, stp>>());
}
TEST(fifo, clh_tls) {
  is_fifo(any_lock::make<clh_tls<native, stp>>());
}
TEST(fifo, k42) {
  is_fifo(any_lock::make<k42<native, stp>>());
}
TEST(fifo, k42_tls) {
  is_fifo(any_lock::make<k42_tls<native, stp>>());
}
TEST(fifo, mcsg_plus_among_regulars) {
  is_fifo(any_lock::make<mcsg_plus<native, stp>>());
}
TEST(fifo, mcsg_plus_plus_among_regulars) {
  is_fifo(any_lock::make<mcsg_plus_plus<native, stp>>());
}

// ---- properties (G8)

template <class W>
constexpr bool drop_in = sizeof(mcsg_with_node<native, W>) == sizeof(mcs_with_node<native, W>) &&
                         sizeof(mcsg_with_node<native, W>) == 4 && std::is_trivially_destructible_v<mcsg<native, W>>;
static_assert(drop_in<stp> && drop_in<spin>, "one word, the tail");
static_assert(sizeof(mcsg_plus_with_node<native, stp, no_turns>) == 4);
static_assert(sizeof(mcsg_plus_with_node<native, stp, leader_turns<native, stp>>) == 12, "three words");
template <class W>
constexpr bool small =
    sizeof(mcs<native, W>) == 8 && sizeof(mcsg<native, W>) == 8 && sizeof(mcsg_plus<native, W>) == 8 &&
    sizeof(mcsg_plus_plus<native, W>) == 16 && sizeof(clh<native, W>) == 8 && sizeof(clh_tls<native, W>) == 8 &&
    sizeof(k42<native, W>) == 8 && sizeof(k42_tls<native, W>) == 8 && alignof(mcsg_plus_plus<native, W>) == 4;
static_assert(small<stp> && small<spin> && small<park>,
              "with the holder's node, but for K42: all fit a pthread_mutex_t");
constexpr std::size_t cohort_size = 128 * (1 + 1 + native::most_numa_nodes);  // global lock, holder's home, local locks
static_assert(sizeof(c_bo_mcs<native, stp>) == cohort_size && sizeof(c_bo_clh<native, stp>) == cohort_size &&
              sizeof(c_bo_tkt<native, stp>) == cohort_size && sizeof(c_mcs_mcs<native, stp>) == cohort_size &&
              sizeof(c_clh_clh<native, stp>) == cohort_size && sizeof(c_tkt_mcs<native, stp>) == cohort_size &&
              sizeof(c_tkt_tkt<native, stp>) == cohort_size && sizeof(c_mcsg_mcs<native, stp>) == cohort_size &&
              sizeof(c_bo_mcsg_plus_plus<native, stp>) == cohort_size &&
              sizeof(c_ptl_tkt<native, stp>) == cohort_size + 4 * 128);
static_assert(sizeof(inflatable<native, stp, c_mcs_mcs<native, stp>>) == 8, "what a pthread_mutex_t has of them");
static_assert(sizeof(k42<native, stp>) == 8 && sizeof(k42_tls<native, stp>) == 8 && sizeof(clh<native, stp>) == 8);

/// While a lock is held and has waiters, its words contain only handles of nodes and flag bits, and no address of a
/// stack.
TEST(properties, an_idle_lock_is_zero_again_and_a_busy_one_holds_handles_only) {
  const auto check = [](any_lock lock) {
    const std::vector<unsigned char> zeros(lock.size());
    const auto word = [&](std::size_t i) {
      return __atomic_load_n(static_cast<std::uint32_t*>(lock.address()) + i, __ATOMIC_RELAXED);
    };
    EXPECT_EQ(std::memcmp(lock.address(), zeros.data(), lock.size()), 0);
    lock.lock();
    const auto waiter = [&] {
      lock.lock();
      lock.unlock();
    };
    {
      const std::jthread a = test::asleep_in(waiter), b = test::asleep_in(waiter);
      for (std::size_t i = 0; i < lock.size() / 4; i++) EXPECT_LT(word(i), 1u << 20) << "word " << i << ": an index";
      lock.unlock();
    }
    EXPECT_EQ(word(0), 0u) << "free";
  };
  check(any_lock::make<mcsg<native, stp>>());
  check(any_lock::make<mcsg_plus<native, stp>>());
  check(any_lock::make<mcsg_plus_plus<native, stp>>());
  check(any_lock::make<clh<native, stp>>());
  check(any_lock::make<clh_tls<native, stp>>());
  check(any_lock::make<k42<native, stp>>());
  check(any_lock::make<k42_tls<native, stp>>());
}

/// A thread other than the owner may unlock: a cohort lock requires this of its global lock.
TEST(properties, another_thread_may_unlock) {
  const auto check = [](any_lock lock) {
    for (int i = 0; i < 50; i++) {
      lock.lock();
      std::jthread waiter;
      if (i % 2) waiter = std::jthread([&] { lock.lock(), lock.unlock(); });
      std::jthread([&] { lock.unlock(); }).join();
    }
    EXPECT_TRUE(lock.try_lock());
  };
  check(any_lock::make<mcsg<native, stp>>());
  check(any_lock::make<mcsg_plus_plus<native, stp>>());
  check(any_lock::make<clh<native, stp>>());
  check(any_lock::make<clh_tls<native, stp>>());
  check(any_lock::make<k42_tls<native, stp>>());
}

// ---- kept nodes

TEST(kept_nodes, are_borrowed_again) {
  std::jthread([] {
    const node_handle a = native::take_node(), b = native::take_node();
    ASSERT_NE(a, b);
    native::cache_node(a);
    native::cache_node(b);
    EXPECT_EQ(native::cached_node(), b);
    EXPECT_EQ(native::cached_node(), a);
    native::give_node(a);
    native::give_node(b);
  }).join();
}

TEST(kept_nodes, wander_under_clh_tls) {
  clh_tls<native, stp> lock{};
  lock.lock();
  node_handle mine = 0;
  std::memcpy(&mine, &lock, sizeof mine);
  std::array<node_handle, 2> theirs{};
  std::jthread other = test::asleep_in([&] {
    lock.lock();
    lock.unlock();
    for (auto& h : theirs) h = native::cached_node();
    for (auto h : theirs) native::give_node(h);
  });
  lock.unlock();
  other.join();
  EXPECT_TRUE(theirs[0] == mine || theirs[1] == mine) << "the waiter leaves with its predecessor's node";
}

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

TEST(kept_nodes, of_dead_threads_are_not_lost) {
  clh_tls<native, stp> lock{};
  const auto pair = [&] {
    lock.lock();
    std::jthread([&] { lock.lock(), lock.unlock(); }).detach();
    lock.unlock();
  };
  for (int i = 0; i < 20; i++) std::jthread(pair).join();
  const auto records = usher_process_state.made.load();
  const auto nodes = usher_process_state.pool.made.load();
  for (int i = 0; i < 300; i++) std::jthread(pair).join();
  EXPECT_TRUE(test::eventually([] { return threads_of_this_process() == 1; })) << "the detached threads have ended";
  EXPECT_LE(usher_process_state.made.load() - records, 64u);
  EXPECT_LE(usher_process_state.pool.made.load() - nodes, 64u * 7);
}

// ---- cohorts

struct named_cohort : named_lock {
  long rounds = 800;
};
class cohorts : public testing::TestWithParam<named_cohort> {};
INSTANTIATE_TEST_SUITE_P(every_cohort, cohorts,
                         testing::ValuesIn(std::vector<named_cohort>{
                             {{"c_bo_mcs", any_lock::make<c_bo_mcs<native, stp>>}},
                             {{"c_bo_clh", any_lock::make<c_bo_clh<native, stp>>}},
                             {{"c_bo_tkt", any_lock::make<c_bo_tkt<native, stp>>}},
                             {{"c_mcs_mcs", any_lock::make<c_mcs_mcs<native, stp>>}},
                             {{"c_clh_clh", any_lock::make<c_clh_clh<native, stp>>}},
                             {{"c_tkt_mcs", any_lock::make<c_tkt_mcs<native, stp>>}},
                             {{"c_tkt_tkt", any_lock::make<c_tkt_tkt<native, stp>>}},
                             {{"c_ptl_tkt", any_lock::make<c_ptl_tkt<native, stp>>}},
                             {{"c_mcsg_mcs", any_lock::make<c_mcsg_mcs<native, stp>>}},
                             {{"c_bo_mcsg_plus_plus", any_lock::make<c_bo_mcsg_plus_plus<native, stp>>}},
                             {{"c_mcs_mcs_park", any_lock::make<c_mcs_mcs<native, park>>}},
                             {{"c_ptl_tkt_park", any_lock::make<c_ptl_tkt<native, park>>}},
                             {{"c_tkt_tkt_park", any_lock::make<c_tkt_tkt<native, park>>}},
                             {{"c_bo_clh_park", any_lock::make<c_bo_clh<native, park>>}},
                             {{"c_clh_clh_spin", any_lock::make<c_clh_clh<native, spin>>}, 50},
                             {{"c_ptl_tkt_spin", any_lock::make<c_ptl_tkt<native, spin>>}, 50},
                         }),
                         [](const testing::TestParamInfo<named_cohort>& info) { return std::string(info.param.name); });

TEST_P(cohorts, exclude) {
  ASSERT_TRUE(two_nodes);
  any_lock lock = GetParam().make();
  long counter = 0, tried = 0;
  const long rounds = GetParam().rounds;
  test::in_threads(4, [&](unsigned me) {
    for (long i = 0; i < rounds; i++) {
      if (me == 3) {
        if (!lock.try_lock()) continue;
        tried++;
      } else {
        lock.lock();
      }
      counter++;
      // Some holds are so long that the other threads sleep.
      if (i % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
      lock.unlock();
    }
  });
  EXPECT_EQ(counter, 3 * rounds + tried);
  EXPECT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  std::jthread([&] { lock.unlock(); }).join();
}

/// A series of hand-overs within a NUMA node ends after PassThreshold of them, even if threads of that node still wait.
void runs_end(any_lock lock) {
  std::vector<std::unique_ptr<actor>> near;
  for (int i = 0; i < 6; i++) near.push_back(std::make_unique<actor>(0));
  actor far(1);
  std::size_t in = 0;
  near[0]->start([&] { lock.lock(); });
  near[0]->run();
  ASSERT_TRUE(near[0]->ended());
  far.start([&] { lock.lock(); });
  far.run();
  ASSERT_TRUE(far.waits());
  for (std::size_t i = 1; i < near.size(); i++) {
    near[i]->start([&] { lock.lock(); });
    near[i]->run();
    ASSERT_TRUE(near[i]->waits());
  }
  for (; in < 3; in++) {  // the first three hand-overs within the node
    lock.unlock();
    far.run();
    EXPECT_TRUE(far.waits());
    near[in + 1]->run();
    ASSERT_TRUE(near[in + 1]->ended()) << in;
  }
  lock.unlock();
  near[4]->run();
  EXPECT_TRUE(near[4]->waits()) << "it has the local lock, and stands in the global queue";
  far.run();
  EXPECT_TRUE(far.ended());
  lock.unlock();
  near[4]->run();
  EXPECT_TRUE(near[4]->ended());
  lock.unlock();
  near[5]->run();
  EXPECT_TRUE(near[5]->ended());
  lock.unlock();
}
TEST(cohort, runs_end_tkt_tkt) {
  runs_end(any_lock::make<cohort<scripted, by_script, ticket, ticket, 3>>());
}
TEST(cohort, runs_end_mcs_mcs) {
  runs_end(any_lock::make<cohort<scripted, by_script, mcs, mcs, 3>>());
}
TEST(cohort, runs_end_clh_clh) {
  runs_end(any_lock::make<cohort<scripted, by_script, clh, clh, 3>>());
}
TEST(cohort, runs_end_ptl_tkt) {
  runs_end(any_lock::make<cohort<scripted, by_script, cohort_ptl, ticket, 3>>());
}
TEST(cohort, runs_end_mcsg_mcs) {
  runs_end(any_lock::make<cohort<scripted, by_script, mcsg, mcs, 3>>());
}
TEST(cohort, runs_end_tkt_mcsg_plus_plus) {
  runs_end(any_lock::make<cohort<scripted, by_script, ticket, mcsg_plus_plus, 3>>());
}

/// While a thread of the NUMA node waits, exactly 64 hand-overs stay in the node (Table 2: "threshold 64").
void passes_64_times(any_lock lock) {
  actor far(1);
  lock.lock();
  far.start([&] { lock.lock(); });
  far.run();
  unsigned passed = 0;
  std::unique_ptr<actor> waiting, next;
  const auto arrive = [&] {
    auto a = std::make_unique<actor>(0);
    a->start([&] { lock.lock(); });
    a->run();
    EXPECT_TRUE(a->waits());
    return a;
  };
  for (waiting = arrive(), next = arrive(); passed < 1000; passed++, waiting = std::move(next), next = arrive()) {
    lock.unlock();
    far.run();
    if (far.ended()) break;
    waiting->run();
    ASSERT_TRUE(waiting->ended());
  }
  EXPECT_EQ(passed, 64u);
}
TEST(cohort, passes_64_times_mcs_mcs) {
  passes_64_times(any_lock::make<c_mcs_mcs<scripted, by_script>>());
}
TEST(cohort, passes_64_times_bo_mcs) {
  passes_64_times(any_lock::make<c_bo_mcs<scripted, by_script>>());
}
TEST(cohort, passes_64_times_bo_mcs_parking) {
  passes_64_times(any_lock::make<c_bo_mcs<scripted, parks_by_script>>());
}
TEST(cohort, passes_64_times_mcsg_mcs) {
  passes_64_times(any_lock::make<c_mcsg_mcs<scripted, by_script>>());
}
TEST(cohort, passes_64_times_bo_mcsg_plus_plus) {
  passes_64_times(any_lock::make<c_bo_mcsg_plus_plus<scripted, by_script>>());
}
TEST(cohort, passes_64_times_ptl_tkt) {
  passes_64_times(any_lock::make<c_ptl_tkt<scripted, by_script>>());
}

/// An unlock releases the global lock if no thread of the owner's NUMA node waits.
TEST(cohort, does_not_keep_the_global_lock_for_nobody) {
  c_mcs_mcs<scripted, by_script> lock{};
  actor far(1);
  lock.lock();
  far.start([&] { lock.lock(); });
  far.run();
  lock.unlock();
  far.run();
  EXPECT_TRUE(far.ended());
}

/// A guest (a thread that locks without a queue node) uses only the cohort lock's global lock and delays no local lock
/// (MCSg paper, §6.3).
void guests_go_straight_to_the_global_lock(any_lock lock) {
  const auto* const begin = static_cast<const unsigned char*>(lock.address());
  const auto only_global = [&](const actor& a) {
    for (const test::done& d : test::history) {
      const auto* const at = static_cast<const unsigned char*>(d.word);
      const bool in_lock = at >= begin && at < begin + lock.size();
      if (d.actor == a.number() && in_lock && at >= begin + 128) return false;
    }
    return true;
  };
  actor guest(0), near(0), leaves(0);
  lock.lock();
  test::history.clear();
  guest.start([&] { lock.lock_as_guest(); });
  guest.run();
  EXPECT_TRUE(guest.waits());
  near.start([&] { lock.lock(); });
  near.run();
  EXPECT_TRUE(near.waits());
  lock.unlock();  // hands the lock to near
  near.run();
  EXPECT_TRUE(near.ended());
  EXPECT_FALSE(only_global(near));
  lock.unlock();
  for (int i = 0; i < 3 && !guest.ended(); i++) guest.run();
  EXPECT_TRUE(guest.ended());

  actor regular(0);  // the regular acquires the local lock, and waits for the global lock
  regular.start([&] { lock.lock(); });
  regular.run();
  EXPECT_TRUE(regular.waits());
  EXPECT_FALSE(only_global(regular));
  leaves.start([&] { lock.unlock(); });
  for (int i = 0; i < 3 && !leaves.ended(); i++) leaves.run();
  EXPECT_TRUE(leaves.ended());
  EXPECT_TRUE(only_global(guest)) << "a guest does not access local locks";
  for (int i = 0; i < 3 && !regular.ended(); i++) regular.run();
  EXPECT_TRUE(regular.ended());
  lock.unlock();
}
TEST(cohort, guests_go_straight_to_the_global_lock_mcsg_mcs) {
  guests_go_straight_to_the_global_lock(any_lock::make<c_mcsg_mcs<scripted, by_script>>());
}
TEST(cohort, guests_go_straight_to_the_global_lock_bo_mcsg_plus_plus) {
  guests_go_straight_to_the_global_lock(any_lock::make<c_bo_mcsg_plus_plus<scripted, by_script>>());
}

/// Under C-BO-MCSg++ a thread that cannot get a queue node locks its NUMA node's local lock as a guest (MCSg paper,
/// §7).
TEST(cohort, a_thread_without_a_node_is_a_guest_of_the_local_lock_bo_mcsg_plus_plus) {
  c_bo_mcsg_plus_plus<scripted, by_script> lock{};
  std::vector<node_handle> all;
  for (node_handle h; (h = scripted::take_node()) != no_node;) all.push_back(h);
  lock.lock();
  EXPECT_FALSE(lock.try_lock());
  actor second(0);
  second.start([&] { lock.lock(); });
  second.run();
  EXPECT_TRUE(second.waits());
  lock.unlock();
  second.run();
  EXPECT_TRUE(second.ended());
  lock.unlock();
  for (const node_handle h : all) scripted::give_node(h);
  EXPECT_TRUE(lock.try_lock());
}

TEST(cohort, nodes_are_those_that_were_asked_for) {
  for (int i = 0; i < 1000; i++) ASSERT_LT(native::numa_node(), 2u);
}

}  // namespace
}  // namespace usher
