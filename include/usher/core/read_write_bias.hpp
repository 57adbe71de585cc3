// Visible readers of a read-write lock (BRAVO): a visible reader writes to a slot of a table, and to no word of the
// lock. The words: read_write_words.hpp.
//
// Source: Dice and Kogan, "BRAVO – Biased Locking for Reader-Writer Locks" (ATC 2019), Listing 1.
//
// While `biased` is set, a reader enters by a compare-and-swap that puts the lock's id into a slot of a table that all
// locks of the process share; then it reads `biased` again:
//
//     reader   slot: 0 -> id       (b1)        writer   in: clears `biased`   (b3)
//              loads in            (b2)                 loads every slot      (b4)
//
// All four operations are sequentially consistent, so all threads agree on one order of them. If (b2) still sees
// `biased`, it comes before (b3), and so (b1) comes before (b4): the writer sees the slot. The writer then moves the
// reader to the arrivals (arrivals + 1, slot: id -> 0), and waits for its exit as for any other. If (b2) does not see
// `biased`, the reader removes its id and enters by the arrivals. With release and acquire alone both could miss each
// other's write: (b1) could still be in a store buffer during (b2), and (b3) during (b4).
//
// Only the head of the writers' queue clears `biased`, before it claims the lock: so readers can enter by the arrivals
// while the writer searches the table. (The paper's writer locks, then searches, then waits for each slot.) No reader
// sets `biased` while `writing` or `queue` is set, because it sets `biased` by a compare-and-swap of the whole word. So
// `biased` stays clear until the writer has left the queue, with the claim or without. A lock that is not biased has no
// visible readers, except those that are about to remove their id.
//
// A slot is found by hashing the thread and the lock, both when the reader enters and when it leaves. If two threads
// hash to one slot, one of them is in the slot and the other in the arrivals. Either may leave either way, because the
// sum of slots and arrivals is right at all times. For the same reason a reader may remove its id as if it left, and
// any thread may unlock. A reader that does not find its id acquires the release by which another thread removed the
// id: (b7).
//
// A reader that enters by the arrivals sets `biased`, but not until nine times the duration of the last search has
// passed (the paper's N). So searches take at most a tenth of the time.
#pragma once

#include <atomic>
#include <cstdint>

#include "usher/core/platform.hpp"
#include "usher/core/read_write_windows.hpp"
#include "usher/core/visible_slot.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

/// The time after a writer's search for visible readers in which no reader sets `biased`. Times are in units of 1.024
/// µs and wrap every 73 minutes. The value 0 of read_write_words::inhibit means: no pause.
struct bias_pause {
  static constexpr std::uint32_t times = 9;           // how many times the length of the search: the paper's N
  static constexpr std::uint32_t longest = 1u << 26;  // 69 s

  /// Returns the end of the pause after a search from `begin` to `end`.
  static constexpr std::uint32_t after(std::uint32_t begin, std::uint32_t end) {
    const std::uint64_t pause = std::uint64_t{times} * (std::uint64_t{end - begin} + 1);
    const std::uint32_t until = end + (pause < longest ? std::uint32_t(pause) : longest);
    return until != 0 ? until : 1;
  }
  /// Returns whether the pause lasts at the time `now`. A pause whose end is not deleted seems to last again, for 69 s,
  /// 72 minutes later.
  static constexpr bool lasts(std::uint32_t until, std::uint32_t now) { return until - now - 1 < longest; }
};

/// The part of a lock that handles visible readers. If Biased is false, there are none.
template <platform_with_asymmetric_fences P, class W, class Writers, bool Biased>
class read_write_bias : protected read_write_windows<P, W, Writers> {
  using base = read_write_windows<P, W, Writers>;

 public:
  /// Lets a reader enter by its slot. Returns false if the reader must enter by the arrivals.
  bool enter_visibly() {
    if ((in_.load(order::relaxed) & biased) == 0) return false;
    auto* const slots = P::visible_readers();
    if (slots == nullptr) [[unlikely]]
      return false;
    std::uint64_t empty = 0;
    // (b1)
    if (!slots[own_index()].compare_exchange_strong(empty, id(), order::seq_cst, order::relaxed)) return false;
    // (b2) It is also (1): `biased` was set after the last writer's unlock, in the same word.
    if ((in_.load(order::seq_cst) & biased) != 0) [[likely]]
      return true;
    unlock_shared();
    return false;
  }

  /// Lets a reader leave: by its slot, or else by the exits.
  void unlock_shared() {
    if constexpr (Biased)
      if (leave_visibly()) return;
    count_exit();
  }

