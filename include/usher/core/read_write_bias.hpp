// Visible readers of a read-write lock (BRAVO): they write to a slot of a table, and to no word of the lock. The words:
// read_write_words.hpp.
//
// Source: Dice and Kogan, "BRAVO – Biased Locking for Reader-Writer Locks" (ATC 2019), Listing 1.
//
// While `biased` is set, a reader enters by a compare-and-swap that puts the lock's id into a slot of a table that all
// locks of the process share; then it looks at `biased` again:
//
//     reader   slot: 0 -> id       (b1)        writer   in: clears `biased`   (b3)
//              loads in            (b2)                 loads every slot      (b4)
//
// All four operations are sequentially consistent, so they have one order that all threads agree on. If (b2) still sees
// `biased`, it comes before (b3), and so (b1) comes before (b4): the writer sees the slot. It then moves the reader to
// the arrivals: arrivals + 1, slot: id -> 0; and waits for its exit as for any other. If (b2) does not see `biased`, the
// reader takes its id back and enters by arrivals. With release and acquire alone both could miss each other's write:
// (b1) could be in a store buffer while (b2) loads, and (b3) while (b4) does.
// Only the head of the writers' queue clears `biased`, and it does so before it claims the lock: so readers still enter
// by arrivals while the writer searches the table. (The paper's writer locks, then searches, then waits for each slot.) No
// reader sets `biased` while `writing` or `queue` is set; setting it is a compare-and-swap of the whole word. So `biased`
// stays clear until the writer has left the queue, with the claim or without: a lock that is not biased has no visible
// readers, but those that are about to take their id back.
// A slot is found by hashing the thread and the lock, when the reader enters and again when it leaves. Two threads may
// have the same slot. Then one of them is in the slot and the other one in arrivals, and it does not matter which
// leaves in which way, because the sum is right at all times. So a reader that takes its id back does the same as one
// that leaves, and one that does not find its id acquires what the thread that took it released: (b7). So any thread may unlock.
// A reader that enters by arrivals sets `biased`, unless the time of the last search, times nine, has not passed yet
// (the paper's N): searches take at most a tenth of the time.
#pragma once

#include <atomic>
#include <cstdint>

#include "usher/core/platform.hpp"
#include "usher/core/read_write_windows.hpp"
#include "usher/core/visible_slot.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

/// The time after a writer's search for visible readers in which readers do not become visible again: BRAVO's N times the
/// length of the search, so that searches take at most a tenth of the time. Times are in units of 1.024 µs and wrap every 73
/// minutes. 0 in read_write_words::inhibit is no such time.
struct bias_pause {
  static constexpr std::uint32_t times = 9;           // times the search: the paper's N
  static constexpr std::uint32_t longest = 1u << 26;  // 69 s

  /// The end of the pause after a search from `begin` to `end`.
  static constexpr std::uint32_t after(std::uint32_t begin, std::uint32_t end) {
    const std::uint64_t pause = std::uint64_t{times} * (std::uint64_t{end - begin} + 1);
    const std::uint32_t until = end + (pause < longest ? std::uint32_t(pause) : longest);
    return until != 0 ? until : 1;
  }
  /// Whether the pause lasts at `now`. A pause that nobody ends seems to last again for 69 s after 72 minutes.
  static constexpr bool lasts(std::uint32_t until, std::uint32_t now) { return until - now - 1 < longest; }
};

/// The part of a lock with the visible readers. If it is not Biased, there are none.
template <platform_with_asymmetric_fences P, class W, class Writers, bool Biased>
class read_write_bias : protected read_write_windows<P, W, Writers> {
  using base = read_write_windows<P, W, Writers>;

 public:
  /// A reader enters by its slot. False: it has to enter by the arrivals.
  bool enter_visibly() {
    if ((in_.load(order::relaxed) & biased) == 0) return false;
    auto* const slots = P::visible_readers();
    if (slots == nullptr) [[unlikely]]
      return false;
    std::uint64_t empty = 0;
    // (b1)
    if (!slots[own_index()].compare_exchange_strong(empty, id(), order::seq_cst, order::relaxed)) return false;
    // (b2) It is also (1): `biased` was set after the last writer's unlock, by operations on one word.
    if ((in_.load(order::seq_cst) & biased) != 0) [[likely]]
      return true;
    unlock_shared();
    return false;
  }

  /// A reader leaves: by its slot, or else by the exits.
  void unlock_shared() {
    if constexpr (Biased)
      if (leave_visibly()) return;
    count_exit();
  }

