// A thread's real-time priority at the moment of the call. Not in records.hpp, because the function takes the id of any
// thread and needs no record.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "usher/platform/native/state.hpp"
#include "usher/platform/native/system_call.h"

namespace usher::inline v2::native_detail {

struct priorities {
  /// Returns 1 … 99 for SCHED_FIFO and SCHED_RR, 100 for SCHED_DEADLINE, which runs before them, and 0 for all others.
  /// Not cached, because another thread or process may change the priority at any time. `thread` 0: the calling thread.
  static std::uint32_t priority(std::int32_t thread = 0) {
    constexpr long deadline = 6, reset_on_fork = 0x40000000;  // SCHED_DEADLINE, SCHED_RESET_ON_FORK
    long p = 0;
    if (usher_process_state.nice_ranks.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      p = system_call(SYS_getpriority, 0, thread) - 1;  // the system call returns 20 - nice
    } else if (const long policy = system_call(SYS_sched_getscheduler, thread) & ~reset_on_fork; policy == deadline) {
      p = 100;
    } else if (policy == SCHED_FIFO || policy == SCHED_RR) {
      sched_param parameters{};
      if (system_call(SYS_sched_getparam, thread, &parameters) == 0) p = parameters.sched_priority;
    }
    return p > 0 ? std::uint32_t(p) : 0;
  }

  /// For tests on machines without real-time priorities: makes a thread's priority 19 minus its nice value, 0 … 39.
  static void set_priorities_by_nice(bool on) {
    usher_process_state.nice_ranks.store(on ? 1 : 0, std::memory_order_relaxed);
  }
};

}  // namespace usher::inline v2::native_detail
