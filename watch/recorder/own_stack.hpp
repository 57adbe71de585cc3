// Finds the memory of the calling thread's own stack, which stays mapped while the thread runs.
//
// The C library places a thread's control block, to which the thread pointer points, at the upper end of the thread's
// stack memory. Only the first thread's block is elsewhere: its stack ends at __libc_stack_end, which Linux places
// above all mapped memory. So a stack pointer below the thread pointer lies on the thread's stack, and one above it on
// the first thread's stack, unless it lies on a fiber's stack or one for signals. To exclude these, the kernel tests
// whether all pages from the stack pointer to the end are mapped: a guard page lies below a thread's stack (a gap below
// the first thread's). The result is kept for the thread.
//
// The result is wrong only for a fiber's stack that lies within 256 pages below a thread's stack without a guard page,
// if all pages in between are mapped.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "watch/recorder/readable_memory.hpp"

extern "C" {
[[gnu::weak]] extern void* __libc_stack_end;  // NOLINT(bugprone-reserved-identifier)
}

namespace usher::recorder {

/// The known part of the calling thread's own stack. Each thread has one such object, initialised to zero.
struct stack_bounds {
  std::uintptr_t low, high;
};

/// The thread pointer of the first thread; 0: not known, because another thread loaded this library.
inline constinit std::uintptr_t first_thread = 0;

inline std::uintptr_t thread_pointer() {
  std::uintptr_t at = 0;
#if defined(__x86_64__)
  __asm__("movq %%fs:0, %0" : "=r"(at));
#elif defined(__aarch64__)
  __asm__("mrs %0, tpidr_el0" : "=r"(at));
#endif
  return at;
}

/// Called by a constructor. The first thread's stack is above its thread-local storage, except under an emulator.
inline void find_first_thread(std::uintptr_t stack_pointer) {
  if (const std::uintptr_t own = thread_pointer(); stack_pointer > own || syscall(SYS_gettid) == getpid())
    first_thread = own;
}

/// The end of the thread's own stack, if `stack_pointer` may be on it; else 0.
inline std::uintptr_t end_of_own_stack(std::uintptr_t stack_pointer) {
  const std::uintptr_t own = thread_pointer();
  if (stack_pointer < own && own != first_thread) return first_thread != 0 ? own : 0;
  if (&__libc_stack_end == nullptr) return 0;
  const auto end = reinterpret_cast<std::uintptr_t>(__libc_stack_end);
  return stack_pointer < end && (stack_pointer < own) == (end < own) ? end : 0;
}

/// Pins the memory from `stack_pointer` to the end of the thread's stack. False if `stack_pointer` is not on it, or if
/// the kernel would have to test more than `most_pages` pages. A signal handler may write `known` during the call: its
/// bounds are used only if both were written together.
[[gnu::noinline]] inline bool pin_own_stack(std::uintptr_t stack_pointer, std::uintptr_t most_pages,
                                            stack_bounds& known, readable_memory& memory) {
  const std::uintptr_t end = end_of_own_stack(stack_pointer);
  if (end == 0) return false;
  constexpr std::uintptr_t page = readable_memory::page;
  const volatile stack_bounds& seen = known;
  const std::uintptr_t low = seen.low, high = seen.high;
  const std::uintptr_t from = high == end && seen.low == low ? low : end & ~(page - 1);
  if (stack_pointer < from) {
    if ((from - stack_pointer) / page >= most_pages || !readable_memory::can_read(stack_pointer, from)) return false;
    volatile stack_bounds& found = known;
    found.high = 0;
    found.low = stack_pointer & ~(page - 1);
    found.high = end;
  }
  memory.pin(stack_pointer, end);
  return true;
}

}  // namespace usher::recorder
