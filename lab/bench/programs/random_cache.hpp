// Random Replacement Cache (TWA, extended, §4.4): a key-value cache of limited capacity under one lock; a miss replaces
// a random element. As in the paper's model, a hash table maps each key to a slot, and a slot contains a key and its
// value.
#pragma once

#include "lab/bench/programs/keyset.hpp"
#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class random_cache {
 public:
  static description about() {
    return {.name = "random-cache",
            .summary = "a key-value cache with random replacement under one lock",
            .source = "TWA (extended), section 4.4, figure 6",
            .parameters = {{"capacity", 10000, 1, 1000000, "elements"},
                           {"keys", 50000, 1, 100000000, "keys are below this"},
                           {"fresh", 10, 0, 100, "percentage of accesses with a new key"},
                           {"delay", 200, 0, 1000000, "at most so many PRNG steps between accesses"}},
            .guards = true};
  }

  explicit random_cache(W& w)
      : lock_(w.make_lock()),
        capacity_(static_cast<std::uint32_t>(w.parameter("capacity"))),
        keys_(static_cast<std::uint32_t>(w.parameter("keys"))),
        fresh_(static_cast<std::uint32_t>(w.parameter("fresh"))),
        delay_(static_cast<std::uint32_t>(w.parameter("delay"))),
        mine_(w.threads(), keyset(keys_of_a_thread)),
        filled_(w.template make<word>()) {
    while (table_size_ < 2 * capacity_) table_size_ *= 2;
    table_ = w.template make_array<word>(table_size_);
    slots_ = w.template make_array<word>(capacity_);
  }

  void operator()(typename W::thread& t) {
    keyset& mine = mine_[t.index()];
    mine.fill(t, keys_);
    const std::uint32_t place = mine.place(t);
    const std::uint32_t key = mine.key(t, place, fresh_, keys_);
    lock_.lock();
    const std::uint32_t value = access(t, key);
    lock_.unlock();
    if (value != hash(key)) throw std::logic_error("random-cache: another key's value");
    t.count();
    t.steps(t.uniform(delay_));
  }

 private:
  using word = typename W::platform::template plain<std::uint64_t>;
  static constexpr std::uint32_t keys_of_a_thread = 10;

  static std::uint32_t hash(std::uint32_t key) {
    std::uint64_t h = (key + 1) * 0x9e3779b97f4a7c15u;
    return static_cast<std::uint32_t>((h ^ h >> 29) * 0xbf58476d1ce4e5b9u >> 32);
  }
  static std::uint64_t pack(std::uint32_t high, std::uint32_t low) { return std::uint64_t{high} << 32 | low; }
  static std::uint32_t high(std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); }
  static std::uint32_t low(std::uint64_t v) { return static_cast<std::uint32_t>(v); }

  std::uint32_t home(std::uint32_t key) const { return hash(key) & (table_size_ - 1); }
  std::uint32_t after(std::uint32_t at) const { return (at + 1) & (table_size_ - 1); }

  /// Returns the value of the key, and inserts the key if it is missing.
  std::uint32_t access(typename W::thread& t, std::uint32_t key) {
    t.overhead(20, 1);  // hashes, compares, branches
    std::uint32_t at = home(key);
    for (std::uint64_t e; (e = table_[at].get()) != 0; at = after(at))
      if (high(e) == key + 1) return low(slots_[low(e)].get());

    auto slot = static_cast<std::uint32_t>(filled_.get());
    if (slot < capacity_) {
      filled_.set(slot + 1);
    } else {
      slot = t.uniform(capacity_);
      remove(high(slots_[slot].get()));
      at = home(key);
      while (table_[at].get() != 0) at = after(at);
    }
    slots_[slot].set(pack(key, hash(key)));
    table_[at].set(pack(key + 1, slot));
    return hash(key);
  }

  /// Erases a key from the hash table, which uses linear probing without tombstones: later entries of the same run of
  /// used slots move up.
  void remove(std::uint32_t key) {
    std::uint32_t hole = home(key);
    while (high(table_[hole].get()) != key + 1) hole = after(hole);
    std::uint64_t e;
    for (std::uint32_t at = after(hole); (e = table_[at].get()) != 0; at = after(at)) {
      const std::uint32_t from = home(high(e) - 1);
      if (((at - from) & (table_size_ - 1)) < ((at - hole) & (table_size_ - 1)))
        continue;  // the gap is before this entry's first place
      table_[hole].set(e);
      hole = at;
    }
    table_[hole].set(0);
  }

  typename W::lock lock_;
  std::uint32_t capacity_, keys_, fresh_, delay_, table_size_ = 16;
  std::vector<keyset> mine_;
  word& filled_;
  word* table_ = nullptr;  // key + 1 and slot; 0: empty
  word* slots_ = nullptr;  // key and value
};

}  // namespace usher::workloads
