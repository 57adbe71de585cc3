// Reads memory of this process that may be unmapped, without faults and without a signal handler: see unwind.hpp.
#pragma once

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <sys/syscall.h>

namespace usher::recorder {

/// Whether the kernel can read the 8 bytes at the address. rt_sigprocmask copies the signal set before it checks the
/// operation, and the operation passed here is invalid, so nothing changes. A raw system call, because the C library's
/// wrapper writes errno.
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

/// The memory that may be read: a pinned range, and the pages that the kernel has tested since this object was made.
class readable_memory {
 public:
  readable_memory() = default;
  /// Pins [low, high): the caller guarantees that this memory stays mapped while the object is used.
  readable_memory(std::uintptr_t low, std::uintptr_t high) { pin(low, high); }
  void pin(std::uintptr_t low, std::uintptr_t high) {
    low_ = low;
    size_ = high - low;
  }
  bool is_pinned(std::uintptr_t address, std::size_t size) const {
    return address - low_ < size_ && size <= size_ - (address - low_);
  }
  /// From now on only the pinned range can be read.
  void refuse_others() {
    refused_ = true;
    trusted_ = false;
    asked_low_ = asked_high_ = 0;
  }
  /// If `on`, all memory counts as mapped and is not tested.
  void trust(bool on) { trusted_ = on; }

  bool has(std::uintptr_t address, std::size_t size) {
    return is_pinned(address, size) ||
           (address >= asked_low_ && address < asked_high_ && size <= asked_high_ - address) || trusted_ ||
           ask(address, size);
  }

  template <class T>
  bool read(std::uintptr_t address, T& value) {
    if (!has(address, sizeof value)) return false;
    std::memcpy(&value, std::bit_cast<const void*>(address), sizeof value);
    return true;
  }

  static constexpr std::uintptr_t page = 4096;  ///< the smallest page size

  /// Whether the kernel can read each page from that of `from` up to `end`, a multiple of the page size. In the first
  /// page the word at `from` is tested: valgrind reports words below the stack pointer as errors.
  static bool can_read(std::uintptr_t from, std::uintptr_t end) {
    for (std::uintptr_t at = from & ~std::uintptr_t{7}; at < end; at = (at & ~(page - 1)) + page)
      if (!kernel_can_read(at)) return false;
    return true;
  }

 private:
  [[gnu::cold, gnu::noinline]] bool ask(std::uintptr_t address, std::size_t size) {
    const std::uintptr_t begin = address & ~(page - 1), end = (address + size + page - 1) & ~(page - 1);
    if (refused_ || begin == 0 || end <= begin || !can_read(address, end)) return false;
    const bool apart = end < asked_low_ || begin > asked_high_;
    asked_low_ = apart || begin < asked_low_ ? begin : asked_low_;
    asked_high_ = apart || end > asked_high_ ? end : asked_high_;
    return true;
  }

  std::uintptr_t low_ = 0, size_ = 0, asked_low_ = 0, asked_high_ = 0;
  bool trusted_ = false, refused_ = false;
};

}  // namespace usher::recorder
