// Reads memory of this process that may not be mapped, without a fault and without a signal handler. See unwind.hpp.
#pragma once

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <sys/syscall.h>

namespace usher::preload {

/// Whether the kernel can read the 8 bytes there. rt_sigprocmask copies the signal set before it checks the operation,
/// and this operation does not exist, so nothing changes. A raw system call, because the C library's wrapper writes
/// errno.
inline bool kernel_can_read(std::uintptr_t address) {
  constexpr long no_operation = ~0u >> 1, set_size = 8;
  long answer = -ENOSYS;
#if defined(__x86_64__)
  register long size __asm__("r10") = set_size;
  __asm__ volatile("syscall"
                   : "=a"(answer)
                   : "0"(long{SYS_rt_sigprocmask}), "D"(no_operation), "S"(address), "d"(0L), "r"(size)
                   : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long number __asm__("x8") = SYS_rt_sigprocmask;
  register long x0 __asm__("x0") = no_operation;
  register std::uintptr_t x1 __asm__("x1") = address;
  register long x2 __asm__("x2") = 0;
  register long x3 __asm__("x3") = set_size;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(number), "r"(x1), "r"(x2), "r"(x3) : "memory");
  answer = x0;
#else
  (void)address, (void)no_operation, (void)set_size;
#endif
  return answer == -EINVAL;
}

/// A range that is known to be readable. It grows, or moves, as other addresses are asked for.
class readable_memory {
 public:
  readable_memory() = default;
  readable_memory(std::uintptr_t low, std::uintptr_t high) : low_(low), high_(high) {}

  std::uintptr_t low() const { return low_; }
  std::uintptr_t high() const { return high_; }
  void forget() { low_ = high_ = 0; }
  /// While true, the kernel is not asked: for memory that is certain to be mapped.
  void trust(bool on) { trusted_ = on; }

  bool has(std::uintptr_t address, std::size_t size) {
    return (address >= low_ && address < high_ && size <= high_ - address) || trusted_ || ask(address, size);
  }

  template <class T>
  bool read(std::uintptr_t address, T& value) {
    if (!has(address, sizeof value)) return false;
    std::memcpy(&value, std::bit_cast<const void*>(address), sizeof value);
    return true;
  }

 private:
  static constexpr std::uintptr_t page = 4096;  // the smallest page size

  [[gnu::cold, gnu::noinline]] bool ask(std::uintptr_t address, std::size_t size) {
    const std::uintptr_t begin = address & ~(page - 1), end = (address + size + page - 1) & ~(page - 1);
    if (begin == 0 || end <= begin) return false;
    for (std::uintptr_t p = begin; p != end; p += page) {
      if (p >= low_ && p < high_) continue;
      // On the first page the word itself: valgrind reports other words below the stack pointer as errors.
      if (!kernel_can_read(p == begin ? address & ~std::uintptr_t{7} : p)) return false;
    }
    const bool apart = end < low_ || begin > high_;
    low_ = apart || begin < low_ ? begin : low_;
    high_ = apart || end > high_ ? end : high_;
    return true;
  }

  std::uintptr_t low_ = 0, high_ = 0;
  bool trusted_ = false;
};

}  // namespace usher::preload
