// Changes of a word by the only thread of a process, if its signal handlers may change the word, too. Each change is
// one instruction, which a handler cannot interrupt. On x86-64 the instruction needs no lock prefix, since no other
// thread runs; other architectures use the ordinary atomic operations.
#pragma once

#include "usher/core/cxx20.hpp"

#include <atomic>
#include <cstdint>

namespace usher::inline v2::native_detail {

struct lone_thread {
  /// Adds `n`, and returns the previous value.
  static std::uint32_t add_alone(std::atomic<std::uint32_t>& word, std::uint32_t n) {
#if defined(__x86_64__)
    static_assert(sizeof word == sizeof n);
    asm volatile("xaddl %0, %1" : "+r"(n), "+m"(word) : : "cc", "memory");
    return n;
#else
    return word.fetch_add(n, std::memory_order_acq_rel);
#endif
  }

  /// Replaces `seen` by `next`. Returns false if the word had another value.
  static bool replace_alone(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::uint32_t next) {
#if defined(__x86_64__)
    bool done;
    asm volatile("cmpxchgl %3, %1" : "=@ccz"(done), "+m"(word), "+a"(seen) : "r"(next) : "memory");
    return done;
#else
    return word.compare_exchange_strong(seen, next, std::memory_order_acq_rel, std::memory_order_relaxed);
#endif
  }
};

}  // namespace usher::inline v2::native_detail
