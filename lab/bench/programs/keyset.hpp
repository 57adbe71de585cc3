// The set of keys that a thread of a program uses repeatedly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace usher::workloads {

class alignas(128) keyset {
 public:
  explicit keyset(std::size_t keys) : keys_(keys) {}

  /// At the thread's first call, fills the set with random keys below `below`.
  template <class Thread>
  void fill(Thread& t, std::uint32_t below) {
    if (filled_) return;
    for (std::uint32_t& k : keys_) k = t.uniform(below);
    filled_ = true;
  }

  /// Returns a random index into the set.
  template <class Thread>
  std::uint32_t place(Thread& t) const {
    return t.uniform(static_cast<std::uint32_t>(keys_.size()));
  }

  /// Returns the key at the index. With a probability of `fresh` percent, first replaces it by a random key below
  /// `below`.
  template <class Thread>
  std::uint32_t key(Thread& t, std::uint32_t place, std::uint32_t fresh, std::uint32_t below) {
    if (t.uniform(100) < fresh) keys_[place] = t.uniform(below);
    return keys_[place];
  }

 private:
  std::vector<std::uint32_t> keys_;
  bool filled_ = false;
};

}  // namespace usher::workloads
