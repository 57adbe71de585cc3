// The native platform, which also records each thread's operations on words. It is for locks whose waiters spin. A test
// can see which word each thread polls, and stop a thread before an operation.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "usher/platform/native.hpp"

namespace usher::test {

enum class action { load, store, add, other };

struct event {
  int thread;
  action what;
  const void* word;
  std::uint64_t value;  ///< the value that was loaded, stored or added
};

/// There is one trace at a time. The test calls begin(), names the threads and lets them run.
class trace {
 public:
  static inline thread_local int me = 0;

  static void begin() {
    std::lock_guard guard(mutex_);
    events_.clear();
    before_ = nullptr;
  }
  /// Sets a function that a thread calls before each writing operation that it is about to execute.
  static void before_write(std::function<void(const event&)> f) {
    std::lock_guard guard(mutex_);
    before_ = std::move(f);
  }

  static std::vector<event> of(int thread) {
    std::lock_guard guard(mutex_);
    std::vector<event> some;
    for (const event& e : events_)
      if (e.thread == thread) some.push_back(e);
    return some;
  }

  /// Returns the word that a thread polls, after it has found that it must wait; null if it polls none.
  static const void* watched_by(int thread) {
    std::lock_guard guard(mutex_);
    const auto i = watches_.find(thread);
    return i != watches_.end() ? i->second : nullptr;
  }
  static unsigned watchers(const void* word) {
    std::lock_guard guard(mutex_);
    unsigned n = 0;
    for (const auto& [thread, w] : watches_) n += w == word ? 1 : 0;
    return n;
  }
  static unsigned watchers() {
    std::lock_guard guard(mutex_);
    return unsigned(watches_.size());
  }

  // ---- called by the platform

  static void about_to(action what, const void* word, std::uint64_t value) {
    std::function<void(const event&)> f;
    {
      std::lock_guard guard(mutex_);
      f = before_;
    }
    if (f) f({me, what, word, value});
  }
  static void done(action what, const void* word, std::uint64_t value) {
    std::lock_guard guard(mutex_);
    events_.push_back({me, what, word, value});
  }
  static void watches(const void* word) {
    std::lock_guard guard(mutex_);
    if (word != nullptr)
      watches_[me] = word;
    else
      watches_.erase(me);
  }

 private:
  static inline std::mutex mutex_;
  static inline std::vector<event> events_;
  static inline std::map<int, const void*> watches_;
  static inline std::function<void(const event&)> before_;
};

template <class T>
class traced_atomic {
 public:
  T load(std::memory_order o = std::memory_order_seq_cst) const {
    const T v = word_.load(o);
    trace::done(action::load, this, v);
    return v;
  }
  void store(T v, std::memory_order o) {
    trace::about_to(action::store, this, v);
    word_.store(v, o);
    trace::done(action::store, this, v);
  }
  T fetch_add(T v, std::memory_order o) {
    return modify(action::add, v, [&] { return word_.fetch_add(v, o); });
  }
  T fetch_sub(T v, std::memory_order o) {
    return modify(action::other, v, [&] { return word_.fetch_sub(v, o); });
  }
  T fetch_or(T v, std::memory_order o) {
    return modify(action::other, v, [&] { return word_.fetch_or(v, o); });
  }
  T fetch_xor(T v, std::memory_order o) {
    return modify(action::other, v, [&] { return word_.fetch_xor(v, o); });
  }
  T fetch_and(T v, std::memory_order o) {
    return modify(action::other, v, [&] { return word_.fetch_and(v, o); });
  }
  T exchange(T v, std::memory_order o) {
    return modify(action::other, v, [&] { return word_.exchange(v, o); });
  }
  bool compare_exchange_strong(T& expected, T v, std::memory_order success, std::memory_order failure) {
    return modify(action::other, v, [&] { return word_.compare_exchange_strong(expected, v, success, failure); });
  }
  bool compare_exchange_weak(T& expected, T v, std::memory_order success, std::memory_order failure) {
    return compare_exchange_strong(expected, v, success, failure);
  }
  /// Loads the word without recording the operation.
  T peek() const { return word_.load(std::memory_order_relaxed); }

 private:
  template <class F>
  auto modify(action what, T v, F f) {
    trace::about_to(what, this, v);
    const auto result = f();
    trace::done(what, this, v);
    return result;
  }
  std::atomic<T> word_;
};

struct traced : native {
  template <class T>
  using atomic = traced_atomic<T>;

  using native::await;
  template <class Word, class Pred>
  static auto await(const Word& word, Pred pred, std::memory_order order, pacing::endless<pacing::by::polling>)
      -> decltype(word.load()) {
    auto v = word.load(order);
    if (pred(v)) return v;
    trace::watches(&word);
    while (!pred(v = word.peek())) std::this_thread::yield();
    trace::watches(nullptr);
    return word.load(order);
  }

  // No waiter sleeps.
  template <class T>
  static void park(const traced_atomic<T>&, std::type_identity_t<T>, std::uint32_t) {}
  static void park_for(const traced_atomic<std::uint32_t>&, std::uint32_t, std::uint32_t, std::uint64_t) {}
  static void nap(const traced_atomic<std::uint32_t>&, std::uint32_t, std::uint32_t, std::uint64_t, std::uint32_t) {}
  template <class T>
  static wake_key key_of(const traced_atomic<T>&) {
    return {nullptr};
  }

  // A node has the same handle as on the native platform, but its words record the operations on them.
  static queue_node<traced>& node(node_handle h) {
    static_assert(sizeof(queue_node<traced>) == sizeof(queue_node<native>));
    return reinterpret_cast<queue_node<traced>&>(native::node(h));
  }

  template <class Tag>
  static traced_atomic<std::uint32_t>* table() {
    alignas(4096) static traced_atomic<std::uint32_t> words[Tag::size];
    return words;
  }
};
static_assert(platform_with_tables<traced>);

}  // namespace usher::test
