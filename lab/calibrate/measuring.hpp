// Tools for measurements: a clock, loops whose results are used, a thread on a CPU of its own, memory on small or
// large pages, chains of dependent loads.
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "lab/calibrate/native_costs.hpp"

namespace usher::calibrate {

inline constexpr auto relaxed = std::memory_order_relaxed;
inline constexpr std::size_t sector = 128;  ///< the adjacent-line prefetcher fetches pairs of lines
inline constexpr std::size_t line = 64;

/// Nanoseconds.
inline double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

/// The processor's instruction for a pause in a spin loop.
inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("isb" ::: "memory");
#endif
}

/// Keeps the compiler from removing the computation of `value`.
template <class T>
void use(T value) {
  asm volatile("" : : "r"(value) : "memory");
}

/// Evicts the line from all caches. Returns false if this processor has no known way to do so.
inline bool flush(const void* at) {
#if defined(__x86_64__)
  _mm_clflush(at);
  return true;
#elif defined(__aarch64__)
  asm volatile("dc civac, %0" : : "r"(at) : "memory");
  return true;
#else
  (void)at;
  return false;
#endif
}

inline void full_fence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

/// Calls f `times` times and returns statistics of the results.
template <class F>
measured repeat(std::size_t times, F f) {
  std::vector<double> values;
  for (std::size_t i = 0; i < times; i++) values.push_back(f());
  return over(std::move(values));
}

/// Returns the nanoseconds of one iteration of a loop that makes n iterations.
template <class F>
double each(std::size_t n, F loop) {
  const double begin = now();
  loop(n);
  return (now() - begin) / static_cast<double>(n);
}

/// A thread that is pinned to a CPU and executes given functions there.
class helper_thread {
 public:
  explicit helper_thread(unsigned cpu)
      : thread_([this, cpu] {
          pinned_ = pin_to(cpu);
          done_.store(1, std::memory_order_release);
          for (std::uint32_t turn = 1;; turn++) {
            await(asked_, turn);
            if (!work_) return;
            work_();
            done_.store(turn + 1, std::memory_order_release);
          }
        }) {
    await(done_, 1);
  }
  helper_thread(const helper_thread&) = delete;
  helper_thread& operator=(const helper_thread&) = delete;
  ~helper_thread() {
    start({});
    thread_.join();
  }

  bool pinned() const { return pinned_; }
  void start(std::function<void()> work) {
    work_ = std::move(work);
    asked_.store(++turn_, std::memory_order_release);
  }
  void wait() { await(done_, turn_ + 1); }
  void run(std::function<void()> work) {
    start(std::move(work));
    wait();
  }

 private:
  static void await(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
    for (unsigned i = 0; word.load(std::memory_order_acquire) != value; i++)
      i % 1000 == 999 ? void(sched_yield()) : relax();
  }

  alignas(sector) std::atomic<std::uint32_t> asked_{0};
  alignas(sector) std::atomic<std::uint32_t> done_{0};
  alignas(sector) std::function<void()> work_;
  std::uint32_t turn_ = 0;
  bool pinned_ = false;
  std::thread thread_;
};

/// Pins the calling thread for as long as the object lives.
class pinned {
 public:
  explicit pinned(unsigned cpu) : known_(sched_getaffinity(0, sizeof before_, &before_) == 0), done_(pin_to(cpu)) {}
  pinned(const pinned&) = delete;
  pinned& operator=(const pinned&) = delete;
  ~pinned() {
    if (known_) sched_setaffinity(0, sizeof before_, &before_);
  }
  explicit operator bool() const { return done_; }

 private:
  cpu_set_t before_;
  bool known_, done_;
};

/// Mapped memory whose pages have been touched. The pages are large if the caller wants that and the kernel provides
/// them; otherwise they are small.
class mapped_array {
 public:
  explicit mapped_array(std::size_t bytes, bool large_pages = true) : bytes_(bytes) {
    void* const at =
        mmap(nullptr, bytes + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    mapped_ = static_cast<char*>(at);
    begin_ = mapped_ + (align - reinterpret_cast<std::uintptr_t>(at) % align) % align;
    madvise(begin_, bytes, large_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    for (std::size_t i = 0; i < bytes; i += 4096) begin_[i] = 1;
  }
  mapped_array(const mapped_array&) = delete;
  mapped_array& operator=(const mapped_array&) = delete;
  ~mapped_array() { munmap(mapped_, bytes_ + align); }
  std::uint64_t* words() const { return reinterpret_cast<std::uint64_t*>(begin_); }
  char* bytes() const { return begin_; }

 private:
  static constexpr std::size_t align = std::size_t{2} << 20;
  std::size_t bytes_;
  char *mapped_, *begin_;
};

/// Lines that point to each other in one random cycle, each in a sector of its own. The constructing thread touches
/// them first, so they are on its NUMA node.
class pointer_chase {
 public:
  struct alignas(sector) node {
    node* next = nullptr;
    std::atomic<std::uint64_t> word{0};
  };

  explicit pointer_chase(std::size_t n) : memory_(n * sizeof(node), false), nodes_(n) {
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937 chance(1);
    std::shuffle(order.begin(), order.end(), chance);
    auto* const first = reinterpret_cast<node*>(memory_.bytes());
    for (std::size_t i = 0; i < n; i++) nodes_[i] = ::new (first + i) node;
    for (std::size_t i = 0; i < n; i++) nodes_[order[i]]->next = nodes_[order[(i + 1) % n]];
  }

  std::size_t size() const { return nodes_.size(); }
  /// Makes n loads, each of which depends on the previous one.
  void chase(std::size_t n) const {
    const node* p = nodes_.front();
    for (std::size_t i = 0; i < n; i++) {
      p = p->next;
      use(p);
    }
  }
  void read() const {
    chase(size());
    full_fence();
  }
  void write() {
    node* p = nodes_.front();
    for (std::size_t i = 0; i < size(); i++, p = p->next) p->word.store(i, relaxed);
    full_fence();
  }
  void modify(std::size_t n) {
    node* p = nodes_.front();
    for (std::size_t i = 0; i < n; i++, p = p->next) p->word.fetch_add(1, relaxed);
  }
  bool flush_all() const {
    bool can = true;
    for (const node* p : nodes_) can = flush(p) && can;
    full_fence();
    return can;
  }

 private:
  mapped_array memory_;
  std::vector<node*> nodes_;
};

/// A random cycle of pointers through an array: each load depends on the one before.
class array_chase {
 public:
  /// `place(n)`: the offset of the n-th pointer in the array.
  template <class Place>
  array_chase(char* begin, std::size_t n, std::mt19937& chance, Place place) : n_(n) {
    std::vector<std::uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), chance);
    const auto at = [&](std::size_t i) { return reinterpret_cast<void**>(begin + place(std::size_t{order[i % n]})); };
    for (std::size_t i = 0; i < n; i++) *at(i) = at(i + 1);
    p_ = at(0);
  }
  /// Measures the nanoseconds of a load. A first round, of at most two million loads, is not measured.
  measured load(std::size_t times) {
    constexpr std::size_t most = 2000000, at_once = 8192;
    chase(std::min(n_, most));
    return repeat(times, [&] { return each(at_once, [&](std::size_t n) { chase(n); }); });
  }

 private:
  void chase(std::size_t n) {
    for (std::size_t i = 0; i < n; i++) {
      p_ = static_cast<void**>(*p_);
      use(p_);
    }
  }
  std::size_t n_;
  void** p_;
};

}  // namespace usher::calibrate
