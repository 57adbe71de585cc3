// Tests the order of admission. The order is recorded by the platform's hooks for arrival and admission, or read from
// the locks' own words.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <semaphore>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "team.hpp"
#include "usher/locks/fairlock.hpp"
#include "usher/locks/futex.hpp"
#include "usher/locks/loiter.hpp"
#include "usher/locks/mcs.hpp"
#include "usher/locks/mcscr.hpp"
#include "usher/locks/mcsg.hpp"
#include "usher/locks/steady.hpp"
#include "usher/locks/ticket.hpp"
#include "usher/locks/twa.hpp"
#include "usher/mutex.hpp"
#include "usher/platform/native.hpp"
#include "waiters.hpp"

namespace usher {
namespace {

using std::chrono::milliseconds;
using test::admission_order;
using test::set_word;
using test::word;
using stp = waiting<native, waiting_kind::spin_then_park>;
using spin = waiting<native, waiting_kind::spin>;

const std::vector<unsigned> in_order{0, 1, 2, 3, 4, 5};

TEST(fifo, ticket) {
  ticket<native, stp> l{};
  EXPECT_EQ(admission_order(l, 6), in_order);
}
TEST(fifo, twa) {
  twa<native, stp> l{};
  EXPECT_EQ(admission_order(l, 6), in_order);
}
TEST(fifo, mcs) {
  mcs<native, stp> l{};
  EXPECT_EQ(admission_order(l, 6), in_order);
}
TEST(fifo, mcsg_among_regulars) {
  mcsg<native, stp> l{};
  EXPECT_EQ(admission_order(l, 6), in_order);
}

// ---- ticket words

template <class Lock>
void survives_the_wrap_of_its_counters() {
  Lock lock{};
  set_word(lock, 0, 0u - 40);  // both counters, ticket and grant, wrap after 20 more acquisitions
  set_word(lock, 1, 0u - 40);
  EXPECT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  long counter = 0;
  test::in_threads(4, [&](unsigned) {
    for (int i = 0; i < 500; i++) {
      lock.lock();
      counter++;
      // Some holds are so long that the other threads sleep.
      if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      lock.unlock();
    }
  });
  EXPECT_EQ(counter, 2000);
  EXPECT_EQ(word(lock, 0), (word(lock, 1) & ~1u)) << "free: ticket and grant are equal";
}
TEST(wrap, ticket) {
  survives_the_wrap_of_its_counters<ticket<native, stp>>();
}
TEST(wrap, ticket_park) {
  survives_the_wrap_of_its_counters<ticket<native, waiting<native, waiting_kind::park>>>();
}
TEST(wrap, twa) {
  survives_the_wrap_of_its_counters<twa<native, stp>>();
}
TEST(wrap, twa_park) {
  survives_the_wrap_of_its_counters<twa<native, waiting<native, waiting_kind::park>>>();
}

TEST(ticket_words, an_idle_lock_takes_the_sleepers_mark_off) {
  ticket<native, waiting<native, waiting_kind::park>> lock{};
  lock.lock();
  std::jthread sleeper = test::asleep_in([&] {
    lock.lock();
    lock.unlock();
  });
  EXPECT_EQ(word(lock, 1) & 1, 1u);
  lock.unlock();
  sleeper.join();
  lock.lock();
  lock.unlock();
  EXPECT_EQ(word(lock, 1) & 1, 0u);
}

// ---- TWA

std::uint32_t twa_index(std::uint32_t number, std::uint32_t salt) {
  return ((number * 127) ^ salt) & 4095;
}

TEST(twa, neighbouring_tickets_never_share_a_sector) {
  for (std::uint32_t salt : {0u, 1u, 0x5a5u, 0xfffu, 0x12345678u})
    for (std::uint32_t n = 0; n < 10000; n++)
      ASSERT_NE(twa_index(n, salt) * 4 / 128, twa_index(n + 1, salt) * 4 / 128) << n << ' ' << salt;
}

TEST(twa, a_spinning_unlock_notifies_the_slot_of_the_next_but_one) {
  twa<native, spin> lock{};
  for (std::uint32_t n = 0; n < 50; n++) {
    auto& slot = usher_process_state.waiting_array[twa_index(n + 2, native::salt(&lock))];
    const std::uint32_t before = slot.load();
    lock.lock();
    EXPECT_EQ(slot.load(), before);
    lock.unlock();
    EXPECT_EQ(slot.load(), before + 4) << n;
  }
}

TEST(twa, a_parking_unlock_writes_to_the_array_only_where_somebody_watches) {
  twa<native, stp> lock{};
  for (std::uint32_t n = 0; n < 50; n++) {
    auto& slot = usher_process_state.waiting_array[twa_index(n + 2, native::salt(&lock))];
    slot.fetch_and(~3u);  // clears bits 0 and 1, which other tests may have set
    const std::uint32_t before = slot.load();
    lock.lock();
    if (n % 2) slot.fetch_or(1);
    lock.unlock();
    EXPECT_EQ(slot.load(), n % 2 ? before + 4 : before) << n;
  }
}

TEST(twa, collisions_of_two_locks_are_harmless) {
  // The array has two slots, and both locks count from the same ticket number, so waiters of both locks use the same
  // slots.
  using small = basic_twa<native, stp, shared_array<native, 2>>;
  small a{}, b{};
  long counters[2] = {};
  test::in_threads(6, [&](unsigned me) {
    small& lock = me % 2 ? a : b;
    for (int i = 0; i < 1000; i++) {
      lock.lock();
      counters[me % 2]++;
      lock.unlock();
    }
  });
  EXPECT_EQ(counters[0], 3000);
  EXPECT_EQ(counters[1], 3000);
}

// ---- Fairlock

using fair = fairlock<native, stp>;

TEST(fairlock, figure_3) {
  // CPU i has bit i + 1 of the word. CPUs 0, 3 and 7 wait: bits 1, 4 and 8. CPU 2 (bit 3) unlocks, so CPU 3 is next.
  constexpr std::uint32_t waiting = 1u << 1 | 1u << 4 | 1u << 8 | 1u;
  EXPECT_EQ(fair::next_bit(waiting, 3), 4u);
  EXPECT_EQ(fair::next_bit(waiting, 4), 8u);
  EXPECT_EQ(fair::next_bit(waiting, 8), 1u) << "wraps";
  EXPECT_EQ(fair::next_bit(waiting, 31), 1u) << "the paper's mask is wrong here";
  EXPECT_EQ(fair::next_bit(1u << 31 | 1u, 30), 31u);
  EXPECT_EQ(fair::next_bit(1u << 31 | 1u, 31), 31u);
}

TEST(fairlock, more_waiters_than_bits) {
  fair lock{};
  test::lets_a_crowd_in(lock, 45);
}

TEST(fairlock, try_lock_never_overtakes_a_waiter) {
  fair lock{};
  lock.lock();
  std::atomic<bool> in{false};
  std::binary_semaphore may_unlock{0};
  std::jthread waiter = test::asleep_in([&] {
    lock.lock();
    in = true;
    may_unlock.acquire();
    lock.unlock();
  });
  lock.unlock();
  while (!in) EXPECT_FALSE(lock.try_lock()) << "the lock bit stays set through the hand-over";
  may_unlock.release();
  waiter.join();
  EXPECT_TRUE(lock.try_lock());
}

// ---- MCSg

template <class W>
void guests_and_regulars(int rounds) {
  mcsg<native, W> lock{};
  long counter = 0;
  test::in_threads(4, [&](unsigned me) {
    for (int i = 0; i < rounds; i++) {
      if (me < 2)
        lock.lock_as_guest();
      else
        lock.lock();
      counter++;
      lock.unlock();
    }
  });
  EXPECT_EQ(counter, 4 * rounds);
  EXPECT_TRUE(lock.try_lock());
}
TEST(mcsg, guests_and_regulars_exclude_each_other) {
  guests_and_regulars<stp>(2000);
}
TEST(mcsg, guests_and_regulars_park) {
  guests_and_regulars<waiting<native, waiting_kind::park>>(1000);
}
TEST(mcsg, guests_and_regulars_spin) {
  guests_and_regulars<spin>(100);
}

TEST(mcsg, group_leaders_sleep_while_a_guest_holds_the_lock) {
  mcsg<native, stp> lock{};
  lock.lock_as_guest();
  int entered = 0;
  {
    std::vector<std::jthread> team;
    for (int i = 0; i < 4; i++)
      team.push_back(test::asleep_in([&] {
        lock.lock();
        entered++;
        lock.unlock();
      }));
    lock.unlock();
  }
  EXPECT_EQ(entered, 4);
}

// ---- MCSCR

TEST(mcscr, culls_one_an_unlock_refills_from_the_latest_and_strands_nobody) {
  mcscr<native, stp> lock{};
  static_assert(sizeof lock == 12);
  constexpr std::size_t tail = 0, eldest_passive = 1;
  std::vector<int> order;
  lock.lock();
  std::vector<std::jthread> team;
  for (int i = 0; i < 3; i++)
    team.push_back(test::asleep_in([&, i] {
      lock.lock();
      order.push_back(i);
      lock.unlock();
    }));
  EXPECT_EQ(word(lock, eldest_passive), 0u) << "nothing is culled before the first unlock";
  lock.unlock();  // thread 0 is surplus and becomes passive; thread 1 gets the lock
  team.clear();
  ASSERT_EQ(order.size(), 3u);
  // Thread 2's unlock finds the queue empty and admits thread 0, the only passive thread.
  EXPECT_EQ(order, (std::vector<int>{1, 2, 0}));
  EXPECT_EQ(word(lock, tail), 0u);
}

TEST(mcscr, the_eldest_get_their_turn) {
  // A period of n means that every n-th unlock admits the eldest passive thread; with a period of 1 every unlock does.
  mcscr_with_node<native, stp, 1> lock{};
  long counter = 0;
  std::vector<long> work(8);
  test::in_threads(8, [&](unsigned me) {
    for (int i = 0; i < 200; i++) {
      const node_handle h = native::take_node();
      lock.lock(h);
      counter++;
      work[me]++;
      lock.unlock(h);
      native::give_node(h);
    }
  });
  EXPECT_EQ(counter, 1600);
}

// ---- LOITER

/// Two threads pass the lock to each other without a pause. A third thread must nevertheless acquire it.
template <class Lock>
void an_impatient_standby_is_handed_the_lock() {
  Lock lock{};
  std::atomic<bool> stop{false}, in{false};
  std::atomic<int> turns{0};
  {
    std::vector<std::jthread> team;
    for (int i = 0; i < 2; i++)
      team.emplace_back([&] {
        while (!stop) {
          lock.lock();
          turns++;
          std::this_thread::sleep_for(std::chrono::microseconds(100));  // so long a hold that the other thread waits
          lock.unlock();
        }
      });
    EXPECT_TRUE(test::eventually([&] { return turns >= 20; }));
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < 20; i++) {
      lock.lock();
      lock.unlock();
    }
    in = true;
    const auto took = std::chrono::steady_clock::now() - began;
    EXPECT_LT(took, std::chrono::seconds(100));
    stop = true;
  }
  EXPECT_TRUE(in);
  EXPECT_TRUE(lock.try_lock());
}

TEST(impatient_standby, loiters_is_handed_the_lock) {
  an_impatient_standby_is_handed_the_lock<loiter<native, stp>>();
}
TEST(impatient_standby, steadys_is_handed_the_lock) {
  an_impatient_standby_is_handed_the_lock<steady<native, stp>>();
  an_impatient_standby_is_handed_the_lock<steady<native, waiting<native, waiting_kind::park>>>();
}

// ---- timed waiting

template <class Mutex>
void timed_waiting() {
  Mutex m;
  ASSERT_TRUE(m.try_lock_for(milliseconds(0)));
  std::jthread([&] {
    const auto began = std::chrono::steady_clock::now();
    EXPECT_FALSE(m.try_lock_for(milliseconds(20)));
    EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(20));
  }).join();
  std::jthread late = test::asleep_in([&] {
    ASSERT_TRUE(m.try_lock_for(std::chrono::seconds(20)));
    m.unlock();
  });
  m.unlock();
  late.join();

