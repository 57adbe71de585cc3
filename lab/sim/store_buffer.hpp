// The store buffer of a simulated thread. access.cpp determines when each store is written.
#pragma once

#include <array>
#include <cstdint>

#include "lab/sim/machine.hpp"

namespace usher::sim {

/// A retired store in the store buffer.
struct buffered_store {
  enum class step : std::uint8_t {
    waits,    ///< for older stores; ownership is not requested yet
    asks,     ///< the request is under way to the line's owner or home
    owns,     ///< the core owned the line at `done`; it may have lost it since
    written,  ///< visible to other cores
  } at = step::written;
  std::uint8_t size = 0;
  bool after_hit = false;  ///< a store that hit came between this one and the previous entry
  unsigned core = 0;       ///< the core whose buffer has the store: the thread may migrate meanwhile
  void* word = nullptr;
  std::uint64_t value = 0;
  cycles begun = 0, done = 0;
};

/// The store buffer: stores are written in program order. A written store is kept until the thread's clock has reached
/// the time of the write: until then it occupies an entry and its value is forwarded to loads.
struct store_queue {
  std::uint32_t first = 0, end = 0;  ///< the kept stores are numbered first to end - 1
  std::uint32_t next = 0;            ///< the next store to be written; `end`: all are written
  bool hit_since = false;            ///< a store has hit since the youngest one was buffered
  bool awaited = false;              ///< the thread waits …
  std::uint32_t awaited_until = 0;   ///< … until all stores before this number are written
  cycles done = 0;                   ///< when the latest written store was written
  std::array<buffered_store, most_store_entries> entries{};

  buffered_store& at(std::uint32_t n) { return entries[n % most_store_entries]; }
  bool pending() const { return next != end; }
  std::uint32_t kept() const { return end - first; }
  void forget_until(cycles now) {
    while (first != next && at(first).done <= now) first++;
  }

  /// Returns the youngest store that overlaps the word and that other cores may not see yet, or null.
  const buffered_store* youngest(const void* word, unsigned size, cycles now) {
    forget_until(now);
    const auto* const begin = static_cast<const char*>(word);
    for (std::uint32_t n = end; n != first; n--) {
      const buffered_store& e = at(n - 1);
      const auto* const other = static_cast<const char*>(e.word);
      if (other < begin + size && begin < other + e.size) return &e;
    }
    return nullptr;
  }

  /// Adds a store that hit and is written at the time `written`. No older store is pending.
  void keep_written(void* word, std::uint64_t value, unsigned size, unsigned core, cycles now, cycles written) {
    at(end) = {buffered_store::step::written, std::uint8_t(size), false, core, word, value, now, written};
    hit_since = true;
    next = ++end;
    done = written;
  }
};

}  // namespace usher::sim
