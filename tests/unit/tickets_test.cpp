// The ticket family: the words that waiters watch, the words that an unlock accesses, slots of the waiting array,
// ticket numbers that wrap. The tests of every_lock_test are repeated here for locks that are too large for its table.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <semaphore>
#include <set>
#include <thread>
#include <vector>

#include "any_lock.hpp"
#include "team.hpp"
#include "traced_platform.hpp"
#include "usher/locks/awn.hpp"
#include "usher/locks/partitioned.hpp"
#include "usher/locks/qspinlock.hpp"
#include "usher/locks/three_stage.hpp"
#include "usher/locks/ticket.hpp"
#include "usher/locks/ticket32.hpp"
#include "usher/locks/ticket_backoff.hpp"
#include "usher/locks/ticket_xadd.hpp"
#include "usher/locks/tkt_dual.hpp"
#include "usher/locks/tkt_dual_variants.hpp"
#include "usher/locks/twa.hpp"
#include "usher/locks/twa32.hpp"
#include "usher/locks/twa_chain.hpp"
#include "usher/locks/twa_id.hpp"
#include "usher/locks/twa_staged.hpp"
#include "usher/locks/twa_variants.hpp"
#include "waiters.hpp"

namespace usher {
namespace {

using std::chrono::milliseconds;
using test::action;
using test::any_lock;
using test::event;
using test::eventually;
using test::named_lock;
using test::trace;
using test::traced;
using spin = waiting<native, waiting_kind::spin>;
using stp = waiting<native, waiting_kind::spin_then_park>;
using park = waiting<native, waiting_kind::park>;
using traced_spin = waiting<traced, waiting_kind::spin>;

// ---- sizes (TWA, extended, §2, §4.9, §6)

static_assert(sizeof(ticket<native, stp>) == 8);
static_assert(sizeof(twa<native, stp>) == sizeof(ticket<native, stp>));
static_assert(sizeof(twa_sized<native, stp>) == 8 && sizeof(twa_quantized<native, stp>) == 8);
static_assert(sizeof(twa_staged<native, stp>) == 8 && sizeof(twa_id<native, stp>) == 8);
static_assert(sizeof(twa_chain<native, stp>) == 8);
static_assert(sizeof(ticket32<native, stp>) == 4 && sizeof(twa32<native, stp>) == 4);
static_assert(sizeof(ticket32<native, spin>) == 4 && sizeof(twa32<native, spin>) == 4);
static_assert(sizeof(qspinlock<native, stp>) == 4);
static_assert(sizeof(three_stage<native, stp>) == 16 && sizeof(three_stage_keeps_b<native, stp>) == 16);
static_assert(sizeof(basic_three_stage<native, stp, false, false, 128>) == 3 * 128);
static_assert(sizeof(tkt_dual<native, stp>) == 3 * 128 && sizeof(tkt_dual_releaser<native, stp>) == 3 * 128);
static_assert(sizeof(partitioned_ticket<native, stp>) == 9 * 128 && sizeof(anderson<native, stp>) == 65 * 128);
static_assert(sizeof(awn<native, stp>) == 8 + 64 * 8);
static_assert(sizeof(twa_private<native, stp>) == 8 + 4 * 4096 && sizeof(twa_private_64<native, spin>) == 8 + 8 * 4096);

// ---- the words that waiters watch

/// Returns the address of a word in a lock; the trace identifies words by their addresses.
const void* word_at(const void* lock, std::size_t byte) {
  return static_cast<const char*>(lock) + byte;
}

const void* slot_at(std::uint32_t number, const void* lock) {
  return &traced::table<twa_array>()[((number * 127) ^ traced::salt(lock)) & 4095];
}

/// The example in TWA (extended), §2.1: T1 takes the free lock, T2 to T4 queue behind it, T1 releases the lock. Each
/// function is one or more of the ten steps; the comments have the numbers of the steps.
struct ten_steps {
  twa<traced, traced_spin> lock{};
  const void* const ticket = word_at(&lock, 0);
  const void* const grant = word_at(&lock, 4);
  const void *const at2 = slot_at(2, &lock), *const at3 = slot_at(3, &lock);
  std::binary_semaphore t1_may_leave{0}, t1_may_notify{0}, t2_may_leave{0};
  std::atomic<int> owner{0};
  std::atomic<bool> at_array{false};
  std::jthread t1, t2, t3, t4;