  // A timed acquisition also succeeds while other threads use the lock all the time.
  std::atomic<bool> stop{false};
  long counter = 0, timed = 0;
  {
    std::vector<std::jthread> team;
    for (int i = 0; i < 4; i++)
      team.emplace_back([&] {
        while (!stop) {
          m.lock();
          counter++;
          m.unlock();
        }
      });
    for (bool going = false; !going; std::this_thread::yield()) {
      m.lock();
      going = counter > 100;
      m.unlock();
    }
    for (int i = 0; i < 20; i++) {
      ASSERT_TRUE(m.try_lock_for(std::chrono::seconds(20)));
      timed++;
      m.unlock();
    }
    stop = true;
  }
  EXPECT_EQ(timed, 20);
  EXPECT_TRUE(m.try_lock());
  m.unlock();
}
TEST(timed, the_default) {
  timed_waiting<timed_mutex<>>();
}
TEST(timed, loiter) {
  timed_waiting<timed_mutex<loiter>>();
}
TEST(timed, steady) {
  timed_waiting<timed_mutex<steady>>();
}
TEST(timed, ticket) {
  timed_waiting<timed_mutex<ticket>>();
}
TEST(timed, mcscr) {
  timed_waiting<timed_mutex<mcscr>>();
}
TEST(timed, fairlock) {
  timed_waiting<timed_mutex<fairlock>>();
}
TEST(timed, futex) {
  timed_waiting<timed_mutex<futex>>();
}

