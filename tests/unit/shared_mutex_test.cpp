// Read-write locks: the standard's interface, sharing, phase fairness, recursive readers, deadlines, upgrades, forks,
// wrapping numbers, visible readers. Each kind of lock runs with several writers' locks and ways of waiting.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <type_traits>

#include "team.hpp"
#include "usher/locks/clh.hpp"
#include "usher/locks/fairlock.hpp"
#include "usher/locks/futex.hpp"
#include "usher/locks/loiter.hpp"
#include "usher/locks/mcs.hpp"
#include "usher/locks/mcscr.hpp"
#include "usher/locks/ticket.hpp"
#include "usher/locks/ttas.hpp"
#include "usher/locks/twa.hpp"
#include "usher/shared_mutex.hpp"
#include "waiters.hpp"

namespace usher {
namespace {

using namespace std::chrono_literals;
using test::asleep_in;
using test::eventually;
using test::in_threads;

constexpr auto recursive = reader_rule::recursive;
constexpr auto sp = waiting_kind::spin_then_park;

template <class Lock>
struct read_write : testing::Test {
  Lock lock;
};
using every_lock = testing::Types<
    shared_timed_mutex<>, shared_timed_mutex<bravo>, shared_timed_mutex<phase_fair, steady, sp, recursive>,
    shared_timed_mutex<bravo, steady, sp, recursive>, shared_timed_mutex<phase_fair, ticket, waiting_kind::park>,
    shared_timed_mutex<bravo, ticket, waiting_kind::park>, shared_timed_mutex<phase_fair, mcs, waiting_kind::spin>,
    shared_timed_mutex<bravo, mcs, waiting_kind::yield_then_park>, shared_timed_mutex<phase_fair, twa>,
    shared_timed_mutex<phase_fair, clh>, shared_timed_mutex<phase_fair, loiter>, shared_timed_mutex<phase_fair, mcscr>,
    shared_timed_mutex<phase_fair, futex>, shared_timed_mutex<phase_fair, ttas>,
    shared_timed_mutex<phase_fair, fairlock>>;
TYPED_TEST_SUITE(read_write, every_lock);

/// The number of threads: under a lock whose waiters keep their CPUs, at most two.
template <class Lock>
constexpr unsigned crowd = 0;
template <template <class, class, template <class, class> class, reader_rule> class Lock,
          template <class, class> class Writers, waiting_kind Kind, reader_rule Rule>
constexpr unsigned crowd<shared_timed_mutex<Lock, Writers, Kind, Rule>> = way_of(Kind).wants_cpu ? 2 : 4;

static_assert(std::is_trivially_destructible_v<shared_mutex<>> && sizeof(shared_mutex<>) <= 40);
static_assert(sizeof(shared_mutex<bravo>) == sizeof(shared_mutex<>));
constinit shared_timed_mutex<bravo> global;

TYPED_TEST(read_write, writers_exclude_all_and_readers_share) {
  auto& m = this->lock;
  std::uint64_t first = 0, second = 0, written = 0;  // plain: ThreadSanitizer checks them
  std::atomic<std::uint64_t> writes = 0;
  in_threads(crowd<TypeParam>, [&](unsigned t) {
    for (unsigned i = 0; i < 400; i++) {
      if ((i + t) % 5 == 0) {
        const std::unique_lock guard(m);
        first++;
        if (i % 40 == 0) std::this_thread::yield();
        second++;
        written++;
        writes++;
      } else {
        const std::shared_lock guard(m);
        const std::uint64_t seen = first;
        if (i % 40 == 1) std::this_thread::yield();
        EXPECT_EQ(second, seen);
      }
    }
  });
  EXPECT_EQ(written, writes);
  EXPECT_TRUE(m.try_lock());
  m.unlock();
}

/// Two counters that every writer increments together. They are plain, so that ThreadSanitizer checks them.
struct two_counters {
  std::uint64_t first = 0, second = 0;

