// The state of a process (state_layout.hpp), with the wait limits, the number of CPUs and the tables.
#pragma once

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "usher/core/node.hpp"
#include "usher/core/platform.hpp"
#include "usher/platform/native/futex.hpp"
#include "usher/platform/native/state_definition.hpp"
#include "usher/platform/native/state_layout.hpp"

namespace usher::inline v2 {

namespace native_detail {

/// Stands in for the record of a thread that has none: never valid, never written. Each shared object may have one, so
/// it is recognised by its number, 0, and not by its address.
inline constinit thread_record no_record{{}, {}, thread_record::busy, {}, {}, {}, {}};

/// All thread-local data of the calling thread.
struct thread_state {
  thread_record* record = &no_record;
  std::uint32_t owner_tag = 1;  ///< records::owner_tag()
};
inline constinit thread_local thread_state current;

/// Returns the slot of a handle. Relaxed: blocks.hpp says why a thread that has a handle finds its block.
inline node_slot& slot(node_handle h) {
  const std::uintptr_t wide = h;  // an index of this width costs an instruction less
  const std::uintptr_t block = usher_process_state.slot_block[wide / slots_a_block].load(std::memory_order_relaxed);
  return *reinterpret_cast<node_slot*>(block + wide * sizeof(node_slot));
}
/// Returns the record with this number, from 1 on. The number is at most `made`, or the record's block is mapped.
inline thread_record& record(std::uint32_t number) {
  auto& s = usher_process_state;
  const std::uint32_t i = number - 1;
  if (i < reserved_records) return s.reserved_record[i];
  const std::uint32_t beyond = i - reserved_records;
  return s.record_block[beyond / records_a_block].load(std::memory_order_relaxed)[beyond % records_a_block];
}

/// Values that are the same in the whole process: wait limits, the number of CPUs, the locks' tables.
struct process {
  static wait_limits limits() {
    auto& s = usher_process_state;
    const std::uint32_t spin = s.spin.load(std::memory_order_relaxed);
    const std::uint32_t yield = s.yield.load(std::memory_order_relaxed);
    const std::uint32_t sleep = s.sleep.load(std::memory_order_relaxed);
    if (spin == 0 || yield == 0 || sleep == 0) [[unlikely]]
      return first_limits();
    return {spin - 1, yield - 1, sleep - 1};
  }

  /// Sets the limits of the whole process. At most one second each.
  static void set_limits(wait_limits l) {
    constexpr std::uint32_t most = 1000000000;
    usher_process_state.spin.store((l.spin < most ? l.spin : most) + 1, std::memory_order_relaxed);
    usher_process_state.yield.store((l.yield < most ? l.yield : most) + 1, std::memory_order_relaxed);
    usher_process_state.sleep.store((l.sleep < most ? l.sleep : most) + 1, std::memory_order_relaxed);
  }

  template <class Tag>
  static std::atomic<std::uint32_t>* table() {
    static_assert(Tag::size == native_detail::table_size);
    constexpr table_kind kind = Tag::kind;
    if constexpr (kind == table_kind::counts)
      return usher_process_state.waiting_array;
    else if constexpr (kind == table_kind::identities)
      return usher_process_state.id_array;
    else
      return usher_process_state.chain_array;
  }

  template <class Tag>
  static constexpr std::uint32_t table_size() {
    return Tag::size;
  }

  static std::uint32_t cpus() {
    const std::uint32_t n = usher_process_state.cpus.load(std::memory_order_relaxed);
    if (n == 0) [[unlikely]]
      return count_cpus();
    return n;
  }

 private:
  /// Sets and returns the default limits. Spinning: default_spin; 0 in a process with one CPU, where spinning cannot
  /// succeed. Yielding: chosen, not measured.
  [[gnu::cold, gnu::noinline]] static wait_limits first_limits() {
    cpu_set_t cpus{};
    const int saved = errno;
    unsigned count = 0;  // by hand: CPU_COUNT is a function of one C library
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0)
      for (unsigned i = 0; i < CPU_SETSIZE; i++) count += CPU_ISSET(i, &cpus) ? 1u : 0u;
    const bool one = count == 1;
    errno = saved;
    const wait_limits l{one ? 0u : default_spin, 1000000u};
    set_limits(l);
    return l;
  }

  /// Counts the CPUs. The number that the first thread has stored is used by all.
  [[gnu::cold, gnu::noinline]] static std::uint32_t count_cpus() {
    const int saved = errno;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    errno = saved;
    const std::uint32_t mine = online > 0 ? std::uint32_t(online) : 1;
    std::uint32_t n = 0;
    return usher_process_state.cpus.compare_exchange_strong(n, mine, std::memory_order_relaxed) ? mine : n;
  }
};

}  // namespace native_detail

}  // namespace usher::inline v2
