// Variants of locks that the papers name in a sentence: k42-stack.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "usher/locks/k42_stack.hpp"
#include "usher/mutex.hpp"
#include "usher/platform/native.hpp"
#include "waiters.hpp"

namespace usher {
namespace {

using test::admission_order;
using test::word;

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

/// A thread that has waited holds the lock, its call of lock() has returned, and its node has ended: the lock must not
/// name it any more.
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

/// A waiter that is granted the lock while another waits behind it names the other one in the lock, and ends; its stack
/// is unmapped before the other one continues.
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
    l->unlock();  // by another thread than the owner, after the owner has ended
    team[i].join();
    EXPECT_EQ(entered, i + 1);
  }
  l->unlock();
  EXPECT_TRUE(l->try_lock());
}

}  // namespace
}  // namespace usher
