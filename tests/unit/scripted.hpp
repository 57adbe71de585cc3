// A platform on which a script schedules the threads. Each of its threads stops before every operation on shared memory
// and continues, alone, when the script resumes it. So a test can play the interleaving of a figure and check the words
// after each step. The thread that runs the script never stops.
//
//     actor t1(node), t2(node);
//     t1.start([&] { lock.lock(); });        // stops before its first operation
//     t1.until_changed(tail);                // executes operations up to and including the one that changes `tail`
//     t1.run();                              // runs until it has ended, or has read a word and must wait
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

#include "usher/core/node.hpp"
#include "usher/core/waiting.hpp"

namespace usher::test {

class actor {
 public:
  explicit actor(std::uint32_t numa_node = 0) : numa_node_(numa_node), number_(++actors) {}
  actor(const actor&) = delete;
  actor& operator=(const actor&) = delete;
  ~actor() {
    over_ = true;  // a script may leave its threads at any point
    go_.release();
  }

  void start(std::function<void()> what) {
    ended_ = waits_ = false;
    thread_ = std::jthread([this, f = std::move(what)] {
      me = this;
      try {
        stop();
        f();
      } catch (over) {
        return;
      }
      ended_ = true;
      stopped_.release();
    });
    stopped_.acquire();
  }

  /// Executes one operation of the actor, and the actor's local computation up to its next operation.
  void step() {
    ASSERT_FALSE(ended_) << "actor " << number_;
    waits_ = false;
    go_.release();
    stopped_.acquire();
  }
  void run() {
    do step();
    while (!ended_ && !waits_);
  }
  template <class Word>
  void until_changed(const Word& word) {
    const auto before = word();
    do {
      step();
      ASSERT_FALSE(waits_ && word() == before) << "actor " << number_ << " waits";
    } while (word() == before && !ended_);
  }

  bool ended() const { return ended_; }
  bool waits() const { return waits_ && !ended_; }

  // ---- called by the actor itself

  static inline thread_local actor* me = nullptr;

  void stop() {
    stopped_.release();
    go_.acquire();
    if (over_) throw over();
  }
  static void before_operation() {
    if (me != nullptr) me->stop();
  }
  static void must_wait() {
    if (me != nullptr) me->waits_ = true;
  }
  std::uint32_t numa_node() const { return numa_node_; }
  unsigned number() const { return number_; }

 private:
  struct over {};
  static inline unsigned actors = 0;
  const std::uint32_t numa_node_;
  const unsigned number_;
  std::atomic<bool> ended_{true}, waits_{false}, over_{false};
  std::binary_semaphore go_{0}, stopped_{0};
  std::jthread thread_;
};

/// A record of one operation. `history` has the operations of all actors, in order.
struct done {
  enum what { load, store, modify } what;
  const void* word;
  unsigned actor;  ///< 0: the thread that runs the script
};
inline std::vector<done> history;

inline void note(enum done::what what, const void* word) {
  actor::before_operation();
  history.push_back({what, word, actor::me != nullptr ? actor::me->number() : 0});
}

/// A word with the interface of std::atomic. The actor stops before each operation on it.
template <class T>
class scripted_atomic {
  using order = std::memory_order;

 public:
  T load(order o = std::memory_order_seq_cst) const {
    note(done::load, this);
    return word_.load(o);
  }
  void store(T v, order o = std::memory_order_seq_cst) {
    note(done::store, this);
    word_.store(v, o);
  }
  T exchange(T v, order o = std::memory_order_seq_cst) {
    note(done::modify, this);
    return word_.exchange(v, o);
  }
  T fetch_add(T v, order o = std::memory_order_seq_cst) {
    note(done::modify, this);
    return word_.fetch_add(v, o);
  }
  T fetch_sub(T v, order o = std::memory_order_seq_cst) {
    note(done::modify, this);
    return word_.fetch_sub(v, o);
  }
  T fetch_and(T v, order o = std::memory_order_seq_cst) {
    note(done::modify, this);
    return word_.fetch_and(v, o);
  }
  T fetch_or(T v, order o = std::memory_order_seq_cst) {
    note(done::modify, this);
    return word_.fetch_or(v, o);
  }
  T fetch_xor(T v, order o = std::memory_order_seq_cst) {
    note(done::modify, this);
    return word_.fetch_xor(v, o);
  }
  bool compare_exchange_strong(T& expected, T v, order success, order failure) {
    note(done::modify, this);
    return word_.compare_exchange_strong(expected, v, success, failure);
  }
  bool compare_exchange_weak(T& expected, T v, order success, order failure) {
    return compare_exchange_strong(expected, v, success, failure);
  }

