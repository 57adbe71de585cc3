// The NUMA node on which the calling thread runs: read from its restartable-sequences area, where the kernel writes it,
// or else by a system call now and then. A guess either way: the thread may be moved right after it.
#pragma once

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "usher/platform/native/records.hpp"
#include "usher/platform/native/state.hpp"

// glibc has these since 2.35; other C libraries do not.
extern "C" {
extern const std::ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
}

namespace usher::inline v2::native_detail {

struct numa {
  static constexpr std::uint32_t most_numa_nodes = 16;

  static std::uint32_t numa_node() {
    if (usher_process_state.numa.load(std::memory_order_relaxed) == numa_rseq) [[likely]]
      return rseq_node_id() % most_numa_nodes;
    return ask_numa_node();
  }

 private:
  /// The NUMA node in the thread's restartable-sequences area; 0 if the thread's registration for it failed.
  static std::uint32_t rseq_node_id() {
    constexpr std::ptrdiff_t node_id = 20;  // struct rseq
    auto* area = static_cast<const char*>(__builtin_thread_pointer()) + __rseq_offset;
    return *reinterpret_cast<const volatile std::uint32_t*>(area + node_id);
  }

  [[gnu::cold, gnu::noinline]] static std::uint32_t ask_numa_node() {
    auto& s = usher_process_state;
    if (s.numa.load(std::memory_order_relaxed) == 0) s.numa.store(find_numa_source(), std::memory_order_relaxed);
    const std::uint32_t source = s.numa.load(std::memory_order_relaxed);
    if (source == numa_rseq) return rseq_node_id() % most_numa_nodes;
    if (source > numa_fake) return std::uint32_t(sched_getcpu()) % (source - numa_fake);
    thread_record* r = records::self();
    std::uint32_t place = r != nullptr ? r->place.load(std::memory_order_relaxed) : 0;
    if (place >> 16 == 0) {
      constexpr std::uint32_t trusted = 256;  // chosen, not measured
      const int saved = errno;
      unsigned cpu = 0, node = 0;
      syscall(SYS_getcpu, &cpu, &node, nullptr);
      errno = saved;
      place = trusted << 16 | node % most_numa_nodes;
    }
    if (r != nullptr) r->place.store(place - (1u << 16), std::memory_order_relaxed);
    return place & 0xffff;
  }

  static std::uint32_t find_numa_source() {
    if (const char* fake = getenv("USHER_FAKE_NODES")) {
      const unsigned long n = strtoul(fake, nullptr, 10);
      if (n >= 1 && n <= most_numa_nodes) return numa_fake + std::uint32_t(n);
    }
    constexpr unsigned long feature_size = 27, enough = 24;  // AT_RSEQ_FEATURE_SIZE; up to and with node_id
    if (&__rseq_size != nullptr && __rseq_size != 0 && getauxval(feature_size) >= enough) return numa_rseq;
    return numa_getcpu;
  }
};

}  // namespace usher::inline v2::native_detail
