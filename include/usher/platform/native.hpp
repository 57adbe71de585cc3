// The hardware as a platform: std::atomic, PAUSE, futex, thread records. Each part has a header in native/, which also
// explains the part's races. The parts include each other in one direction; the right column has the main dependencies:
//
//     state       the process's one state object and the layouts of its parts, wait limits, tables
//     futex       sleeping, waking, asymmetric fences, the clock
//     fork        the fork epoch                                                        on state
//     blocks      memory for records, nodes and inflated states                         on state
//     polling     waiting without sleeping                                              on state, futex
//     records     thread records: ids, owner tags, random bits                          on blocks, futex, fork
//     nodes       queue nodes: those of a thread's record, and the pool                 on records, polling
//     inflation   the pool of inflated states                                           on blocks, polling
//     numa        the NUMA node of the calling thread                                   on records
//     priority    a thread's real-time priority                                         on state
//     alone       changes of words by the process's only thread, atomic for its signal handlers
//     visible_readers   read-write locks' table of readers in the child of a fork       on blocks
#pragma once

#include <atomic>
#include <cstdint>

#include "usher/core/node.hpp"
#include "usher/core/platform.hpp"
#include "usher/platform/native/alone.hpp"
#include "usher/platform/native/blocks.hpp"
#include "usher/platform/native/fork.hpp"
#include "usher/platform/native/futex.hpp"
#include "usher/platform/native/inflation.hpp"
#include "usher/platform/native/nodes.hpp"
#include "usher/platform/native/numa.hpp"
#include "usher/platform/native/polling.hpp"
#include "usher/platform/native/priority.hpp"
#include "usher/platform/native/records.hpp"
#include "usher/platform/native/state.hpp"
#include "usher/platform/native/visible_readers.hpp"

namespace usher::inline v2 {

/// The interface of the parts: lists every name that other code may use.
struct native : private native_detail::process,
                private native_detail::sleeping,
                private native_detail::fences,
                private native_detail::polling,
                private native_detail::forks,
                private native_detail::records,
                private native_detail::nodes,
                private native_detail::inflation,
                private native_detail::numa,
                private native_detail::priorities,
                private native_detail::lone_thread {
  template <class T>
  using atomic = std::atomic<T>;

  template <class T>
  class plain {
   public:
    T get() const { return value_; }
    void set(T v) { value_ = v; }

   private:
    T value_{};
  };

  template <class T>
  class local {
   public:
    T& operator*() { return object_; }
    T* operator->() { return &object_; }

   private:
    T object_;
  };

  using process::limits, process::set_limits, process::cpus, process::table, process::table_size;

  static std::uint64_t now() { return native_detail::now(); }
  using polling::await, polling::pause, polling::backoff;
  static void count_grant() { native_detail::count_grant(); }

  using fences::fence_light, fences::fence_heavy, fences::prepare_heavy_fences;
  using sleeping::key_of, sleeping::wake;
  using sleeping::park, sleeping::park_for, sleeping::park_until, sleeping::nap, sleeping::naps_end_in_time,
      sleeping::cost_of_sleep, sleeping::note_wake;
  using clock_deadline = native_detail::clock_deadline;

  using forks::fork_epoch, forks::epoch_so_far, forks::forget_parent;

  using thread_record = native_detail::thread_record;
  using numa::numa_node, numa::most_numa_nodes;
  using priorities::priority, priorities::set_priorities_by_nice;
  using records::ensure_owner_tag, records::owner_tag, records::recorded_id, records::self, records::thread_id,
      records::thread_index;
  using records::random, records::bernoulli;

  using nodes::cached_node, nodes::cache_node;
  using nodes::take_node, nodes::give_node, nodes::node;

  using inflation::take_inflated, inflation::give_inflated, inflation::inflated;

  using lone_thread::add_alone, lone_thread::replace_alone;

  static constexpr std::uint32_t visible_slots = native_detail::visible_slots;
  static std::atomic<std::uint64_t>* visible_readers() { return native_detail::blocks::visible_readers(); }
  /// A template, so that only programs that call it register the fork handler.
  template <class T = void>
  static bool prepare_visible_readers() {
    return native_detail::visible_readers_at_fork<T>::registered && native_detail::blocks::has_visible_readers();
  }
  static std::uint32_t reader_tag() { return native_detail::reader_tag(); }
  static std::uint64_t lock_id(const void* lock) { return reinterpret_cast<std::uintptr_t>(lock); }

  static std::uint32_t salt(const void* lock) { return native_detail::salt_of(reinterpret_cast<std::uintptr_t>(lock)); }
  static constexpr std::uint32_t count_limit(std::uint32_t n) { return n; }
  static void doorway(const void*) {}
  static void admitted(const void*) {}
};

static_assert(sizeof(queue_node<native>) <= sizeof(native_detail::node_slot::raw));
static_assert(platform_with_owner_tags<native> && platform_with_tables<native> && platform_with_inflation<native> &&
              platform_with_priorities<native> && platform_with_stack_objects<native> &&
              platform_with_asymmetric_fences<native> && platform_with_visible_readers<native>);

}  // namespace usher::inline v2