  void change() {
    first++;
    std::this_thread::yield();
    second++;
  }
  void look() const {
    const std::uint64_t seen = first;
    std::this_thread::yield();
    EXPECT_EQ(second, seen);
  }
};

/// Locks in one of eight ways, accesses the counters, and unlocks. `time` is the time limit in those ways that have
/// one.
template <class Lock>
void access_by(unsigned way, Lock& m, two_counters& data, std::chrono::microseconds time) {
  switch (way) {
    case 0:
      if (m.try_lock()) data.change(), m.unlock();
      break;
    case 1:
      if (m.try_lock_for(time)) data.change(), m.unlock();
      break;
    case 2:
      if (m.try_lock_shared()) data.look(), m.unlock_shared();
      break;
    case 3:
      if (m.try_lock_shared_for(time)) data.look(), m.unlock_shared();
      break;
    case 4:
      m.lock_shared();
      data.look();
      if (m.try_upgrade())
        data.change(), m.unlock();
      else
        data.look(), m.unlock_shared();
      break;
    case 5:
      m.lock();
      data.change();
      m.unlock_and_lock_shared();
      data.look();
      m.unlock_shared();
      break;
    case 6:
      m.lock();
      data.change();
      m.unlock();
      break;
    default:
      m.lock_shared();
      data.look();
      m.unlock_shared();
  }
}

TYPED_TEST(read_write, every_operation_beside_every_other) {
  auto& m = this->lock;
  two_counters data;
  in_threads(crowd<TypeParam>, [&](unsigned t) {
    std::uint32_t x = t * 7919 + 1;
    for (unsigned i = 0; i < 150; i++) {
      x = x * 1664525 + 1013904223;
      access_by(x >> 24 & 7, m, data, std::chrono::microseconds(x >> 8 & 255));
    }
  });
  EXPECT_EQ(data.first, data.second);
  EXPECT_TRUE(m.try_lock());
  m.unlock();
}

TYPED_TEST(read_write, all_readers_are_inside_at_once) {
  auto& m = this->lock;
  constexpr unsigned n = 5;
  std::atomic<unsigned> inside = 0;
  in_threads(n, [&](unsigned) {
    const std::shared_lock guard(m);
    inside++;
    EXPECT_TRUE(eventually([&] { return inside == n; }));
  });
}

TYPED_TEST(read_write, attempts_fail_beside_an_owner) {
  auto& m = this->lock;
  const auto elsewhere = [](auto f) {
    bool result = false;
    std::jthread([&] { result = f(); }).join();
    return result;
  };
  m.lock();
  EXPECT_FALSE(elsewhere([&] { return m.try_lock(); }));
  EXPECT_FALSE(elsewhere([&] { return m.try_lock_shared(); }));
  EXPECT_FALSE(elsewhere([&] { return m.try_lock_for(2ms); }));
  EXPECT_FALSE(elsewhere([&] { return m.try_lock_shared_for(2ms); }));
  EXPECT_FALSE(elsewhere([&] { return m.try_lock_shared_until(std::chrono::system_clock::now()); }));
  m.unlock();
  m.lock_shared();
  EXPECT_FALSE(elsewhere([&] { return m.try_lock(); }));
  EXPECT_FALSE(elsewhere([&] { return m.try_lock_for(2ms); }));
  EXPECT_TRUE(elsewhere([&] { return m.try_lock_shared() && (m.unlock_shared(), true); }));
  EXPECT_TRUE(elsewhere([&] { return m.try_lock_shared_for(1h) && (m.unlock_shared(), true); }));
  m.unlock_shared();
  // a writer may lock after another writer gave up
  EXPECT_TRUE(elsewhere([&] { return m.try_lock() && (m.unlock(), true); }));
  EXPECT_TRUE(elsewhere([&] { return m.try_lock_for(1h) && (m.unlock(), true); }));
}

TYPED_TEST(read_write, only_the_only_reader_becomes_the_writer) {
  auto& m = this->lock;
  for (int i = 0; i < 40; i++) {  // so many rounds that `bravo` is tested with and without its bias to readers
    m.lock_shared();
    EXPECT_TRUE(m.try_upgrade());
    EXPECT_FALSE(m.try_lock_shared());
    m.unlock_and_lock_shared();
    std::jthread([&] {
      m.lock_shared();
      EXPECT_FALSE(m.try_upgrade());
      m.unlock_shared();
    }).join();
    EXPECT_TRUE(m.try_upgrade());
    m.unlock();
  }
}

TYPED_TEST(read_write, a_waiting_writer_gets_in_between_readers) {
  auto& m = this->lock;
  std::atomic<bool> over = false;
  std::atomic<unsigned> entered = 0;
  std::vector<std::jthread> readers;
  for (unsigned i = 0; i < crowd<TypeParam> / 2; i++)
    readers.emplace_back([&] {
      while (!over) {
        const std::shared_lock guard(m);
        entered++;
      }
    });
  EXPECT_TRUE(eventually([&] { return entered > 100; }));
  for (int i = 0; i < 20; i++) {
    m.lock();
    m.unlock();
  }
  over = true;
}

TYPED_TEST(read_write, a_waiting_reader_gets_in_between_writers) {
  auto& m = this->lock;
  std::atomic<bool> over = false;
  std::atomic<unsigned> entered = 0;
  std::vector<std::jthread> writers;
  for (unsigned i = 0; i < crowd<TypeParam> / 2; i++)
    writers.emplace_back([&] {
      while (!over) {
        const std::unique_lock guard(m);
        entered++;
      }
    });
  EXPECT_TRUE(eventually([&] { return entered > 100; }));
  for (int i = 0; i < 20; i++) {
    m.lock_shared();
    m.unlock_shared();
  }
  over = true;
}

// ---- phases -----------------------------------------------------------------------------------------------------

/// Starts a writer, and returns when it waits behind a reader: it has claimed the lock, or is in the queue. This
/// function does not wait until the writer sleeps: since Linux 6.18 a thread that has yielded while it polled may get
/// no CPU for seconds, if other programs use the CPUs. The thread ends when the writer has unlocked.
template <class Lock>
std::jthread waiting_writer(Lock& m, std::atomic<int>& done) {
  std::jthread writer([&] {
    m.lock();
    done++;
    m.unlock();
  });
  constexpr std::uint32_t writing = 1, queue = 1 << 6;  // read_write_core.hpp
  EXPECT_TRUE(eventually([&] { return (test::word(m, 0) & (writing | queue)) != 0; }));
  return writer;
}

TEST(phase_fair, a_reader_waits_behind_a_waiting_writer) {
  shared_mutex<phase_fair, ticket, waiting_kind::park> m;
  std::atomic<int> writes = 0;
  m.lock_shared();
  std::jthread writer = waiting_writer(m, writes);
  std::jthread reader = asleep_in([&] {
    const std::shared_lock guard(m);
    EXPECT_EQ(writes, 1);
  });
  EXPECT_EQ(writes, 0);
  m.unlock_shared();
}

/// The test simulates a reader that has been counted and then does not run: it adds the reader's arrival to the first
/// word, and later the reader's exit to the second word.
TEST(phase_fair, writers_that_give_up_do_not_bring_a_phase_back) {
  shared_timed_mutex<phase_fair, ticket, waiting_kind::park> m;
  auto* const words = reinterpret_cast<std::atomic<std::uint32_t>*>(&m);
  constexpr std::uint32_t writing_and_phase = 63, one = 1 << 9;  // read_write_core.hpp
  m.lock();
  const std::uint32_t seen = words[0].fetch_add(one) & writing_and_phase;
  m.unlock();
  for (int i = 0; i < 31; i++) EXPECT_FALSE(m.try_lock_for(0ns));
  std::atomic<int> writes = 0;
  std::jthread writer = waiting_writer(m, writes);
  // the phase has changed, so a reader that waits for the change passes
  EXPECT_TRUE(eventually([&] { return (words[0] & writing_and_phase) != seen; }));
  EXPECT_EQ(writes, 0);
  words[1].fetch_add(one);
  if (::testing::Test::HasFailure()) _exit(1);  // the writer would sleep for ever, and join() with it
  writer.join();
  EXPECT_EQ(writes, 1);
  // The count of writers that gave up is 0 again, so the next writer waits for the readers inside, without the windows
  // in which waiting readers pass (read_write_core.hpp).
  EXPECT_EQ(words[2], 0u);
}

/// While a writer waits, a thread that has locked for reading locks for reading again, many times.
template <class Lock>
void nests(Lock& m) {
  std::atomic<int> writes = 0;
  for (int i = 0; i < 3; i++) {
    m.lock_shared();
    std::jthread writer = waiting_writer(m, writes);
    m.lock_shared();
    m.lock_shared();
    EXPECT_EQ(writes, i);
    m.unlock_shared();
    m.unlock_shared();
    m.unlock_shared();
    writer.join();
    EXPECT_EQ(writes, i + 1);
  }
}

/// A reader that holds the lock waits for a mutex. The mutex's owner locks for reading while a writer waits.
template <class Lock>
void is_linked_by_a_mutex(Lock& m) {
  std::atomic<int> writes = 0;
  std::mutex other;
  m.lock_shared();
  other.lock();
  std::jthread second([&] {
    m.lock_shared();
    const std::unique_lock guard(other);
    m.unlock_shared();
  });
  std::jthread writer = waiting_writer(m, writes);
  m.lock_shared();  // with `other` held
  m.unlock_shared();
  other.unlock();
  second.join();
  m.unlock_shared();
  writer.join();
  EXPECT_EQ(writes, 1);
}

template <class Lock>
struct recursive_readers : testing::Test {
  Lock lock;
};
template <template <class, class, template <class, class> class, reader_rule> class Lock, waiting_kind Kind>
using nesting = shared_mutex<Lock, steady, Kind, recursive>;
using every_recursive_lock =
    testing::Types<nesting<phase_fair, sp>, nesting<phase_fair, waiting_kind::park>,
                   nesting<phase_fair, waiting_kind::yield_then_park>, nesting<bravo, sp>,
                   nesting<bravo, waiting_kind::park>, nesting<bravo, waiting_kind::yield_then_park>>;
TYPED_TEST_SUITE(recursive_readers, every_recursive_lock);
TYPED_TEST(recursive_readers, nest) {
  nests(this->lock);
}
TYPED_TEST(recursive_readers, are_linked_by_a_mutex) {
  is_linked_by_a_mutex(this->lock);
}

// ---- words ------------------------------------------------------------------------------------------------------

TYPED_TEST(read_write, numbers_wrap) {
  typename TypeParam::lock_type m;
  for (const std::uint32_t begin : {0x7ffffeu, 0xfdu, 0x7fffffu}) {
    m.count_from(begin);
    std::uint64_t value = 0;
    in_threads(crowd<TypeParam> == 2 ? 2 : 3, [&](unsigned) {
      for (int i = 0; i < 20; i++) {
        m.lock_shared();
        m.unlock_shared();
        m.lock();
        value++;
        m.unlock();
      }
    });
    EXPECT_EQ(value, crowd<TypeParam> == 2 ? 40u : 60u);
    EXPECT_TRUE(m.is_idle());
  }
}

TYPED_TEST(read_write, a_child_renews_what_others_held) {
  typename TypeParam::lock_type m;
  // During the fork this thread and another one hold the lock for reading.
  std::atomic<bool> held = false, over = false;
  std::thread other([&] {
    for (int i = 0; i < 20; i++) m.lock_shared(), m.unlock_shared();  // lets `bravo` become biased
    m.lock_shared();
    held = true;
    EXPECT_TRUE(eventually([&] { return over.load(); }));
    m.unlock_shared();
  });
  EXPECT_TRUE(eventually([&] { return held.load(); }));
  m.lock_shared();
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    m.renew(1, false);
    const bool alone = !m.is_idle() && m.try_upgrade();
    if (alone) m.unlock();
    m.lock();
    m.unlock();
    _exit(alone && m.is_idle() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  m.unlock_shared();
  over = true;
  other.join();
}

// ---- visible readers --------------------------------------------------------------------------------------------

/// The number of readers' exits that the lock has counted in its second word (read_write_core.hpp). A reader in a slot
/// is not counted.
template <class Lock>
std::uint32_t exits(const Lock& m) {
  return test::word(m, 1) / 512;
}

TEST(visible_readers, pause_for_nine_times_the_search_and_at_most_69_seconds) {
  using pause = bias_pause;
  const std::uint32_t long_search = 1u << 30;
  for (const std::uint32_t begin : {0u, 1000u, ~0u - 5, ~0u - 50, 1u << 31}) {
    const std::uint32_t end = begin + 10, until = pause::after(begin, end);
    EXPECT_NE(until, 0u);
    EXPECT_TRUE(pause::lasts(until, end)) << begin;
    EXPECT_TRUE(pause::lasts(until, end + 97)) << begin;
    EXPECT_FALSE(pause::lasts(until, end + 100)) << begin;
    EXPECT_FALSE(pause::lasts(until, end + (1u << 31))) << "36 minutes later, " << begin;
    EXPECT_FALSE(pause::lasts(until, end + (3u << 30))) << "55 minutes later, " << begin;
    EXPECT_FALSE(pause::lasts(pause::after(begin, begin + long_search), begin + long_search + pause::longest + 1))
        << begin;
    EXPECT_TRUE(pause::lasts(pause::after(begin, begin + long_search), begin + long_search + pause::longest - 1))
        << begin;
  }
}

TEST(visible_readers, write_to_no_shared_word_until_a_writer_comes) {
  auto& m = global;
  for (int i = 0; i < 100; i++) m.lock_shared(), m.unlock_shared();
  const std::uint32_t before = exits(m);
  EXPECT_LT(before, 50u);
  for (int i = 0; i < 100; i++) m.lock_shared(), m.unlock_shared();
  EXPECT_EQ(exits(m), before);
  m.lock();  // revokes the bias to readers
  m.unlock();
  m.lock_shared();
  m.unlock_shared();
  EXPECT_EQ(exits(m), before + 1);
}

TEST(visible_readers, are_waited_for) {
  auto& m = global;
  EXPECT_TRUE(eventually([&] {  // repeats, because readers use no slots for a while after a writer
    const std::uint32_t before = exits(m);
    m.lock_shared();
    m.unlock_shared();
    return exits(m) == before;
  }));
  const std::uint32_t before = exits(m);
  std::atomic<bool> written = false;
  m.lock_shared();
  EXPECT_FALSE(m.try_lock());
  EXPECT_FALSE(m.try_lock_for(2ms));
  std::jthread writer = asleep_in([&] {
    m.lock();
    written = true;
    m.unlock();
  });
  EXPECT_FALSE(written);
  m.unlock_shared();
  writer.join();
  EXPECT_TRUE(written);
  EXPECT_EQ(exits(m), before + 1);  // the writer has moved the reader from its slot to the lock's count
}

/// Returns the slot of the process's table of visible readers that contains the lock's id; null if no slot does.
std::atomic<std::uint64_t>* slot_of(const void* m) {
  auto* const slots = native::visible_readers();
  for (std::uint32_t i = 0; slots != nullptr && i < native::visible_slots; i++)
    if (slots[i] == native::lock_id(m)) return &slots[i];
  return nullptr;
}

/// Locks for reading, again until the reader is registered in a slot and not in the lock's own words.
template <class Lock>
void lock_visibly(Lock& m) {
  EXPECT_TRUE(eventually([&] {
    m.lock_shared();
    if (slot_of(&m) != nullptr) return true;
    m.unlock_shared();
    return false;
  }));
}

/// A writer moves a reader from its slot to the lock's count, so that a reader of another lock may take the slot. When
/// the first reader unlocks, by any thread, the writer gets the lock.
TEST(visible_readers, leave_their_slot_to_others_when_a_writer_comes) {
  shared_mutex<bravo, ticket, waiting_kind::park> m;
  lock_visibly(m);
  auto* const slot = slot_of(&m);
  ASSERT_NE(slot, nullptr);
  std::jthread writer = asleep_in([&] {
    m.lock();
    m.unlock();
  });
  EXPECT_EQ(slot->load(), 0u);
  slot->store(native::lock_id(&m) + 1024);
  EXPECT_FALSE(m.try_lock());
  std::jthread([&] { m.unlock_shared(); }).join();
  writer.join();
  EXPECT_TRUE(m.try_lock());
  m.unlock();
  EXPECT_EQ(slot->exchange(0), native::lock_id(&m) + 1024);
}

/// The child of a fork constructs a lock anew that another thread of its parent held for reading: the lock is then
/// free. A lock that the forking thread itself holds stays held in the child.
TEST(visible_readers, of_other_threads_do_not_exist_in_a_child) {
  shared_timed_mutex<bravo> own, others, *const theirs = &others;
  std::atomic<bool> held = false, over = false;
  lock_visibly(own);
  std::jthread other([&] {
    lock_visibly(*theirs);
    held = true;
    EXPECT_TRUE(eventually([&] { return over.load(); }));
    theirs->unlock_shared();
  });
  EXPECT_TRUE(eventually([&] { return held.load(); }));
  // In 1 run of 4096 the hash gives both threads the same slot for the lock. The child then cannot tell them apart, so
  // the test does not fork.
  const std::uint32_t mine = visible_slot_of<native::visible_slots>(native::reader_tag(), native::salt(theirs));
  const bool told_apart = slot_of(theirs) != native::visible_readers() + mine;
  const pid_t child = told_apart ? fork() : -1;
  if (child == 0) {
    alarm(30);
    auto* const anew = ::new (theirs) shared_timed_mutex<bravo>;
    for (int i = 0; i < 40; i++) anew->lock_shared(), anew->unlock_shared();  // lets it become biased
    anew->lock();
    anew->unlock();
    if (slot_of(&own) == nullptr || own.try_lock()) _exit(1);
    own.unlock_shared();
    own.lock();
    own.unlock();
    _exit(slot_of(&own) == nullptr ? 0 : 1);
  }
  int status = told_apart ? -1 : 0;
  if (told_apart) {
    EXPECT_EQ(waitpid(child, &status, 0), child);
  }
  EXPECT_EQ(status, 0);
  EXPECT_NE(slot_of(theirs), nullptr);
  over = true;
  other.join();
  own.unlock_shared();
}

}  // namespace
}  // namespace usher
