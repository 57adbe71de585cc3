// Tests the guarantees of locks about order and progress as far as a deterministic test can. First: the guarantees of a
// lock agree with each other. Second: a thread makes progress whatever other threads do. For this a script plays the
// worst case: it changes the lock's words before each operation of the thread, so that every compare-and-swap that
// expects a loaded value fails.
#include <utility>

#include <gtest/gtest.h>

#include "scripted.hpp"
#include "usher/catalog.hpp"
#include "usher/core/inflatable.hpp"
#include "usher/locks/clh.hpp"
#include "usher/locks/fairlock.hpp"
#include "usher/locks/fairlock_wide.hpp"
#include "usher/locks/k42.hpp"
#include "usher/locks/loiter.hpp"
#include "usher/locks/loiter_cohort.hpp"
#include "usher/locks/loiter_variants.hpp"
#include "usher/locks/steady.hpp"
#include "usher/locks/ticket.hpp"
#include "usher/locks/ticket32.hpp"
#include "usher/locks/twa.hpp"
#include "usher/locks/twa_chain.hpp"
#include "waiters.hpp"

namespace usher {
namespace {

using test::actor;
using test::done;
using test::history;
using test::scripted;
using by_script = waiting<scripted, waiting_kind::spin>;
using parks_by_script = waiting<scripted, waiting_kind::park>;

// ---- the promises agree

TEST(promises, agree_with_each_other) {
  for (const lock_table* l : catalog()) {
    const lock_traits& t = *l->traits;
    SCOPED_TRACE(l->name);
    EXPECT_EQ(t.fifo, t.bypass == 0) << "a lock is FIFO exactly if no thread overtakes";
    EXPECT_GE(t.bypass, unbounded);
    if (t.fifo || t.bypass != unbounded) {
      EXPECT_TRUE(t.starvation_free) << "a bound on bypass implies that no thread starves";
    }
    if (t.bounded_doorway) {
      EXPECT_TRUE(t.starvation_free) << "a bounded doorway implies that no thread starves";
    }
    if (!t.excludes || t.native_only) {
      EXPECT_FALSE(t.starvation_free || t.fifo) << "this lock can promise neither";
    }
    if (!t.native_only && l->size < t.words * 4) {
      EXPECT_FALSE(t.bounded_doorway) << "the inflatable form's doorway is reached by compare-and-swaps";
    }
  }
}

// ---- the number of operations before the doorway is passed

constexpr unsigned many = 200;

/// An actor (a scripted thread) arrives at a held lock. Before each of the actor's operations the script releases or
/// acquires the lock. If the script can do neither, the actor has passed its doorway (it has its place in the order) or
/// owns the lock. If the actor pauses, the script makes two changes: the actor then finds the value that it read
/// before, and another value when it writes. Returns the number of the actor's operations, or `many` if it never passes
/// the doorway.
template <class Lock>
unsigned operations_to_doorway() {
  Lock l{};
  l.lock();
  bool held = true;
  const auto can_change = [&] {
    if (!held) return held = l.try_lock();
    l.unlock();
    held = false;
    return true;
  };
  actor a;
  a.start([&] { l.lock(); });
  for (unsigned n = 0; n < many; n++) {
    if (!can_change() || (a.waits() && !can_change())) return n;
    a.step();
    if (a.ended()) return n + 1;
  }
  return many;
}

template <class Lock>
void doorway_is_as_promised() {
  const unsigned n = operations_to_doorway<Lock>();
  if (Lock::traits.bounded_doorway)
    EXPECT_LT(n, 20u);
  else
    EXPECT_EQ(n, many) << Lock::traits.summary << ": the doorway is bounded, and the traits may promise that";
}

TEST(doorway, of_fetch_and_add_is_bounded) {
  doorway_is_as_promised<ticket<scripted, by_script>>();
  doorway_is_as_promised<ticket32<scripted, by_script>>();
  doorway_is_as_promised<twa<scripted, by_script>>();
}

TEST(doorway, of_exchange_is_bounded) {
  doorway_is_as_promised<clh<scripted, by_script>>();
}

TEST(doorway, of_fairlock_wide_is_bounded) {
  doorway_is_as_promised<basic_fairlock_wide<scripted, by_script, 512, 2>>();
}

TEST(doorway, of_compare_and_swap_is_not_bounded) {
  doorway_is_as_promised<k42<scripted, by_script>>();
  doorway_is_as_promised<fairlock<scripted, by_script>>();
}

// ---- behind the doorway

/// A clock that advances by a millisecond each time it is read.
struct hours : scripted {
  static std::uint64_t now() { return clock += 1000000; }
  static inline std::uint64_t clock = 0;
};

template <class Lock>
void standby_gets_the_lock() {
  EXPECT_LT(operations_to_doorway<Lock>(), 40u) << "the standby cannot mark itself impatient";
}

TEST(behind_the_doorway, loiters_standby_says_that_it_is_impatient) {
  using parks = waiting<hours, waiting_kind::park>;
  standby_gets_the_lock<loiter<hours, parks>>();
  standby_gets_the_lock<loiter<hours, waiting<hours, waiting_kind::spin>>>();
  standby_gets_the_lock<loiter_eager<hours, parks>>();
  standby_gets_the_lock<loiter_numa<hours, parks>>();
  standby_gets_the_lock<loiter_cohort<hours, parks>>();
}

TEST(behind_the_doorway, steadys_standby_says_that_it_is_impatient) {
  standby_gets_the_lock<steady<hours, waiting<hours, waiting_kind::park>>>();
  standby_gets_the_lock<steady<hours, waiting<hours, waiting_kind::spin>>>();
}

// ---- the bound of steady

constexpr std::uint64_t microsecond = 1000, ask_after = 1000 * microsecond, hand_off_after = 4000 * microsecond;
constexpr std::uint32_t asleep = 4, impatient = 8, handed = 16;  // the bits of the first word, as in the header

/// A clock that advances by `look` nanoseconds each time it is read. Also counts the sleeps of the standby (the first
/// waiter in the queue).
struct watched : scripted {
  static inline std::uint64_t clock = 0, look = 0;
  static inline unsigned slept = 0, slept_impatient = 0;  ///< sleeps with a time limit
  static std::uint64_t now() { return clock += look; }
  template <class Word>
  static void park_for(const Word& word, std::uint32_t seen, std::uint32_t mask, std::uint64_t) {
    slept++;
    slept_impatient += (seen & impatient) != 0 ? 1 : 0;
    park(word, seen, mask);
  }
};
using steady_by_script = steady<watched, waiting<watched, waiting_kind::park>>;

/// A random schedule, which is a worst case for a standby (the first waiter in the queue). Before each of its
/// operations the script releases the lock, acquires it, or leaves it alone. If the standby has just read that the lock
/// is free, the script acquires the lock first. While the standby is awake, the script never hands the lock over to it.
struct barging {
  steady_by_script lock{};
  actor standby;
  bool held = true;
  unsigned admitted = 0;  ///< admissions of other threads
  std::uint32_t chance;

