// The state of a process (state_layout.hpp), with the wait limits, the number of CPUs and the tables.
#pragma once

#include <fcntl.h>
#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "usher/core/node.hpp"
#include "usher/core/platform.hpp"
#include "usher/platform/native/futex.hpp"
#include "usher/platform/native/state_definition.hpp"
#include "usher/platform/native/state_layout.hpp"
#include "usher/platform/native/system_call.h"

namespace usher::inline v2 {

namespace native_detail {

/// Takes the place of the record of a thread that has none: never valid, never written. Each shared object may have one
/// no_record, so it is recognised by its number, 0, and not by its address.
inline constinit thread_record no_record{{}, {}, thread_record::busy, {}, {}, {}, {}};

/// All thread-local data of the calling thread.
struct thread_state {
  thread_record* record = &no_record;
  std::uint32_t owner_tag = 1;  ///< records::owner_tag()
};
inline constinit thread_local thread_state current;

/// Returns the slot of a handle. Relaxed: blocks.hpp explains why a thread that has a handle finds its block.
inline node_slot& slot(node_handle h) {
  const std::uintptr_t wide = h;  // an index of this width saves an instruction
  const std::uintptr_t block = usher_process_state.slot_block[wide / slots_a_block].load(std::memory_order_relaxed);
  return *reinterpret_cast<node_slot*>(block + wide * sizeof(node_slot));
}
/// Returns the record with this number, from 1 on. It must be at most `made`, or its block be mapped.
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

  /// Sets the limits of the whole process, each to at most one second.
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
  /// Sets and returns the default limits. Spinning: default_spin, or 0 if the process may use only one CPU, where
  /// spinning cannot succeed. Yielding: chosen, not measured.
  [[gnu::cold, gnu::noinline]] static wait_limits first_limits() {
    const wait_limits l{permitted_cpus() == 1 ? 0u : default_spin, 1000000u};
    set_limits(l);
    return l;
  }

  /// Returns the number of CPUs on which the calling thread may run; 0 if the system call fails.
  static std::uint32_t permitted_cpus() {
    cpu_set_t cpus{};
    std::uint32_t count = 0;  // counted here, because CPU_COUNT calls a function that only glibc has
    if (system_call(SYS_sched_getaffinity, 0, sizeof cpus, &cpus) > 0)
      for (unsigned i = 0; i < CPU_SETSIZE; i++) count += CPU_ISSET(i, &cpus) ? 1u : 0u;
    return count;
  }

  /// As sysconf(_SC_NPROCESSORS_ONLN), from the same file. The file's text is, for example, 0-3,8,10-11.
  static std::uint32_t online_cpus() {
    char text[1024] = {};
    const long file = system_call(SYS_openat, AT_FDCWD, "/sys/devices/system/cpu/online", O_RDONLY | O_CLOEXEC);
    if (file < 0) return permitted_cpus();
    const long n = system_call(SYS_read, file, text, sizeof text - 1);
    system_call(SYS_close, file);
    std::uint32_t count = 0, first = 0, number = 0;
    bool is_range = false;
    for (long i = 0; i < n; i++) {
      if (text[i] >= '0' && text[i] <= '9') {
        number = number * 10 + std::uint32_t(text[i] - '0');
        if (i + 1 < n) continue;
      }
      if (text[i] == '-') {
        first = number;
      } else {
        count += is_range ? number - first + 1 : 1;
        if (text[i] != ',') break;
      }
      is_range = text[i] == '-';
      number = 0;
    }
    return count != 0 ? count : permitted_cpus();
  }

  /// Counts the CPUs. All threads use the number that the first thread has stored.
  [[gnu::cold, gnu::noinline]] static std::uint32_t count_cpus() {
    const std::uint32_t online = online_cpus(), mine = online != 0 ? online : 1;
    std::uint32_t n = 0;
    return usher_process_state.cpus.compare_exchange_strong(n, mine, std::memory_order_relaxed) ? mine : n;
  }
};

}  // namespace native_detail

}  // namespace usher::inline v2