  /// For an object that begins its life where another may have ended it with visible readers, which never unlocked. No
  /// thread uses the new object yet.
  void forget_visible_readers() {
    if constexpr (Biased)
      if (auto* const slots = P::visible_readers(); slots != nullptr)
        for (std::uint32_t i = 0; i < P::visible_slots; i++)
          if (slots[i].load(order::relaxed) == id()) slots[i].store(0, order::relaxed);
  }
  /// Whether a slot has the lock's id.
  bool has_visible_readers() const { return has_visible(); }

 protected:
  using base::base, base::in_, base::words_;
  using base::biased, base::count_exit, base::one, base::queue, base::writing;
  using typename base::order;

  static constexpr std::uint32_t looks_at_clock = 16;  // one in so many readers does. Chosen, not measured

  std::uint64_t id() const { return P::lock_id(&words_); }
  /// The index of the calling thread's slot: the upper bits of its tag hashed with the lock.
  std::uint32_t own_index() const { return visible_slot_of<P::visible_slots>(reader_tag(), P::salt(&words_)); }
  /// A number that differs between most threads: the platform's reader_tag(), which is the same in a child, or else the
  /// owner tag.
  static std::uint32_t reader_tag() {
    if constexpr (requires { P::reader_tag(); })
      return P::reader_tag();
    else
      return P::owner_tag();
  }

  /// Takes the lock's id out of the thread's slot. False: it is not there, so a reader leaves by the exits.
  bool leave_visibly() {
    auto* const slots = P::visible_readers();
    if (slots == nullptr) return false;
    auto& mine = slots[own_index()];
    // (b7) acquire: pairs with (b5). If another reader of the lock has left by the slot that this thread had taken, this
    // thread's exit stands for that reader, and publishes its section to the next writer.
    std::uint64_t seen = mine.load(order::acquire);
    while (seen == id()) {
      // (b5) release: pairs with (b4) and (b7). Nothing of the lock is touched after it. On failure it is (b7).
      if (mine.compare_exchange_weak(seen, 0, order::acq_rel, order::acquire)) return true;
      P::backoff(0);
    }
    return false;
  }

  /// Whether the reader that came when `in` was `seen` is to call set_biased().
  static bool sets_biased(std::uint32_t seen) {
    if constexpr (Biased)
      return (seen & biased) == 0 && seen / one % P::count_limit(looks_at_clock) == 0;
    else
      return false;
  }

  /// A reader inside lets others enter by slots.
  [[gnu::cold, gnu::noinline]] void set_biased() {
    if (!P::prepare_visible_readers()) return;
    std::uint32_t until = words_.inhibit.load(order::relaxed);
    if (until != 0) {
      if (bias_pause::lasts(until, now())) return;
      // The pause is deleted, so that it does not seem to last again when the clock has wrapped. A compare-and-swap: a writer
      // may have begun another.
      if (!words_.inhibit.compare_exchange_strong(until, 0, order::relaxed, order::relaxed)) return;
    }
    std::uint32_t seen = in_.load(order::relaxed);
    if ((seen & (writing | queue | biased)) == 0)
      // (b6) release: publishes the table's address to (b3).
      in_.compare_exchange_strong(seen, seen | biased, order::release, order::relaxed);
  }

  static std::uint32_t now() { return std::uint32_t(P::now() >> 10); }

  void inhibit_from(std::uint32_t begin) { words_.inhibit.store(bias_pause::after(begin, now()), order::relaxed); }

  /// The head of the queue makes the lock unbiased, and moves its visible readers to the arrivals.
  [[gnu::cold, gnu::noinline]] void revoke() {
    const std::uint32_t begin = now();
    in_.fetch_and(~biased, order::seq_cst);  // (b3)
    auto* const slots = P::visible_readers();
    for (std::uint32_t i = 0; i < P::visible_slots; i++)
      if (slots[i].load(order::seq_cst) == id()) move_to_arrivals(slots[i]);  // (b4)
    inhibit_from(begin);
  }

  /// Counts the reader first: the sum of slots and arrivals is never less than the number of readers.
  template <class Slot>
  void move_to_arrivals(Slot& s) {
    in_.fetch_add(one, order::relaxed);
    std::uint64_t seen = id();
    // (b4) acquire, if the reader has left; release: pairs with (b7), so that its exit comes after the count.
    while (!s.compare_exchange_weak(seen, 0, order::acq_rel, order::acquire)) {
      if (seen != id()) return void(in_.fetch_sub(one, order::relaxed));
      P::backoff(0);
    }
  }

  bool has_visible() const {
    if constexpr (Biased) {
      auto* const slots = P::visible_readers();
      for (std::uint32_t i = 0; slots != nullptr && i < P::visible_slots; i++)
        if (slots[i].load(order::seq_cst) == id()) return true;  // (b4)
    }
    return false;
  }
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
