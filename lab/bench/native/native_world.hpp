// This computer as a benchmark program sees it: a `world` of lab/bench/programs/program.hpp.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "lab/bench/programs/program.hpp"
#include "support/measure/metrics.hpp"
#include "usher/core/lock_table.hpp"
#include "usher/platform/native.hpp"

namespace usher::bench {

using support::durations;

inline constexpr std::size_t line_pair = 128;  // the adjacent-line prefetcher fetches pairs of lines

/// A histogram of durations. Bins are exact below 32 ns, and at most a sixteenth of the duration wide above.
class histogram {
 public:
  void add(std::uint64_t ns);
  void add(const histogram& other);
  durations summary() const;
  std::uint64_t sum() const { return sum_; }

 private:
  static constexpr std::size_t parts = 16;  // of each power of two
  static std::size_t place(std::uint64_t ns);
  static std::uint64_t value(std::size_t place);
  std::uint64_t percentile(double part) const;

  std::array<std::uint64_t, parts * 61> counts_{};
  std::uint64_t count_ = 0, sum_ = 0, longest_ = 0;
};

/// Memory for arrays. It is on large pages if they are requested and the kernel provides them; otherwise it is
/// forced onto small pages.
class mapping {
 public:
  mapping(std::size_t bytes, std::size_t page);
  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;
  ~mapping();
  const char* begin() const { return begin_; }
  char* writable() const { return begin_; }

 private:
  void* all_;
  std::size_t all_bytes_;
  char* begin_;
};

class world {
 public:
  using platform = native;

  struct block {
    const char* begin;
    std::size_t bytes;
  };

  /// Objects at a distance from each other, in one block of memory.
  template <class T>
  struct spaced {
    char* first = nullptr;
    std::size_t distance = 0;
    T& operator[](std::size_t i) const { return *std::launder(reinterpret_cast<T*>(first + i * distance)); }
  };

  /// A std::mt19937 that the threads share.
  struct generator {
    std::mt19937 value;
  };

  class thread;

  /// A handle of a lock of the catalogue, whose state is on cache lines of its own. Copies refer to the same lock.
  class table_lock {
   public:
    table_lock(const lock_table& t, void* state, bool metered)
        : lock_(t.lock), unlock_(t.unlock), lock_as_guest_(t.lock_as_guest), state_(state), metered_(metered) {}

    void lock() { metered_ ? acquire(lock_) : lock_(state_); }
    void lock_as_guest() { metered_ ? acquire(lock_as_guest_) : lock_as_guest_(state_); }
    void unlock() {
      if (metered_) note_hold();
      unlock_(state_);
    }

   private:
    void acquire(void (*how)(void* state));
    static void note_hold();

    void (*lock_)(void* state);
    void (*unlock_)(void* state);
    void (*lock_as_guest_)(void* state);
    void* state_;
    bool metered_;
  };
  using lock = table_lock;

  /// A thread's own state.
  class alignas(line_pair) thread {
   public:
    thread(world& w, unsigned index, std::uint64_t seed);
    thread(const thread&) = delete;
    thread& operator=(const thread&) = delete;

