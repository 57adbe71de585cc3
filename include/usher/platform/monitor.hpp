// Instructions that wait until a word is written, in user mode and with a limit: Intel's UMONITOR and UMWAIT, AMD's
// MONITORX and MWAITX, Arm's WFET and WFE.
//
// A wait has two steps: arm() names the cache line; wait() returns when the line has been written since arm(), or after
// about a microsecond (WFE: 100 µs), or spuriously. The word is loaded between the two steps, so no write is missed.
#pragma once

#include "usher/core/cxx20.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <atomic>
#include <cstdint>
#include <optional>

namespace usher::inline v2::native_detail {

/// Which of these instructions the processor has.
enum monitor_kind : std::uint32_t {
  monitor_none = 1,
  monitor_umwait = 2,
  monitor_mwaitx = 3,
  monitor_wfet = 4,
  monitor_wfe = 5
};

#if defined(__x86_64__)

inline constexpr std::uint32_t monitor_cycles = 4096;  // cycles of the time stamp counter: chosen, not measured

struct umwait {
  static void arm(const volatile void* at) { __asm__ __volatile__("umonitor %0" ::"r"(at) : "memory"); }
  static void wait() {
    const std::uint64_t end = __builtin_ia32_rdtsc() + monitor_cycles;
    // Operand 1 selects the state C0.1, from which the CPU wakes up faster than from C0.2.
    __asm__ __volatile__("umwait %0" ::"r"(1), "a"(std::uint32_t(end)), "d"(std::uint32_t(end >> 32)) : "memory", "cc");
  }
};

struct mwaitx {
  static void arm(const volatile void* at) { __asm__ __volatile__("monitorx" ::"a"(at), "c"(0), "d"(0) : "memory"); }
  static void wait() {
    // eax = 0xf0: no state deeper than C0. Bit 1 of ecx: ebx is the limit of the wait.
    __asm__ __volatile__("mwaitx" ::"a"(0xf0), "b"(monitor_cycles), "c"(2) : "memory");
  }
};

inline monitor_kind find_monitor() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c & 1u << 5) != 0) return monitor_umwait;
  if (__get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & 1u << 29) != 0) return monitor_mwaitx;
  return monitor_none;
}

#elif defined(__aarch64__)

struct wfe {
  /// An exclusive load: a write to the loaded word ends the wait.
  static void arm(const volatile void* at) {
    std::uint32_t unused;
    __asm__ __volatile__("ldxrb %w0, [%1]" : "=r"(unused) : "r"(at) : "memory");
  }
  static void wait() { __asm__ __volatile__("wfe" ::: "memory"); }
};

struct wfet : wfe {
  static void wait() {
    std::uint64_t ticks, frequency;
    __asm__ __volatile__("mrs %0, cntvct_el0\n\tmrs %1, cntfrq_el0" : "=r"(ticks), "=r"(frequency));
    // The encoding of WFET, for assemblers that do not know the instruction.
    __asm__ __volatile__("msr s0_3_c1_c0_0, %0" ::"r"(ticks + frequency / 1000000 + 1) : "memory");
  }
};

inline monitor_kind find_monitor() {
  constexpr unsigned long hwcap = 16, hwcap2 = 26;  // AT_HWCAP, AT_HWCAP2
  constexpr unsigned long has_wfxt = 1ul << 31;     // HWCAP2_WFXT
  // HWCAP_EVTSTRM: a timer sends an event 10,000 times a second (Linux, arm64/elf_hwcaps.rst), which ends a WFE.
  constexpr unsigned long has_events = 1ul << 2;
  if ((getauxval(hwcap2) & has_wfxt) != 0) return monitor_wfet;
  return (getauxval(hwcap) & has_events) != 0 ? monitor_wfe : monitor_none;
}

#else

inline monitor_kind find_monitor() {
  return monitor_none;
}

#endif

/// Polls a word for about ns nanoseconds. Executes one of these instructions between two loads.
template <class Monitor, class Word, class Pred, class Clock>
auto await_by_monitor(const Word& word, Pred pred, std::memory_order order, std::uint64_t ns, Clock now)
    -> std::optional<decltype(word.load())> {
  for (const std::uint64_t end = ns != 0 ? now() + ns : 0;;) {
    if (const auto v = word.load(order); pred(v)) return v;
    if (ns == 0 || now() >= end) return std::nullopt;
    Monitor::arm(&word);
    if (const auto v = word.load(order); pred(v)) return v;
    Monitor::wait();
  }
}

}  // namespace usher::inline v2::native_detail