  explicit barging(std::uint32_t seed) : chance(seed * 2654435761u) {
    lock.lock();
    standby.start([this] { lock.lock(); });
    standby.run();  // until it sleeps
  }
  ~barging() {  // ends the standby's call of lock(), so that its node is given back
    while (!standby.ended()) {
      if (held) change();
      standby.step();
    }
    lock.unlock();
  }
  void change() {
    // Stops the clock, so that the script never waits for 2 ms: after that time another thread may take back a lock
    // that was handed over and not taken up.
    const std::uint64_t look = std::exchange(watched::look, 0);
    if (held) {
      lock.unlock();
      held = false;
    } else if (lock.try_lock()) {
      held = true;
      admitted++;
    }
    watched::look = look;
  }
  void step() {
    const bool saw_it_free = !held && history.back().actor == standby.number() && history.back().what == done::load;
    chance = chance * 1664525 + 1013904223;
    for (unsigned n = chance >> 30; n != 0 && !asks(); n--) change();
    if (saw_it_free && !held) change();
    standby.step();
  }
  /// Returns whether the lock is held and the standby, which is awake, has marked the lock's word, so that the next
  /// unlock hands the lock over. The script does not unlock in this state.
  bool asks() const { return held && is_marked(impatient) && !standby.waits(); }
  bool is_marked(std::uint32_t marks) const { return (test::word(lock, 0) & marks) != 0; }
};

TEST(steady_bound, a_standby_is_passed_over_only_until_it_has_waited_for_4_ms) {
  unsigned due_ones = 0;
  for (const std::uint64_t look : {100 * microsecond, 300 * microsecond, 2000 * microsecond})
    for (std::uint32_t seed = 1; seed <= 50; seed++) {
      watched::clock = 0;
      watched::look = look;
      barging b(seed);
      const std::uint64_t due = hand_off_after + 4 * look;  // the clock is read before the waiter is the standby
      while (!b.standby.ended() && watched::clock < due) b.step();
      due_ones += b.standby.ended() ? 0 : 1;
      b.admitted = 0;
      unsigned steps = 0;
      while (!b.standby.ended() && steps < 100) b.step(), steps++;
      EXPECT_LE(steps, 12u) << "seed " << seed;
      EXPECT_LE(b.admitted, 12u) << "seed " << seed;
    }
  EXPECT_GT(due_ones, 10u) << "the schedule is not adverse enough";
}

TEST(steady_bound, who_holds_when_a_due_standby_has_said_so_is_the_last_before_it) {
  unsigned due_ones = 0;
  for (std::uint32_t seed = 1; seed <= 100; seed++) {
    watched::clock = 0;
    watched::look = 5000 * microsecond;  // with so fast a clock the standby has waited for 4 ms when it wakes
    barging b(seed);
    while (!b.standby.ended() && !b.is_marked(impatient)) b.step();
    if (b.standby.ended() || b.is_marked(handed)) continue;
    due_ones++;
    b.admitted = 0;
    if (!b.held) b.change();
    b.change();  // an unlock
    b.change();  // the next arrival or unlock
    EXPECT_TRUE(b.is_marked(handed)) << "seed " << seed;
    EXPECT_LE(b.admitted, 1u) << "seed " << seed;
    for (int i = 0; i < 20 && !b.standby.ended(); i++) b.standby.step();
    EXPECT_TRUE(b.standby.ended()) << "seed " << seed;
  }
  EXPECT_GT(due_ones, 10u) << "the schedule is not adverse enough";
}

TEST(steady_bound, an_awake_standby_asks_after_1_ms) {
  watched::clock = 0;
  watched::look = 10 * microsecond;
  barging b(1);
  EXPECT_TRUE(b.is_marked(asleep));
  EXPECT_FALSE(b.is_marked(impatient));
  watched::clock = ask_after + 100 * microsecond;
  for (int i = 0; i < 20 && !b.is_marked(impatient); i++) b.standby.step();
  EXPECT_TRUE(b.is_marked(impatient));
  b.change();
  EXPECT_TRUE(b.is_marked(handed));
  for (int i = 0; i < 20 && !b.standby.ended(); i++) b.standby.step();
  EXPECT_TRUE(b.standby.ended());
  EXPECT_LT(watched::clock, hand_off_after);
}

TEST(steady_bound, the_lock_is_not_handed_to_one_that_sleeps_before_4_ms) {
  watched::slept = watched::slept_impatient = 0;
  for (std::uint32_t seed = 1; seed <= 300; seed++) {
    watched::clock = 0;
    watched::look = 100 * microsecond;
    barging b(seed);
    for (int i = 0; i < 1000 && !b.standby.ended(); i++) b.step();
    EXPECT_TRUE(b.standby.ended()) << "seed " << seed;
  }
  EXPECT_GT(watched::slept, 300u);
  EXPECT_EQ(watched::slept_impatient, 0u);
}

/// Two actors (scripted threads) wait for a lock that the script owns. The second actor tries to register in a slot of
/// the waiting array, but threads of other locks change the slot before each of its operations. Meanwhile the first
/// actor acquires the lock. The second actor must notice that it is next.
template <class Lock, class Tag, class Change>
void leaves_the_array(Change change) {
  auto& slot = scripted::table<Tag>()[waiting_array::hash(2 * ticket_words::one, 0) & (Tag::size - 1)];
  Lock l{};
  l.lock();
  actor first, second;
  first.start([&] { l.lock(); });
  first.run();
  second.start([&] { l.lock(); });
  for (int i = 0; i < 12; i++) change(slot), second.step();
  l.unlock();
  while (!first.ended()) first.run();
  for (int i = 0; i < 40; i++) change(slot), second.step();
  l.unlock();
  for (int i = 0; i < 40 && !second.ended(); i++) change(slot), second.step();
  EXPECT_TRUE(second.ended()) << "the thread owns the lock but does not look at it";
}

TEST(behind_the_doorway, twas_waiters_look_at_the_lock_however_busy_their_slot_is) {
  leaves_the_array<twa<scripted, parks_by_script>, twa_array>([](auto& slot) {
    slot.store((slot.peek() & ~(waiting_array::watched | waiting_array::sleeping)) + waiting_array::notice);
  });
}

TEST(behind_the_doorway, twa_chains_waiters_look_at_the_lock_however_busy_their_slot_is) {
  // Before each operation the slot gets another node. With 11 nodes no value of the slot repeats between two of the
  // actor's reads.
  std::vector<node_handle> others(11);
  for (node_handle& h : others) h = scripted::take_node(), prepare<scripted>(h);
  unsigned turn = 0;
  leaves_the_array<twa_chain<scripted, by_script>, twa_chain_array>(
      [&](auto& slot) { slot.store(others[turn++ % others.size()]); });
  for (const node_handle h : others) scripted::give_node(h);
}

}  // namespace
}  // namespace usher