TEST(timed, time_outs_and_grants_never_lose_the_lock) {
  timed_mutex<mcs> m;
  long counter = 0;
  std::atomic<long> got{0};
  test::in_threads(6, [&](unsigned me) {
    for (int i = 0; i < 300; i++) {
      if (me % 2) {
        if (!m.try_lock_for(std::chrono::microseconds(50))) continue;
      } else {
        m.lock();
      }
      counter++;
      got++;
      m.unlock();
    }
  });
  EXPECT_EQ(counter, got.load());
  EXPECT_TRUE(m.try_lock());
}

// ---- embedding

constinit mutex<> constant_initialised;
static_assert(std::is_trivially_destructible_v<mutex<>>);
static_assert(sizeof(mutex<futex>) == 4 && sizeof(mutex<>) == 12 && sizeof(mutex<mcs>) == 8);

TEST(mutex, works_before_main_and_with_the_standard_guards) {
  std::lock_guard guard(constant_initialised);
  EXPECT_FALSE(constant_initialised.try_lock());
}

// ---- thread records

TEST(records, of_dead_threads_are_used_again) {
  const auto made = [] { return usher_process_state.made.load(); };
  std::jthread([] { native::self(); }).join();
  const auto before = made();
  for (int i = 0; i < 500; i++) std::jthread([] { native::self(); }).join();
  EXPECT_LE(made() - before, 64u);
}