  /// Called for a new object at an address at which an earlier object may have ended with visible readers that never
  /// unlocked. No thread uses the new object yet.
  void forget_visible_readers() {
    if constexpr (Biased)
      if (auto* const slots = P::visible_readers(); slots != nullptr)
        for (std::uint32_t i = 0; i < P::visible_slots; i++)
          if (slots[i].load(order::relaxed) == id()) slots[i].store(0, order::relaxed);
  }
  /// Returns whether a slot contains the lock's id.
  bool has_visible_readers() const { return has_visible(); }

 protected:
  using base::base, base::in_, base::words_;
  using base::biased, base::count_exit, base::one, base::queue, base::writing;
  using typename base::order;

  static constexpr std::uint32_t looks_at_clock = 16;  // one reader in so many calls set_biased(). Chosen, not measured

  std::uint64_t id() const { return P::lock_id(&words_); }
  /// The index of the calling thread's slot, from a hash of the thread's tag and the lock.
  std::uint32_t own_index() const { return visible_slot_of<P::visible_slots>(reader_tag(), P::salt(&words_)); }
  /// A number that differs between most threads: the platform's reader_tag(), which a fork does not change, or else the
  /// owner tag.
  static std::uint32_t reader_tag() {
    if constexpr (requires { P::reader_tag(); })
      return P::reader_tag();
    else
      return P::owner_tag();
  }

  /// Removes the lock's id from the thread's slot. Returns false if it is not there: the reader then leaves by the
  /// exits.
  bool leave_visibly() {
    auto* const slots = P::visible_readers();
    if (slots == nullptr) return false;
    auto& mine = slots[own_index()];
    // (b7) acquire: pairs with (b5). If another reader of the lock has removed the id that this thread put into the
    // slot, this thread's exit stands for that reader, and publishes its critical section to the next writer.
    std::uint64_t seen = mine.load(order::acquire);
    while (seen == id()) {
      // (b5) release: pairs with (b4) and (b7). Nothing of the lock is touched after it. On failure it is (b7).
      if (mine.compare_exchange_weak(seen, 0, order::acq_rel, order::acquire)) return true;
      P::backoff(0);
    }
    return false;
  }

  /// Returns whether a reader that arrived when `in` was `seen` must call set_biased().
  static bool sets_biased(std::uint32_t seen) {
    if constexpr (Biased)
      return (seen & biased) == 0 && seen / one % P::count_limit(looks_at_clock) == 0;
    else
      return false;
  }

  /// Called by a reader that holds the lock: lets later readers enter by slots.
  [[gnu::cold, gnu::noinline]] void set_biased() {
    if (!P::prepare_visible_readers()) return;
    std::uint32_t until = words_.inhibit.load(order::relaxed);
    if (until != 0) {
      if (bias_pause::lasts(until, now())) return;
      // The end of the pause is deleted, so that the pause does not seem to last again when the clock has wrapped. By a
      // compare-and-swap, because a writer may have begun another pause.
      if (!words_.inhibit.compare_exchange_strong(until, 0, order::relaxed, order::relaxed)) return;
    }
    std::uint32_t seen = in_.load(order::relaxed);
    if ((seen & (writing | queue | biased)) == 0)
      // (b6) release: publishes the table's address to (b3).
      in_.compare_exchange_strong(seen, seen | biased, order::release, order::relaxed);
  }

  static std::uint32_t now() { return std::uint32_t(P::now() >> 10); }

  void inhibit_from(std::uint32_t begin) { words_.inhibit.store(bias_pause::after(begin, now()), order::relaxed); }

  /// Called by the head of the queue: clears `biased`, and moves the visible readers to the arrivals.
  [[gnu::cold, gnu::noinline]] void revoke() {
    const std::uint32_t begin = now();
    in_.fetch_and(~biased, order::seq_cst);  // (b3)
    auto* const slots = P::visible_readers();
    for (std::uint32_t i = 0; i < P::visible_slots; i++)
      if (slots[i].load(order::seq_cst) == id()) move_to_arrivals(slots[i]);  // (b4)
    inhibit_from(begin);
  }

  /// Counts the arrival before it clears the slot, so that slots and arrivals never count fewer readers than there are.
  template <class Slot>
  void move_to_arrivals(Slot& s) {
    in_.fetch_add(one, order::relaxed);
    std::uint64_t seen = id();
    // (b4) acquire, if the reader has left; release: pairs with (b7), so that the reader's exit comes after the count.
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
