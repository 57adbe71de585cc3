// The smallest types that satisfy the contracts: a platform with all abilities, a way of waiting, a lock. For each part
// there is a macro that leaves it out; test_contract.py checks the compiler's message for each of them.
#pragma once

#include "usher/core/lockable.hpp"
#include "usher/core/node.hpp"
#include "usher/core/waiting.hpp"

namespace least {

#ifdef WITHOUT_FETCH_XOR
template <class T>
struct word {
  T load(std::memory_order) const;
  void store(T, std::memory_order);
  T exchange(T, std::memory_order);
  T fetch_add(T, std::memory_order);
  T fetch_sub(T, std::memory_order);
  T fetch_and(T, std::memory_order);
  T fetch_or(T, std::memory_order);
  bool compare_exchange_strong(T&, T, std::memory_order, std::memory_order);
  bool compare_exchange_weak(T&, T, std::memory_order, std::memory_order);
};
#else
template <class T>
using word = std::atomic<T>;
#endif

struct platform {
  using u32 = std::uint32_t;
  using u64 = std::uint64_t;
#ifndef WITHOUT_ATOMIC
  template <class T>
  using atomic = word<T>;
#else
  template <class T>
  using atomic_by_another_name = word<T>;
#endif

#ifndef WITHOUT_PLAIN
  template <class T>
  struct plain {
    T get() const;
    void set(T);
  };
#endif

#ifndef WITHOUT_POLLING
  template <class W, class P>
  static u32 await(const W&, P, std::memory_order, usher::pacing::endless<usher::pacing::by::polling>) {
    return 0;
  }
#endif
#ifndef WITHOUT_POLLING_WITHIN
  template <class W, class P>
  static std::optional<u32> await(const W&, P, std::memory_order, usher::pacing::within<usher::pacing::by::polling>) {
    return 0;
  }
#endif
#ifndef WITHOUT_YIELDING_WITHIN
  template <class W, class P>
  static std::optional<u32> await(const W&, P, std::memory_order, usher::pacing::within<usher::pacing::by::yielding>) {
    return 0;
  }
#endif
#ifndef WITHOUT_POLLING_THEN_YIELDING
  template <class W, class P>
  static u32 await(const W&, P, std::memory_order, usher::pacing::endless<usher::pacing::by::polling_then_yielding>) {
    return 0;
  }
#endif
#ifndef WITHOUT_SLEEPING
  template <class W, class P>
  static u32 await(const W&, P, std::memory_order, usher::pacing::endless<usher::pacing::by::sleeping>) {
    return 0;
  }
#endif
#ifndef WITHOUT_MONITORING_WITHIN
  template <class W, class P>
  static std::optional<u32> await(const W&, P, std::memory_order,
                                  usher::pacing::within<usher::pacing::by::monitoring>) {
    return 0;
  }
#endif
#ifndef WITHOUT_BACKOFF
  static void backoff(u32 ns);
#endif

#ifndef WITHOUT_PARK
  static void park(const word<u32>&, u32, u32 mask);
#endif
#ifndef WITHOUT_WIDE_PARK
  static void park(const word<u64>&, u64, u32 mask);
#endif
#ifndef WITHOUT_PARK_FOR
  static void park_for(const word<u32>&, u32, u32 mask, u64 ns);
#endif
#ifndef WITHOUT_NAP
  static void nap(const word<u32>&, u32, u32 mask, u64 ns, u32 bits);
#endif
#ifndef WITHOUT_KEY_OF
  template <class T>
  static usher::wake_key key_of(const word<T>&);
#endif
#ifndef WITHOUT_WAKE
  static void wake(usher::wake_key, u32 mask, int most);
#endif

#ifndef WITHOUT_TAKE_NODE
  static u32 take_node();
#endif
#ifndef WITHOUT_GIVE_NODE
  static void give_node(u32);
#endif
#ifndef WITHOUT_CACHED_NODE
  static u32 cached_node();
#endif
#ifndef WITHOUT_CACHE_NODE
  static void cache_node(u32);
#endif
#ifndef WITHOUT_NODE
  static usher::queue_node<platform>& node(u32);
#endif

#ifndef WITHOUT_THREAD_INDEX
  static u32 thread_index();
#endif
#ifndef WITHOUT_NUMA_NODE
  static u32 numa_node();
#endif
#ifndef WITHOUT_MOST_NUMA_NODES
  static constexpr u32 most_numa_nodes = 1;
#endif
#ifndef WITHOUT_CPUS
  static u32 cpus();
#endif
#ifndef WITHOUT_SALT
  static u32 salt(const void*);
#endif
#ifndef WITHOUT_RANDOM
  static u32 random();
#endif
#ifndef WITHOUT_BERNOULLI
  static bool bernoulli(u32);
#endif
#ifndef WITHOUT_NOW
  static u64 now();
#endif
#ifndef WITHOUT_FORK_EPOCH
  static u32 fork_epoch();
#endif
#ifndef WITHOUT_COUNT_LIMIT
  static u32 count_limit(u32);
#endif
#ifndef WITHOUT_LIMITS
  static usher::wait_limits limits();
#endif
#ifndef WITHOUT_DOORWAY
  static void doorway(const void*);
#endif
#ifndef WITHOUT_ADMITTED
  static void admitted(const void*);
#endif

#ifndef WITHOUT_TABLES
  template <class Tag>
  static word<u32>* table();
  template <class Tag>
  static constexpr u32 table_size() {
    return Tag::size;
  }
#endif
#ifndef WITHOUT_INFLATION
  template <class T>
  static u32 take_inflated();
  template <class T>
  static void give_inflated(u32);
  template <class T>
  static usher::inflated_state<platform, T>& inflated(u32);
#endif
#ifndef WITHOUT_PRIORITIES
  static u32 thread_id();
  static u32 priority(u32 thread = 0);
#endif
#ifndef WITHOUT_STACK_OBJECTS
  template <class T>
  struct local {
    T& operator*();
    T* operator->();
  };
#endif
#ifndef WITHOUT_ASYMMETRIC_FENCES
  static void fence_light();
  static bool fence_heavy();
#endif
#ifndef WITHOUT_OWNER_TAGS
  static std::uint32_t owner_tag();
  static void ensure_owner_tag();
#endif
};

struct waits {
  using platform_type = platform;
#ifndef WITHOUT_KIND
  static constexpr usher::waiting_kind kind = usher::waiting_kind::spin;
#endif
#ifndef WITHOUT_PARKS
  static constexpr bool parks = false;
#endif
#ifndef WITHOUT_POLL
  template <class Word, class Pred>
  static std::optional<std::uint32_t> poll(const Word&, Pred);
#endif
#ifndef WITHOUT_AWAIT_SOON
  template <class Word, class Pred>
  static std::uint32_t await_soon(const Word&, Pred);
#endif
#ifndef WITHOUT_SPIN_BUDGET
  static std::uint64_t spin_budget();
#endif
};

template <usher::platform P, class W>
class own {
 public:
#ifndef WITHOUT_TRAITS
  static constexpr usher::lock_traits traits{.summary = "none", .paper = "none"};
#endif
#ifdef WITHOUT_LAST_ACCESS
  static constexpr bool touched_after_hand_over = true;
#endif
#ifdef WITHOUT_CONSTEXPR_CONSTRUCTOR
  own() { word_.store(0, std::memory_order_relaxed); }
#endif
#ifdef WITHOUT_TRIVIAL_DESTRUCTOR
  ~own() { word_.store(0, std::memory_order_relaxed); }
#endif
#ifndef WITHOUT_LOCK
  void lock();
#endif
#ifndef WITHOUT_TRY_LOCK
  bool try_lock();
#endif
#ifndef WITHOUT_UNLOCK
  void unlock();
#endif

 private:
  typename P::template atomic<std::uint32_t> word_;
};

}  // namespace least
