// Tests the allocator of the program mmicro. Random operations run on the allocator and on a model that knows only the
// blocks in use; the invariants of the tree are checked after each operation.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "lab/bench/programs/splay_heap.hpp"

namespace usher::workloads {
namespace {

class word {
 public:
  std::uint32_t get() const { return value_; }
  void set(std::uint32_t v) { value_ = v; }

 private:
  std::uint32_t value_ = 0;
};

using header = splay_header<word>;

struct memory {
  std::vector<header> headers;
  std::set<std::uint32_t> visited;

  explicit memory(std::uint32_t capacity) : headers(capacity + 2) {}
  header& at(std::uint32_t b) { return headers.at(b); }
  void visit(std::uint32_t b) { visited.insert(b); }
  void visit_end(std::uint32_t) {}
};

using heap = splay_heap<word, memory>;

class tree : public testing::Test {
 protected:
  static constexpr std::uint32_t capacity = 4000;

  tree() { h_.begin(); }

  std::uint32_t allocate(std::uint32_t n) {
    const std::uint32_t b = h_.allocate(n);
    const auto after = used_.lower_bound(b);
    EXPECT_TRUE(after == used_.end() || b + n <= after->first) << "blocks overlap";
    if (after != used_.begin()) {
      const auto before = std::prev(after);
      EXPECT_LE(before->first + before->second, b) << "blocks overlap";
    }
    EXPECT_GE(b, 1u);
    EXPECT_LE(b + n, state_.end.get());
    used_[b] = n;
    return b;
  }
  void release(std::uint32_t b) {
    h_.release(b);
    used_.erase(b);
  }
  void give_back() { h_.give_back_all(); }

  /// Returns the free chunks as the model computes them if no block is deferred: their sizes by first unit.
  std::map<std::uint32_t, std::uint32_t> gaps() const {
    std::map<std::uint32_t, std::uint32_t> all;
    std::uint32_t from = 1;
    for (const auto& [b, n] : used_) {
      if (b > from) all[from] = b - from;
      from = b + n;
    }
    if (state_.end.get() > from) all[from] = state_.end.get() - from;
    return all;
  }

  /// Returns the chunks of a subtree and of its lists, in order, and checks the links.
  void collect(std::uint32_t b, std::uint32_t parent, std::vector<std::uint32_t>& sizes,
               std::map<std::uint32_t, std::uint32_t>& chunks) {
    if (b == 0) return;
    EXPECT_EQ(m_.at(b).parent.get(), parent);
    collect(m_.at(b).left.get(), b, sizes, chunks);
    sizes.push_back(h_.size(b));
    chunks[b] = h_.size(b);
    for (std::uint32_t previous = b, c = m_.at(b).next.get(); c != 0; previous = c, c = m_.at(c).next.get()) {
      EXPECT_EQ(m_.at(c).left.get(), heap::in_list);
      EXPECT_EQ(m_.at(c).parent.get(), previous);
      EXPECT_EQ(h_.size(c), h_.size(b));
      chunks[c] = h_.size(c);
    }
    collect(m_.at(b).right.get(), b, sizes, chunks);
  }

  /// Compares the tree and the top chunk with the gaps between the blocks in use. To be called after give_back().
  void check() {
    std::vector<std::uint32_t> sizes;
    std::map<std::uint32_t, std::uint32_t> chunks;
    collect(state_.root.get(), 0, sizes, chunks);
    EXPECT_TRUE(std::is_sorted(sizes.begin(), sizes.end()));
    EXPECT_EQ(std::adjacent_find(sizes.begin(), sizes.end()), sizes.end()) << "a size is in the tree twice";
    if (const std::uint32_t top = state_.top.get(); top != 0) chunks[top] = h_.size(top);
    EXPECT_EQ(chunks, gaps());
  }

  memory m_{capacity};
  splay_state<word> state_;
  heap h_{state_, m_, capacity};
  std::map<std::uint32_t, std::uint32_t> used_;
};

TEST_F(tree, is_the_set_of_gaps_after_every_operation) {
  std::mt19937 random(1);
  std::vector<std::uint32_t> mine;
  for (unsigned i = 0; i < 5000; i++) {
    const bool grows = i / 500 % 2 == 0;
    if (mine.empty() || random() % 10 < (grows ? 7u : 3u)) {
      const std::uint32_t n = 1 + random() % 6;
      give_back();
      const auto before = gaps();
      std::uint32_t best = ~0u;
      for (const auto& [b, size] : before)
        if (b != state_.top.get() && size >= n) best = std::min(best, size);
      const std::uint32_t b = allocate(n), top = state_.end.get();
      if (best != ~0u)
        ASSERT_EQ(before.at(b), best) << "not the smallest chunk that fits";
      else
        ASSERT_TRUE(before.empty() || b == before.rbegin()->first || b + n <= top);
      mine.push_back(b);
    } else {
      std::swap(mine[random() % mine.size()], mine.back());
      release(mine.back());
      mine.pop_back();
      if (random() % 4 == 0) give_back();
    }
    if (state_.deferred.get() == 0) check();
    ASSERT_FALSE(HasFailure()) << "operation " << i;
  }
  for (const std::uint32_t b : mine) release(b);
  give_back();
  check();
  EXPECT_EQ(state_.root.get(), 0u) << "all memory is one chunk again, the top";
  EXPECT_EQ(h_.size(state_.top.get()), state_.end.get() - 1);
}

TEST_F(tree, defers_what_is_freed) {
  std::vector<std::uint32_t> mine;
  for (unsigned i = 0; i < 80; i++) mine.push_back(allocate(2));
  for (unsigned i = 0; i < 80; i += 2) release(mine[i]);
  EXPECT_EQ(state_.deferred.get(), 32u);
  EXPECT_NE(state_.root.get(), 0u) << "eight blocks have been given back";
  EXPECT_EQ(allocate(2), mine[78]) << "the block freed last is taken first";
  EXPECT_EQ(state_.deferred.get(), 31u);
  allocate(2);
  EXPECT_EQ(state_.deferred.get(), 0u) << "the next allocation gives all back";
  check();
}

TEST_F(tree, splays_what_it_visits) {
  std::vector<std::uint32_t> small, large;
  for (std::uint32_t i = 0; i < 60; i++) {  // chunks of all sizes, kept apart
    large.push_back(allocate(1 + i));
    small.push_back(allocate(1));
  }
  for (const std::uint32_t b : large) {
    release(b);
    give_back();
  }
  check();
  const auto visits = [this](std::uint32_t n) {
    m_.visited.clear();
    allocate(n);
    return m_.visited.size();
  };
  EXPECT_GE(visits(60), 60u) << "leaves were inserted by increasing size: the tree is a list";
  for (const std::uint32_t n : {30u, 45u, 15u, 5u, 50u}) EXPECT_LT(visits(n), 40u) << "splaying has halved the paths";
  check();
}

TEST_F(tree, refuses_a_block_that_is_not_in_use) {
  const std::uint32_t b = allocate(1);
  allocate(1);
  release(b);
  EXPECT_THROW(h_.release(b), std::logic_error) << "it is deferred";
  give_back();
  EXPECT_THROW(h_.release(b), std::logic_error) << "it is in the tree";
  EXPECT_THROW(h_.allocate(capacity + 1), std::length_error);
}

}  // namespace
}  // namespace usher::workloads
