// A relaxed load of a word at a constant address. gcc 12 loads atomics on AArch64 only from an address in a
// register, which it computes by an instruction of its own; this load contains the offset. The word is
// aligned, so it is loaded at once.
#pragma once

#include <atomic>

namespace usher::preload {

template <class T>
T load_relaxed(const std::atomic<T>& word) {
#if defined(__aarch64__)
  static_assert(sizeof(T) == 8 && sizeof word == 8);
  return *reinterpret_cast<const volatile T*>(&word);
#else
  return word.load(std::memory_order_relaxed);
#endif
}

}  // namespace usher::preload
