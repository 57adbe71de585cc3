// The NUMA node on which the calling thread runs. The kernel writes it to the thread's restartable-sequences area;
// without such an area it is queried by a system call, once in 256 uses. The thread may migrate at any time.
#pragma once

#include <sys/auxv.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "usher/platform/native/records.hpp"
#include "usher/platform/native/state.hpp"
#include "usher/platform/native/system_call.h"

// glibc has these variables since 2.35; other C libraries do not.
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
  /// Returns the NUMA node in the thread's restartable-sequences area; 0 if the registration of the area has failed.
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
    if (source > numa_fake) {
      unsigned cpu = 0;
      system_call(SYS_getcpu, &cpu, nullptr, nullptr);
      return cpu % (source - numa_fake);
    }
    thread_record* r = records::self();
    std::uint32_t place = r != nullptr ? r->place.load(std::memory_order_relaxed) : 0;
    if (place >> 16 == 0) {
      constexpr std::uint32_t trusted = 256;  // chosen, not measured
      unsigned cpu = 0, node = 0;
      system_call(SYS_getcpu, &cpu, &node, nullptr);
      place = trusted << 16 | node % most_numa_nodes;
    }
    if (r != nullptr) r->place.store(place - (1u << 16), std::memory_order_relaxed);
    return place & 0xffff;
  }

  /// Returns the number in USHER_FAKE_NODES, or 0. Does not call getenv(), which a preloaded library may replace.
  static std::uint32_t fake_nodes() {
    constexpr char name[] = "USHER_FAKE_NODES=";
    for (char** e = environ; e != nullptr && *e != nullptr; e++) {
      const char* at = *e;
      std::size_t same = 0;
      while (same < sizeof name - 1 && at[same] == name[same]) same++;
      if (same < sizeof name - 1) continue;
      std::uint32_t n = 0;
      for (at += same; *at >= '0' && *at <= '9' && n <= most_numa_nodes; at++) n = n * 10 + std::uint32_t(*at - '0');
      return n <= most_numa_nodes ? n : 0;
    }
    return 0;
  }

  static std::uint32_t find_numa_source() {
    if (const std::uint32_t n = fake_nodes(); n != 0) return numa_fake + n;
    constexpr unsigned long feature_size = 27, enough = 24;  // AT_RSEQ_FEATURE_SIZE; the size that includes node_id
    if (&__rseq_size != nullptr && __rseq_size != 0 && getauxval(feature_size) >= enough) return numa_rseq;
    return numa_getcpu;
  }
};

}  // namespace usher::inline v2::native_detail
