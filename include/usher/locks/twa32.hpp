// TWA in 32 bits: ticket and grant are fields of one word. The next thread in line watches this word, the waiters
// behind it the process-wide waiting array. The paper compared this form with qspinlock in the Linux kernel.
//
// Source: TWA (extended version), §4.9; Listing 1, lines 20–71.
// Guarantees: FIFO (doorway: the fetch-and-add); no thread is overtaken or starves. This holds as long as fewer than
// 2^16 threads wait (spinning) or 2^15 (parking).
// Cost: lock one fetch-and-add; unlock one fetch-and-add for the hand-over, then one on the array (spinning) or a load
// of the slot (parking).
// Layout: one 32-bit word, ticket32.hpp. The array: waiting_array.hpp.
//
// Every arrival changes the word that the next thread in line watches, but only this one thread watches it.
#pragma once

#include "usher/core/waiting_array.hpp"
#include "usher/locks/ticket32.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform_with_tables P, class W>
class twa32 {
 public:
  static constexpr lock_traits traits{
      .summary = "TWA in one 32-bit word",
      .paper = "TWA (extended), section 4.9",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .bounded_doorway = true,
      .words = 1,
      .checker_threads = 4,  // far waiters may share a slot
  };

  void lock() {
    P::doorway(this);
    // (1) acquire: pairs with (2), the addition to grant in unlock().
    const std::uint32_t seen = word_.fetch_add(fields::ticket_one, std::memory_order_acquire);
    if (fields::ticket(seen) != fields::grant(seen)) [[unlikely]]
      wait(fields::ticket(seen), fields::distance(fields::ticket(seen), seen));
    P::admitted(this);
  }

  bool try_lock() { return fields::try_lock(word_); }

  void unlock() {
    const std::uint32_t seen = word_.load(std::memory_order_relaxed);
    auto& slot = slot_of(fields::after(fields::grant(seen), 2));
    const std::uint32_t step = fields::grant_step(seen);
    if constexpr (!W::parks) {
      word_.fetch_add(step, std::memory_order_release);  // (2) release: pairs with (1)
    } else {
      const wake_key key = P::key_of(word_);
      // (2) release: pairs with (1), the addition in lock(). At most one thread sleeps on the word, and it is woken.
      // The same operation clears a mark that the load above has seen: only the holder clears marks. A mark set later
      // stays for the next unlock. Sequentially consistent: (4) in waiting_array.hpp, the load of the slot, requires
      // this.
      if (word_.fetch_add(step - (seen & fields::asleep), std::memory_order_seq_cst) & fields::asleep) [[unlikely]]
        P::wake(key, every_sleeper, all);
    }
    waiting_array::notify<P, W>(slot);
  }

  void count_from(std::uint32_t n) { word_.store(fields::of_number(n), std::memory_order_relaxed); }

 private:
  using fields = ticket32_word<W>;

  auto& slot_of(std::uint32_t number) const { return array_.slot(number * ticket_words::one, this); }

  [[gnu::cold, gnu::noinline]] void wait(std::uint32_t mine, std::uint32_t ahead) {
    if (ahead > 1)
      waiting_array::watch<P, W>(
          slot_of(mine), [&](std::memory_order order) { return fields::distance(mine, word_.load(order)) <= 1; });
    fields::template wait_until<P>(word_, mine, every_sleeper);
  }

  typename P::template atomic<std::uint32_t> word_;
  [[no_unique_address]] shared_array<P> array_;
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
