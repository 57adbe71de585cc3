// A relaxed load of a word at a constant address. For a std::atomic on AArch64, gcc 12 computes the address by an
// instruction of its own; this load contains the offset. The word is aligned, so the load is atomic.
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