  void hold(int me, std::binary_semaphore& may_leave) {
    trace::me = me;
    lock.lock();
    owner = me;
    may_leave.acquire();
    lock.unlock();
  }
  void pass(int me) {
    trace::me = me;
    lock.lock();
    owner = me;
    lock.unlock();
  }

  /// 1, 2: the lock is free. T1 takes the lock at once, by the addition to ticket and one load of grant.
  void t1_takes_free_lock() {
    t1 = std::jthread([this] { hold(1, t1_may_leave); });
    ASSERT_TRUE(eventually([&] { return owner == 1; }));
    const auto first = trace::of(1);
    ASSERT_EQ(first.size(), 2u);
    EXPECT_TRUE(first[0].what == action::add && first[0].word == ticket);
    EXPECT_TRUE(first[1].what == action::load && first[1].word == grant && first[1].value == 0);
  }

  /// 3: T2 is next and watches grant.
  void t2_watches_grant() {
    t2 = std::jthread([this] { hold(2, t2_may_leave); });
    ASSERT_TRUE(eventually([&] { return trace::watched_by(2) == grant; }));
  }

  /// 4: T3 is two away. It reads its slot, loads grant again, and watches the slot.
  void t3_watches_slot() {
    t3 = std::jthread([this] { pass(3); });
    ASSERT_TRUE(eventually([&] { return trace::watched_by(3) == at2; }));
    const auto third = trace::of(3);
    const auto is_load = [](const void* w) {
      return [w](const event& e) { return e.what == action::load && e.word == w; };
    };
    const auto slot_read = std::find_if(third.begin(), third.end(), is_load(at2));
    ASSERT_NE(slot_read, third.end());
    EXPECT_NE(std::find_if(slot_read, third.end(), is_load(grant)), third.end()) << "the second look";
  }

  /// 5: T4 does the same with another slot.
  void t4_watches_another_slot() {
    t4 = std::jthread([this] { pass(4); });
    ASSERT_TRUE(eventually([&] { return trace::watched_by(4) == at3; }));
    EXPECT_EQ(trace::watchers(grant), 1u);
  }

  /// 6, 7, 8: T1 releases the lock, and is stopped before it writes to the array. T2 already owns the lock; T3 does
  /// nothing.
  void t1_hands_over_before_it_notifies() {
    trace::before_write([this](const event& e) {
      if (e.thread != 1 || e.word != at2) return;
      at_array = true;
      t1_may_notify.acquire();
    });
    t1_may_leave.release();
    ASSERT_TRUE(eventually([&] { return at_array && owner == 2; })) << "the hand-over precedes the array";
    EXPECT_EQ(trace::watched_by(3), at2);
    EXPECT_EQ(trace::watchers(grant), 0u);
    t1_may_notify.release();
  }

  /// 9, 10: T3 begins to watch grant, T4 continues to watch its slot.
  void t3_watches_grant() {
    ASSERT_TRUE(eventually([&] { return trace::watched_by(3) == grant; }));
    EXPECT_EQ(trace::watched_by(4), at3);
    EXPECT_EQ(trace::watchers(grant), 1u);
  }