  T peek() const { return word_.load(); }

 private:
  std::atomic<T> word_;
};

struct scripted_words {
  template <class T>
  using atomic = scripted_atomic<T>;
  template <class T>
  class plain {
   public:
    T get() const { return value_; }
    void set(T v) { value_ = v; }

   private:
    T value_{};
  };
};

struct scripted : scripted_words {
  static constexpr std::uint32_t nodes = 64;

  template <class Word, class Pred, pacing::by By>
  static auto await(const Word& word, Pred pred, std::memory_order o, pacing::endless<By>) -> decltype(word.load()) {
    for (;;) {
      const auto v = word.load(o);
      if (pred(v)) return v;
      actor::must_wait();
    }
  }
  template <class Word, class Pred, pacing::by By>
  static auto await(const Word& word, Pred pred, std::memory_order o, pacing::within<By>)
      -> std::optional<decltype(word.load())> {
    const auto v = word.load(o);
    return pred(v) ? std::optional(v) : std::nullopt;
  }
  static inline std::vector<std::uint32_t> pauses;
  static void backoff(std::uint32_t ns) {
    pauses.push_back(ns);
    actor::must_wait();
    actor::before_operation();
  }

  /// Returns when the script next resumes the actor, even if no thread has woken it. The platform permits such spurious
  /// wake-ups.
  template <class Word>
  static void park(const Word&, decltype(std::declval<Word>().load()), std::uint32_t) {
    actor::must_wait();
    actor::before_operation();
  }
  template <class Word>
  static void park_for(const Word& word, std::uint32_t seen, std::uint32_t mask, std::uint64_t) {
    park(word, seen, mask);
  }
  template <class Word>
  static void nap(const Word& word, std::uint32_t seen, std::uint32_t mask, std::uint64_t, std::uint32_t) {
    park(word, seen, mask);
  }
  template <class Word>
  static wake_key key_of(const Word& word) {
    return {const_cast<void*>(static_cast<const void*>(&word))};
  }
  static void wake(wake_key key, std::uint32_t, int) { last_woken = key.word; }
  static inline const void* last_woken = nullptr;

  static node_handle take_node() {
    for (node_handle h = 0; h < nodes; h++)
      if (!taken_[h]) {
        taken_[h] = true;
        return first_node + h;
      }
    return no_node;
  }
  static void give_node(node_handle h) { taken_[h - first_node] = false; }
  static node_handle cached_node() { return take_node(); }
  static void cache_node(node_handle h) { give_node(h); }
  static queue_node<scripted_words>& node(node_handle h) { return nodes_[h - first_node]; }

  static std::uint32_t thread_index() { return actor::me != nullptr ? actor::me->number() : 0; }
  static std::uint32_t cpus() { return 2; }
  static constexpr std::uint32_t most_numa_nodes = 2;
  static std::uint32_t numa_node() { return actor::me != nullptr ? actor::me->numa_node() : 0; }
  static std::uint32_t thread_id() { return thread_index(); }
  static std::uint32_t priority(std::uint32_t = 0) { return 0; }
  template <class Tag>
  static constexpr std::uint32_t table_size() {
    return Tag::size;
  }
  template <class Tag>
  static atomic<std::uint32_t>* table() {
    static atomic<std::uint32_t> words[Tag::size];
    return words;
  }
  static std::uint32_t salt(const void*) { return 0; }
  static std::uint32_t random() { return 1; }
  static bool bernoulli(std::uint32_t) { return false; }
  static std::uint64_t now() { return 0; }
  static void fence_light() {}
  static bool fence_heavy() { return false; }
  static std::uint32_t fork_epoch() { return 1; }
  static constexpr std::uint32_t count_limit(std::uint32_t n) { return n; }
  static wait_limits limits() { return {0, 0}; }
  static void doorway(const void*) {}
  static void admitted(const void*) {}

 private:
  static inline bool taken_[nodes] = {};
  static inline queue_node<scripted_words> nodes_[nodes];
};

static_assert(platform_with_tables<scripted> && platform_with_priorities<scripted>);

}  // namespace usher::test