    unsigned index() const { return index_; }
    bool over() const { return world_.phase_.load(std::memory_order_relaxed) == phase::over; }
    void count() { count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
    std::uint32_t uniform(std::uint32_t below) {
      return below == 0 ? 0 : static_cast<std::uint32_t>(std::uint64_t{random()} * below >> 32);
    }
    void steps(std::size_t n) { step(generator_, n); }
    void steps(generator& g, std::size_t n) {
      step(g.value, n);
      shared_steps_ += n;
    }
    void delay(std::size_t n) {
      for (std::size_t i = 0; i < n; i++) use(i);
    }
    void overhead(std::size_t, std::size_t) {}
    void increment(std::span<native::plain<std::uint64_t>* const> words) {
      for (auto* w : words) w->set(w->get() + 1);
    }
    void fetch(const block& b, std::size_t offset) {
      use(*reinterpret_cast<const volatile std::uint64_t*>(b.begin + offset));
    }
    void fetch_at_random(const block& b, std::size_t n) {
      for (std::size_t i = 0; i < n; i++)
        fetch(b, static_cast<std::size_t>(std::uint64_t{random()} * (b.bytes / sizeof(std::uint64_t)) >> 32) *
                     sizeof(std::uint64_t));
    }

    template <class T>
    void touch(const spaced<T>&, std::size_t) {}
    template <class T>
    void clear(const spaced<T>& s, std::size_t offset, std::size_t n) {
      std::memset(s.first + offset, 0, n);
      asm volatile("" : : "r"(s.first + offset) : "memory");
    }

    // ---- for run_point() ----

    std::uint64_t counted() const { return count_.load(std::memory_order_relaxed); }
    std::uint64_t shared_steps() const { return shared_steps_; }
    const histogram& waits() const { return waits_; }
    const histogram& holds() const { return holds_; }
    bool waited_at_end() const { return waited_at_end_; }

   private:
    friend class table_lock;

    /// Keeps the compiler from removing the computation of the value.
    static void use(std::uint64_t value) { asm volatile("" : : "r"(value)); }
    static void step(std::mt19937& g, std::size_t n) {
      std::uint32_t sum = 0;
      for (std::size_t i = 0; i < n; i++) sum += static_cast<std::uint32_t>(g());
      use(sum);
    }
    std::uint32_t random() { return static_cast<std::uint32_t>(generator_()); }
    void waited(std::uint64_t arrived, std::uint64_t admitted);
    void held_until(std::uint64_t released);

    static thread_local thread* current_;

    world& world_;
    const unsigned index_;
    std::uint64_t shared_steps_ = 0;
    std::mt19937 generator_;
    std::uint64_t admitted_ = 0;
    bool waited_at_end_ = false;
    histogram waits_, holds_;
    alignas(line_pair) std::atomic<std::uint64_t> count_{0};  // read by run_point() during the run
  };

  world(unsigned threads, const lock_table& table, std::map<std::string, long> parameters, bool metered);
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  unsigned threads() const { return threads_; }
  long parameter(const char* name) const { return parameters_.at(name); }
  bool admits_guests() const { return table_.lock_as_guest != nullptr; }
  lock make_lock();
  block make_block(std::size_t bytes, std::size_t page);
  template <class T>
  T& make() {
    return *make_array<T>(1);
  }
  template <class T>
  T* make_array(std::size_t n) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= line_pair);
    T* const all = static_cast<T*>(allocate(n * sizeof(T)));
    for (std::size_t i = 0; i < n; i++) ::new (all + i) T();
    if constexpr (std::is_same_v<T, generator>) generators_.push_back(all);
    return all;
  }

  template <class T>
  spaced<T> make_spaced(std::size_t n, std::size_t distance, std::size_t page) {
    static_assert(std::is_trivially_destructible_v<T>);
    if (distance < sizeof(T) || distance % alignof(T) != 0) throw std::logic_error("objects overlap");
    const spaced<T> all{make_mapping(n * distance, page).writable(), distance};
    for (std::size_t i = 0; i < n; i++) ::new (all.first + i * distance) T();
    return all;
  }

  // ---- called by the code that runs the program ----

  void measure() { phase_.store(phase::measured, std::memory_order_relaxed); }
  void end();
  /// Returns whether the shared random generator has the state that `steps` successive steps give. Concurrent steps
  /// lead to another state, so this tests whether the lock excludes. True if no generator is shared.
  bool is_generator_at(std::uint64_t steps) const;

 private:
  enum class phase : unsigned { before, measured, over };
  struct free_memory {
    void operator()(void* at) const { std::free(at); }
  };

  void* allocate(std::size_t bytes);
  const mapping& make_mapping(std::size_t bytes, std::size_t page);

  const lock_table& table_;
  const unsigned threads_;
  std::map<std::string, long> parameters_;
  bool metered_;  // whether the next lock is metered
  std::vector<std::unique_ptr<void, free_memory>> memory_;
  std::vector<std::unique_ptr<mapping>> blocks_;
  std::vector<const generator*> generators_;
  alignas(line_pair) std::atomic<phase> phase_{phase::before};
  std::atomic<std::uint64_t> ended_{0};  // the end of the measured time in ns; written once, before `over`
};

}  // namespace usher::bench
