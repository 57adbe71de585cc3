// A lock-free cache of values by key, shared by all threads and signal handlers. An entry has two words, which are read
// and written separately: the value, and key ^ value as a check. So words of two different entries, or of an old and a
// new one, are not accepted as an entry.
#pragma once

#include <atomic>
#include <cstdint>

namespace usher::recorder {

constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t x = (a ^ b) * 0x9e3779b97f4a7c15;
  return x ^ x >> 29;
}

/// `number` of entries. Each key may be in two adjacent entries; a later value may replace an earlier one.
template <unsigned number>
class found_values {
 public:
  /// Returns 0 if no value is known.
  std::uint64_t get(std::uint64_t key) const {
    for (const unsigned second : {0u, 1u}) {
      const entry& e = entries_[(key % number) ^ second];
      const std::uint64_t value = e.value.load(std::memory_order_relaxed);
      if ((e.check.load(std::memory_order_relaxed) ^ value) == key) return value;
    }
    return 0;
  }
  void put(std::uint64_t key, std::uint64_t value) {
    const unsigned first = key % number;
    const bool is_taken = entries_[first].value.load(std::memory_order_relaxed) != 0;
    const bool other_is_taken = entries_[first ^ 1].value.load(std::memory_order_relaxed) != 0;
    entry& e = entries_[is_taken && !other_is_taken ? first ^ 1 : first];
    e.value.store(value, std::memory_order_relaxed);
    e.check.store(key ^ value, std::memory_order_relaxed);
  }

 private:
  static_assert(number % 2 == 0);
  struct entry {
    std::atomic<std::uint64_t> check, value;
  };
  alignas(32) entry entries_[number];
};

}  // namespace usher::recorder
