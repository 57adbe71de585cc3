// The observer's access to a record that the recorded program may be writing to.
//
// The attacker is the recorded program: it may write anything into the file at any time, even between two reads of one
// word, and the observer may be root. So the capacities are a copy that was checked once, each index from the file is
// compared with the copy, each word is read once before its use, and only atomic words are read here. All other data
// are read from a private copy (watch/access/shared_record.hpp).
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

#include "watch/contract/format.hpp"

namespace usher::inline v2::contract {

/// The size in bytes up to which an observer accepts a record.
inline constexpr std::uint64_t largest_file = std::uint64_t{1} << 30;

/// Whether a file may have these capacities: none but that of the waits is zero, no table has more entries than its indices can address, and
/// hash tables have a power of two of entries.
constexpr bool is_possible(const capacities& c) {
  const auto is_up_to = [](std::uint32_t n, std::uint32_t most) { return n != 0 && n <= most; };
  return is_up_to(c.objects, 1 << 22) && std::has_single_bit(c.objects) && is_up_to(c.details, 1 << 16) &&
         is_up_to(c.threads, 1 << 16) && is_up_to(c.processes, 1 << 16) && is_up_to(c.modules, 1 << 20) &&
         is_up_to(c.text, 1 << 26) && is_up_to(c.chains, 1 << 22) && std::has_single_bit(c.chains) &&
         is_up_to(c.charges, 1 << 24) && std::has_single_bit(c.charges) && is_up_to(c.windows, 1 << 12) &&
         c.waits <= 1 << 16 && view::size_for(c) <= largest_file;
}
static_assert(is_possible(capacities{}));

template <class T>
T read(const std::atomic<T>& word) {
  return word.load(std::memory_order_relaxed);
}

class live {
 public:
  live() = default;
  /// The view's capacities must pass is_possible(), and all of its memory must be mapped.
  live(const view& tables)
      : tables_(tables) {}  // NOLINT(google-explicit-constructor): a view is one without the checks

  const capacities& room() const { return tables_.room(); }
  /// The header, of which only atomic words may be read; its counts may exceed the room.
  contract::header& head() const { return tables_.head(); }
  std::uint32_t processes() const { return std::min(read(head().processes), room().processes); }
  std::uint32_t threads() const { return std::min(read(head().threads), room().threads); }
  std::uint32_t details() const { return std::min(read(head().details), room().details); }

  /// The entry with index i; null if i is out of range.
  process_slot* process(std::uint32_t i) const { return i < room().processes ? &tables_.process(i) : nullptr; }
  thread_slot* thread(std::uint32_t i) const { return i < room().threads ? &tables_.thread(i) : nullptr; }
  contract::object* object(std::uint32_t i) const { return i < room().objects ? &tables_.object(i) : nullptr; }
  contract::detail* detail(std::uint32_t i) const { return i < room().details ? &tables_.detail(i) : nullptr; }

 private:
  view tables_;
};

}  // namespace usher::inline v2::contract