std::uint32_t nodes_made() {
  return usher_process_state.pool.made.load();
}

TEST(records, nodes_are_distinct_and_come_back) {
  std::set<node_handle> taken;
  const auto take = [&] {
    for (int i = 0; i < 1000; i++) {
      const node_handle h = native::take_node();
      ASSERT_GE(h, first_node);
      ASSERT_TRUE(taken.insert(h).second);
    }
  };
  take();
  for (node_handle h : taken) native::give_node(h);
  const auto made = nodes_made();
  const auto before = std::exchange(taken, {});
  take();
  EXPECT_EQ(nodes_made(), made);
  EXPECT_EQ(taken, before);
  for (node_handle h : taken) native::give_node(h);
}

TEST(records, nodes_that_others_give_back_serve_again) {
  constexpr int many = 100000;
  std::atomic<node_handle> cell{no_node};
  std::jthread taker([&] {
    for (int i = 0; i < many; i++) {
      const node_handle h = native::take_node();
      ASSERT_NE(h, no_node);
      while (cell.load(std::memory_order_acquire) != no_node) std::this_thread::yield();
      cell.store(h, std::memory_order_release);
    }
  });
  const auto made = nodes_made();
  for (int i = 0; i < many; i++) {
    node_handle h;
    while ((h = cell.load(std::memory_order_acquire)) == no_node) std::this_thread::yield();
    cell.store(no_node, std::memory_order_release);
    native::give_node(h);
  }
  EXPECT_LE(nodes_made() - made, 100u);
}

TEST(records, no_node_is_in_two_hands) {
  // Each thread takes up to 40 nodes and gives as many back, so that the pool is used repeatedly.
  constexpr unsigned threads = 4;
  constexpr std::uint32_t most = 1 << 16;
  static std::array<std::atomic<bool>, most> in_use{};
  test::in_threads(threads, [&](unsigned me) {
    std::vector<node_handle> mine;
    for (unsigned round = 0; round < 2000; round++) {
      for (unsigned i = 0; i < (round * 7 + me) % 40; i++) {
        mine.push_back(native::take_node());
        ASSERT_LT(mine.back(), most);
        ASSERT_FALSE(in_use[mine.back()].exchange(true, std::memory_order_relaxed));
      }
      for (; !mine.empty(); mine.pop_back()) {
        in_use[mine.back()].store(false, std::memory_order_relaxed);
        native::give_node(mine.back());
      }
    }
  });
}

}  // namespace
}  // namespace usher