  /// T1 has written to grant and then to the slot of T3, and to nothing after these.
  void unlock_of_t1_has_ended_with_two_writes() {
    t1.join();
    const auto all_of_t1 = trace::of(1);
    const auto handed =
        std::find_if(all_of_t1.begin(), all_of_t1.end(), [&](const event& e) { return e.what == action::store; });
    ASSERT_EQ(all_of_t1.end() - handed, 2) << "the unlock ends with two writes";
    EXPECT_EQ(handed[0].word, grant);
    EXPECT_TRUE(handed[1].what == action::add && handed[1].word == at2);
  }
};

TEST(twa, the_ten_steps) {
  trace::begin();
  ten_steps s;
  ASSERT_NE(s.at2, s.at3);
  ASSERT_NO_FATAL_FAILURE(s.t1_takes_free_lock());
  ASSERT_NO_FATAL_FAILURE(s.t2_watches_grant());
  ASSERT_NO_FATAL_FAILURE(s.t3_watches_slot());
  ASSERT_NO_FATAL_FAILURE(s.t4_watches_another_slot());
  ASSERT_NO_FATAL_FAILURE(s.t1_hands_over_before_it_notifies());
  ASSERT_NO_FATAL_FAILURE(s.t3_watches_grant());
  ASSERT_NO_FATAL_FAILURE(s.unlock_of_t1_has_ended_with_two_writes());
  s.t2_may_leave.release();
}

/// A function that returns the addresses of the words by which a lock is handed over.
using words_of = std::vector<const void*>(const void* lock);

/// Queues six threads behind an owner and hands the lock from one to the next. After each hand-over the test checks
/// that at most `most` threads watch the words by which the lock is handed over. `array_in_unlock`: whether an unlock
/// may access the process-wide waiting array. `writes`: the number of an unlock's writes to the lock; after the last of
/// them the unlock must not access the lock.
void watchers_are_few(any_lock lock, words_of* near_words, unsigned most, bool array_in_unlock, unsigned writes = 1) {
  trace::begin();
  const auto near_watchers = [&] {
    unsigned n = 0;
    for (const void* w : near_words(lock.address())) n += trace::watchers(w);
    return n;
  };
  constexpr int waiters = 6;
  std::counting_semaphore<waiters + 1> go{0};
  std::atomic<int> in{0};
  std::vector<std::vector<event>> unlocks(waiters + 1);
  const auto turn = [&](int me) {
    trace::me = me;
    lock.lock();
    in = me;
    go.acquire();
    const std::size_t before = trace::of(me).size();
    lock.unlock();
    auto all = trace::of(me);
    unlocks[std::size_t(me) - 1].assign(all.begin() + std::ptrdiff_t(before), all.end());
  };
  std::vector<std::jthread> team;
  for (int i = 1; i <= waiters + 1; i++) {
    team.emplace_back(turn, i);
    ASSERT_TRUE(eventually([&] { return in == 1 && int(trace::watchers()) == i - 1; })) << i;
    EXPECT_LE(near_watchers(), most);
  }
  for (int i = 1; i <= waiters + 1; i++) {
    // Waits until thread `i` owns the lock, all threads behind it watch a word, and at least one but at most `most` of
    // them watch the words by which the lock is handed over.
    EXPECT_TRUE(eventually([&] {
      return in == i && int(trace::watchers()) == waiters + 1 - i && near_watchers() <= most &&
             (i > waiters || near_watchers() >= 1);
    })) << "turn "
        << i << ": " << near_watchers() << " near";
    go.release();
  }
  team.clear();

  const auto inside = [](const void* p, const void* begin, std::size_t size) {
    return std::uintptr_t(p) - std::uintptr_t(begin) < size;
  };
  for (const auto& u : unlocks) {
    unsigned written = 0;
    for (const event& e : u) {
      const bool own = inside(e.word, lock.address(), lock.size());
      EXPECT_FALSE(own && written == writes) << "the lock is touched after it has been handed over";
      written += own && e.what != action::load;
      EXPECT_TRUE(own || array_in_unlock || !inside(e.word, traced::table<twa_array>(), 4 * 4096));
    }
    EXPECT_EQ(written, writes);
  }
}

template <template <class, class> class Lock>
any_lock make_traced() {
  return any_lock::make<Lock<traced, traced_spin>>();
}
template <std::size_t... byte>
std::vector<const void*> words_at(const void* lock) {
  return {word_at(lock, byte)...};
}
constexpr words_of* const first_word = words_at<0>;
constexpr words_of* const second_word = words_at<4>;

TEST(watchers, of_a_ticket_lock_are_all) {
  watchers_are_few(make_traced<ticket>(), second_word, 6, false);
  watchers_are_few(make_traced<ticket_xadd>(), second_word, 6, false);
  watchers_are_few(make_traced<ticket32>(), first_word, 6, false);
}
TEST(watchers, of_twa_are_one) {
  watchers_are_few(make_traced<twa>(), second_word, 1, true);
  watchers_are_few(make_traced<twa_sized>(), second_word, 1, true);
  watchers_are_few(make_traced<twa32>(), first_word, 1, true);
  watchers_are_few(make_traced<twa_id>(), second_word, 1, true);
  watchers_are_few(make_traced<twa_chain>(), second_word, 1, true);
  watchers_are_few(make_traced<twa_private>(), second_word, 1, false);
}
TEST(watchers, of_twa_staged_are_two_and_its_unlock_leaves_the_array_alone) {
  watchers_are_few(make_traced<twa_staged>(), second_word, 2, false);
}
TEST(watchers, of_twa_quantized_are_a_gang) {
  watchers_are_few(make_traced<twa_quantized>(), second_word, 4, true);
}
TEST(watchers, of_tkt_dual_are_one) {
  watchers_are_few(make_traced<tkt_dual>(), words_at<128>, 1, false);
}
template <class P, class W>
using dual_near_4 = basic_tkt_dual_releaser<P, W, 4>;
template <class P, class W>
using dual_batch_4 = basic_tkt_dual_releaser<P, W, 4, 4>;
TEST(watchers, of_tkt_dual_as_in_the_paper_are_the_near_threads) {
  // The unlock writes both words.
  watchers_are_few(make_traced<tkt_dual_releaser>(), words_at<128>, 1, false, 2);
  watchers_are_few(make_traced<dual_near_4>(), words_at<128>, 4, false, 2);
}
TEST(watchers, of_three_stage_that_keeps_b_are_one_at_b_and_none_at_c) {
  watchers_are_few(make_traced<three_stage_keeps_b>(), words_at<8>, 1, false, 2);
  watchers_are_few(make_traced<three_stage_keeps_b>(), words_at<8, 12>, 1, false, 2);
}

TEST(tkt_dual_releaser, every_fourth_unlock_brings_four_threads_near) {
  trace::begin();
  trace::me = 1;
  dual_batch_4<traced, traced_spin> lock{};
  std::vector<std::size_t> writes;
  for (int i = 0; i < 8; i++) {
    lock.lock();
    const std::size_t before = trace::of(1).size();
    lock.unlock();
    const auto all = trace::of(1);
    writes.push_back(std::size_t(std::count_if(all.begin() + std::ptrdiff_t(before), all.end(),
                                               [](const event& e) { return e.what != action::load; })));
    if (writes.back() == 2) {
      EXPECT_TRUE(all.back().what == action::add && all.back().word == word_at(&lock, 256));
    }
  }
  EXPECT_EQ(writes, (std::vector<std::size_t>{1, 1, 1, 2, 1, 1, 1, 2}));
}
TEST(watchers, of_three_stage_are_one_at_each_of_the_last_two) {
  watchers_are_few(make_traced<three_stage>(), words_at<12>, 1, false);
  watchers_are_few(make_traced<three_stage>(), words_at<8, 12>, 2, false);
}
TEST(watchers, of_qspinlock_are_the_pending_thread_and_the_head) {
  watchers_are_few(make_traced<qspinlock>(), first_word, 2, false);
}
TEST(watchers, of_partitioned_locks_are_spread) {
  // There are six waiters and eight words, so each waiter has its own.
  using lock = partitioned_ticket<traced, traced_spin>;
  for (std::size_t i = 1; i <= 8; i++) {
    static std::size_t which;
    which = i;
    trace::begin();
    lock l{};
    l.lock();
    std::vector<std::jthread> team;
    for (int t = 1; t <= 6; t++)
      team.emplace_back([&l, t] {
        trace::me = t;
        l.lock();
        l.unlock();
      });
    EXPECT_TRUE(eventually([] { return trace::watchers() == 6; }));
    EXPECT_LE(trace::watchers(word_at(&l, 128 * which)), 1u);
    l.unlock();
  }
}

TEST(twa_staged, uncontended_paths_leave_the_array_alone) {
  trace::begin();
  trace::me = 1;
  twa_staged<traced, traced_spin> lock{};
  for (int i = 0; i < 3; i++) {
    lock.lock();
    lock.unlock();
    EXPECT_TRUE(lock.try_lock());
    lock.unlock();
  }
  for (const event& e : trace::of(1)) EXPECT_TRUE(e.word == word_at(&lock, 0) || e.word == word_at(&lock, 4));
}

// ---- the array

TEST(twa, slots_of_neighbouring_numbers_are_in_different_sectors) {
  // A sector has 128 bytes, because processors prefetch the adjacent line (TWA, extended, §2).
  const auto sector = [](const void* p) { return std::uintptr_t(p) / 128; };
  const auto locks = std::make_unique<twa<native, spin>[]>(64);
  for (int l = 0; l < 64; l++)
    for (std::uint32_t n = 0; n < 9000; n++)
      ASSERT_NE(sector(&locks[l].slot_of(2 * n)), sector(&locks[l].slot_of(2 * n + 2))) << n;
  auto& mine = locks[0];
  for (std::uint32_t n = 0xfffffff0u; n != 16; n++)
    ASSERT_NE(sector(&mine.slot_of(2 * n)), sector(&mine.slot_of(2 * n + 2))) << "over the wrap, " << n;
}

TEST(twa, two_locks_in_step_do_not_meet) {
  // The lock's address is part of the hash that selects a slot. Otherwise the locks would share every slot.
  const auto locks = std::make_unique<twa<native, spin>[]>(64);
  for (int l = 1; l < 64; l++)
    for (std::uint32_t n = 0; n < 5000; n++) ASSERT_NE(&locks[0].slot_of(2 * n), &locks[l].slot_of(2 * n)) << n;
}

TEST(twa, a_lock_meets_itself_after_4096_numbers) {
  twa<native, spin> lock{};
  std::set<const void*> slots;
  for (std::uint32_t n = 0; n < 4096; n++) slots.insert(&lock.slot_of(2 * n));
  EXPECT_EQ(slots.size(), 4096u);
}

// Slots of the waiting array whose counts go on beyond 32 bits

/// A waiter reads its slot, then its lock. In between the slot is notified exactly 2^30 times, for other waiters. If
/// the slot has 64 bits, its value has changed, so the waiter looks at its lock again. If it has 32 bits, it has its
/// old value again, so the waiter waits for one more notification. Returns whether the waiter needed that notification.
template <class Slot>
bool misses_a_whole_turn() {
  std::atomic<Slot> slot{waiting_array::notice * 5};
  std::atomic<int> looks{0};
  std::jthread waiter([&] {
    waiting_array::watch<native, spin>(slot, [&](std::memory_order) {
      if (looks.load() == 0) slot.fetch_add(static_cast<Slot>(std::uint64_t{1} << 30) * waiting_array::notice);
      return ++looks > 1;
    });
  });
  const auto has_seen = [&] { return looks == 2; };
  if constexpr (sizeof(Slot) == 8) return !eventually(has_seen);
  // No number of polls could show that the waiter waits for ever. So the test shows that one more notification ends the
  // wait.
  while (looks == 0) std::this_thread::yield();
  std::this_thread::sleep_for(milliseconds(2));
  const bool waits = looks == 1;
  waiting_array::notify<native, spin>(slot);
  EXPECT_TRUE(eventually(has_seen));
  return waits;
}

TEST(waiting_array, slots_of_64_bits_do_not_repeat_after_2_to_the_30_notifications) {
  EXPECT_FALSE(misses_a_whole_turn<std::uint64_t>());
  EXPECT_TRUE(misses_a_whole_turn<std::uint32_t>());
}

TEST(twa_private, slots_of_64_bits_count_on_over_32) {
  using lock_type = twa_private_64<native, spin>;
  const auto lock = std::make_unique<lock_type>();
  // Three more notifications of a slot make its low 32 bits wrap.
  for (std::uint32_t n = 0; n < 4096; n++)
    lock->slot_of(2 * n).fetch_add(std::uint64_t{1} << 32, std::memory_order_relaxed);
  for (std::uint32_t n = 0; n < 4096; n++)
    lock->slot_of(2 * n).fetch_sub(3 * waiting_array::notice, std::memory_order_relaxed);
  long counter = 0;
  test::in_threads(4, [&](unsigned) {
    for (int i = 0; i < 5000; i++) {
      lock->lock();
      counter++;
      lock->unlock();
    }
  });
  EXPECT_EQ(counter, 20000);
  // The 20000 unlocks notify each of the 4096 slots 4 or 5 times.
  for (std::uint32_t n = 0; n < 4096; n++)
    ASSERT_GE(lock->slot_of(2 * n).load(), std::uint64_t{1} << 32) << "the count goes on in the upper half: " << n;
}

TEST(twa_sized, uses_as_much_of_the_array_as_there_are_cpus) {
  auto& cpus = usher_process_state.cpus;
  const auto really = native::cpus();
  EXPECT_GE(really, 1u);
  for (const auto& [n, size] : {std::pair{1u, 64u},
                                {2u, 128u},
                                {3u, 256u},
                                {72u, 4096u},
                                {64u, 4096u},
                                {63u, 4096u},
                                {32u, 2048u},
                                {5000u, 4096u},
                                {~0u, 4096u}}) {
    cpus = n;
    EXPECT_EQ(array_by_cpus<native>::size(), size) << n;
    twa_sized<native, spin> lock{};
    std::set<const void*> slots;
    for (std::uint32_t k = 0; k < 5000; k++) slots.insert(&lock.slot_of(2 * k));
    EXPECT_EQ(slots.size(), size);
    EXPECT_LT(static_cast<const std::atomic<std::uint32_t>*>(*slots.rbegin()) - usher_process_state.waiting_array,
              std::ptrdiff_t(size));
  }
  cpus = 0;  // 0: the number of CPUs is read again at the next call
  EXPECT_EQ(native::cpus(), really);
  EXPECT_EQ(cpus, really);
}

/// A table tag other than that of the lock TWA-ID. The platform has one memory for all tables of the same size and
/// kind, so both tags name the same table.
struct ids {
  static constexpr std::uint32_t size = 4096;
  static constexpr table_kind kind = table_kind::identities;
};

TEST(tables, mean_different_things_and_chains_are_left_behind_by_a_fork) {
  EXPECT_NE(native::table<twa_array>(), native::table<twa_id_array>());
  EXPECT_NE(native::table<twa_chain_array>(), native::table<twa_id_array>());
  EXPECT_EQ(native::table<ids>(), native::table<twa_id_array>());
  native::fork_epoch();
  auto& chain = native::table<twa_chain_array>()[17];
  chain = 1234;
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(chain == 0 ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(chain.exchange(0), 1234u);
}

TEST(twa_id, a_spinning_unlock_stores_0_to_the_slot_of_the_next_but_one) {
  trace::begin();
  trace::me = 1;
  twa_id<traced, traced_spin> lock{};
  for (std::uint32_t n = 0; n < 20; n++) {
    lock.lock();
    const std::size_t before = trace::of(1).size();
    lock.unlock();
    auto all = trace::of(1);
    all.erase(all.begin(), all.begin() + std::ptrdiff_t(before));
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0].what, action::load);
    EXPECT_TRUE(all[1].what == action::store && all[1].word == word_at(&lock, 4));
    const void* slot = &traced::table<twa_id_array>()[(((n + 2) * 127) ^ traced::salt(&lock)) & 4095];
    EXPECT_TRUE(all[2].what == action::store && all[2].word == slot && all[2].value == 0);
  }
}

// ---- numbers that wrap

TEST(ticket32, no_carry_leaves_grants_field) {
  const auto all = []<class Fields>(Fields) {
    for (std::uint32_t g = 0; g < Fields::numbers; g++)
      for (std::uint32_t t : {0u, 1u, g, Fields::numbers - 1})
        for (std::uint32_t mark : {0u, Fields::asleep}) {
          const std::uint32_t w = t * Fields::ticket_one | mark | g;
          const std::uint32_t next = w + Fields::grant_step(w);
          ASSERT_EQ(Fields::grant(next), (g + 1) % Fields::numbers);
          ASSERT_EQ(Fields::ticket(next), t);
          ASSERT_EQ(next & Fields::asleep, mark);
        }
  };
  all(ticket32_word<spin>{});
  all(ticket32_word<stp>{});
  EXPECT_EQ(ticket32_word<spin>::numbers, 1u << 16);
}

class narrow : public testing::TestWithParam<named_lock> {};
INSTANTIATE_TEST_SUITE_P(narrow_locks, narrow,
                         testing::ValuesIn(std::vector<named_lock>{
                             {"ticket32_spin", any_lock::make<ticket32<native, spin>>},
                             {"ticket32", any_lock::make<ticket32<native, stp>>},
                             {"ticket32_park", any_lock::make<ticket32<native, park>>},
                             {"twa32_spin", any_lock::make<twa32<native, spin>>},
                             {"twa32", any_lock::make<twa32<native, stp>>},
                             {"twa32_park", any_lock::make<twa32<native, park>>},
                         }),
                         test::name_of);

TEST_P(narrow, survives_2_to_the_17_acquisitions) {
  any_lock lock = GetParam().make();
  for (int i = 0; i < 1 << 17; i++) {
    if (i % 3 == 0) {
      ASSERT_TRUE(lock.try_lock());
    } else {
      lock.lock();
    }
    ASSERT_FALSE(i % 64 == 0 && lock.try_lock());
    lock.unlock();
  }
  EXPECT_TRUE(lock.try_lock());
}

/// A family of locks. Each function returns a free lock whose next ticket is `number`; the functions differ in the way
/// in which the lock's threads wait.
struct family_of_locks {
  const char* name;
  any_lock (*parking)(std::uint32_t number);
  any_lock (*plain)(std::uint32_t number);
  any_lock (*spinning)(std::uint32_t number);
  any_lock (*small)();  // a lock with fewer slots than threads; null if the family has none
};

template <class Lock>
any_lock counting_from(std::uint32_t number) {
  any_lock lock = any_lock::make<Lock>();
  lock.as<Lock>().count_from(number);
  return lock;
}
template <template <class, class> class Lock>
family_of_locks family(const char* name) {
  using plain = Lock<native, stp>;
  family_of_locks f{name, counting_from<Lock<native, park>>, counting_from<plain>, counting_from<Lock<native, spin>>,
                    nullptr};
  if constexpr (requires { typename plain::small; }) f.small = any_lock::make<typename plain::small>;
  return f;
}

class counting : public testing::TestWithParam<family_of_locks> {};
INSTANTIATE_TEST_SUITE_P(
    counting_locks, counting,
    testing::ValuesIn(std::vector<family_of_locks>{family<ticket>("ticket"),
                                                   family<ticket_xadd>("ticket_xadd"),
                                                   family<ticket_backoff>("ticket_backoff"),
                                                   family<ticket32>("ticket32"),
                                                   family<twa>("twa"),
                                                   family<twa32>("twa32"),
                                                   family<twa_sized>("twa_sized"),
                                                   family<twa_quantized>("twa_quantized"),
                                                   family<twa_private>("twa_private"),
                                                   family<twa_staged>("twa_staged"),
                                                   family<twa_id>("twa_id"),
                                                   family<twa_chain>("twa_chain"),
                                                   family<tkt_dual>("tkt_dual"),
                                                   family<tkt_dual_releaser>("tkt_dual_releaser"),
                                                   family<dual_batch_4>("dual_batch_4"),
                                                   family<three_stage_keeps_b>("three_stage_keeps_b"),
                                                   family<three_stage>("three_stage"),
                                                   family<three_stage_try>("three_stage_try"),
                                                   family<partitioned_ticket>("partitioned_ticket"),
                                                   family<anderson>("anderson"),
                                                   family<awn>("awn")}),
    [](const testing::TestParamInfo<family_of_locks>& info) { return std::string(info.param.name); });

void goes_on(any_lock lock, int rounds) {
  EXPECT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  long counter = 0;
  test::in_threads(4, [&](unsigned) {
    for (int i = 0; i < rounds; i++) {
      lock.lock();
      counter++;
      // Some holds are so long that the other threads sleep.
      if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      lock.unlock();
    }
  });
  EXPECT_EQ(counter, 4 * rounds);
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST_P(counting, goes_on_over_the_wrap) {
  // The counters begin 20 below the value at which they wrap (2^32, 2^31, 2^16 or 2^15), so that there are waiters on
  // both sides of the wrap.
  goes_on(GetParam().plain(~std::uint32_t{20}), 500);
  goes_on(GetParam().parking(~std::uint32_t{20}), 500);
  goes_on(GetParam().spinning(~std::uint32_t{20}), 40);
  goes_on(GetParam().parking((std::uint32_t{1} << 31) - 20), 200);
}

TEST_P(counting, few_slots_do_not_matter) {
  if (GetParam().small == nullptr) return;
  any_lock small = GetParam().small();
  long counter = 0;
  test::in_threads(8, [&](unsigned) {
    for (int i = 0; i < 300; i++) {
      small.lock();
      counter++;
      small.unlock();
    }
  });
  EXPECT_EQ(counter, 2400);
}

// ---- the tests of every_lock_test for large locks

class large : public testing::TestWithParam<named_lock> {};
INSTANTIATE_TEST_SUITE_P(large_locks, large,
                         testing::ValuesIn(std::vector<named_lock>{
                             {"tkt_dual", any_lock::make<tkt_dual<native, stp>>},
                             {"tkt_dual_park", any_lock::make<tkt_dual<native, park>>},
                             {"partitioned_ticket", any_lock::make<partitioned_ticket<native, stp>>},
                             {"partitioned_ticket_park", any_lock::make<partitioned_ticket<native, park>>},
                             {"anderson", any_lock::make<anderson<native, stp>>},
                             {"anderson_park", any_lock::make<anderson<native, park>>},
                             {"awn", any_lock::make<awn<native, stp>>},
                             {"awn_park", any_lock::make<awn<native, park>>},
                             {"twa_private", any_lock::make<twa_private<native, stp>>},
                             {"twa_private_park", any_lock::make<twa_private<native, park>>},
                             {"awn_4_park", any_lock::make<basic_awn<native, park, 4>>},
                         }),
                         test::name_of);

TEST_P(large, serves_in_order_of_arrival_and_wakes_sleepers) {
  any_lock lock = GetParam().make();
  EXPECT_EQ(test::admission_order(lock, 9), (std::vector<unsigned>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST_P(large, excludes_with_try_lock_among_lock) {
  any_lock lock = GetParam().make();
  long counter = 0, tried = 0;
  test::in_threads(5, [&](unsigned me) {
    for (long i = 0; i < 1000; i++) {
      if (me == 0) {
        if (!lock.try_lock()) continue;
        tried++;
      } else {
        lock.lock();
      }
      counter++;
      lock.unlock();
    }
  });
  EXPECT_EQ(counter, tried + 4000);
}

TEST_P(large, may_be_unlocked_by_another_thread) {
  any_lock lock = GetParam().make();
  for (int i = 0; i < 20; i++) {
    lock.lock();
    std::jthread([&] { lock.unlock(); }).join();
  }
  EXPECT_TRUE(lock.try_lock());
}

TEST_P(large, memory_may_be_reused_by_the_next_owner) {
  for (int i = 0; i < 100; i++) {
    any_lock lock = GetParam().make();
    lock.lock();
    std::jthread last([lock]() mutable {
      lock.lock();
      std::memset(lock.address(), 0x5a, lock.size());
    });
    lock.unlock();
    last.join();
  }
}

}  // namespace
}  // namespace usher
