// TWA: a ticket lock in which only the next in line watches grant. Those further away watch a slot of a waiting array
// that all locks of the process share, so that a hand-over disturbs one cache and not all. Here are also the variants
// that differ in the array, and in how many are told at a time.
//
// Source: Dice & Kogan, "TWA – Ticket Locks Augmented with a Waiting Array" (Euro-Par 2019), Listing 1, lines 20–71;
// extended version §2, §4.1, §6.
// Guarantees: FIFO (doorway: the fetch-and-add); nobody is overtaken, nobody starves. As large as a ticket lock.
// Cost: lock one fetch-and-add. Unlock, spinning: a store, then one fetch-and-add on the array, after the hand-over.
// Unlock, parking: one exchange, then a look at the array, and a compare-and-swap on it if somebody watches there.
// Layout: two 32-bit words in one line, ticket_words.hpp. The array: waiting_array.hpp.
//
//     twa             one slot a number, 4096 slots
//     twa-sized       as many slots as suit the number of CPUs
//     twa-quantized   one slot for each gang of Gang numbers; every Gang-th unlock tells the next gang, which then
//                     watches grant: the average unlock is cheaper, up to Gang threads watch one word
//     twa-private     4096 slots of the lock's own
//
// An array that is in the lock is not there any more when the lock has been handed over. So twa-private's hand-over is
// followed by its notification as in the paper, but it is the new owner who notifies, first thing in its critical section.
#pragma once

#include "usher/core/waiting_array.hpp"

namespace usher::inline v1 {

template <platform_with_tables P, class W, class Array = shared_array<P>, std::uint32_t LongTermThreshold = 1,
          std::uint32_t Gang = 1, bool OwnerNotifies = Array::in_lock>
class basic_twa {
  static_assert(LongTermThreshold >= 1, "somebody must watch grant");
  static_assert(std::has_single_bit(Gang), "numbers wrap at the end of a gang");
  static_assert(OwnerNotifies || !Array::in_lock, "unlock does not touch the lock after the hand-over");

 public:
  static constexpr lock_traits traits{
      .summary = Gang > 1 ? "TWA that brings waiters near in gangs" : Array::summary,
      .paper = Gang > 1 ? "TWA (extended), section 6, quantized" : Array::paper,
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .bounded_doorway = true,
      .words = 2,
      .kinds = every_waiting_kind_there_is,
  };

  void lock() {
    P::doorway(this);
    const std::uint32_t mine = ticket_.fetch_add(ticket_words::one, std::memory_order_relaxed);
    // (1) acquire: pairs with (2).
    if (ticket_words::number(grant_.load(std::memory_order_acquire)) != mine) [[unlikely]]
      wait(mine);
    if constexpr (OwnerNotifies) notify_as_owner(mine);
    P::admitted(this);
  }

  bool try_lock() {
    if (!ticket_words::try_lock(ticket_, grant_)) return false;
    if constexpr (OwnerNotifies) notify_as_owner(ticket_words::number(grant_.load(std::memory_order_relaxed)));
    return true;
  }

  void unlock() {
    const std::uint32_t next = ticket_words::number(grant_.load(std::memory_order_relaxed)) + ticket_words::one;
    if constexpr (OwnerNotifies) {
      hand_over(next);
    } else {
      word& slot = slot_of(next + LongTermThreshold * ticket_words::one);
      hand_over(next);                                        // hand-over first …
      if (tells_at(next)) waiting_array::notify<P, W>(slot);  // … then the array: outside the critical section
    }
  }

  void count_from(std::uint32_t n) {
    ticket_.store(n * ticket_words::one, std::memory_order_relaxed);
    grant_.store(n * ticket_words::one, std::memory_order_relaxed);
  }

  /// The slot that the thread with this number watches while it is far.
  auto& slot_of(std::uint32_t number) { return array_.slot(number / Gang & ~ticket_words::asleep, this); }

  /// The same lock with arrays that few threads fill, for tests.
  using small = basic_twa<P, W, std::conditional_t<Array::in_lock, private_array<P, 2>, Array>, LongTermThreshold,
                          (Gang > 2 ? 2 : Gang), OwnerNotifies>;

 private:
  using word = typename P::template atomic<std::uint32_t>;

  void hand_over(std::uint32_t next) {
    if constexpr (!W::parks) {
      grant_.store(next, std::memory_order_release);  // (2)
    } else {
      const wake_key key = P::key_of(grant_);
      // (2) release: pairs with (1). The few threads that watch grant are all woken and the mark is gone with the
      // exchange: those not yet served set it again. Sequentially consistent: waiting_array.hpp (4).
      if (grant_.exchange(next, std::memory_order_seq_cst) & ticket_words::asleep) [[unlikely]]
        P::wake(key, every_sleeper, all);
    }
  }

  /// Whether the hand-over to `next` brings others near.
  static bool tells_at(std::uint32_t next) { return (next / ticket_words::one + LongTermThreshold) % Gang == 0; }

  /// At most LongTermThreshold threads are ahead, or the first of the gang is as near as that.
  bool is_near(std::uint32_t mine, std::memory_order order) const {
    const std::uint32_t grant = ticket_words::number(grant_.load(order));
    const std::uint32_t ahead = ticket_words::distance(mine, grant);
    if constexpr (Gang == 1) return ahead <= LongTermThreshold;
    // In the same gang as the thread that is the threshold away.
    return ahead <= LongTermThreshold + mine / ticket_words::one % Gang;
  }

  [[gnu::cold, gnu::noinline]] void wait(std::uint32_t mine) {
    if (!is_near(mine, std::memory_order_acquire))
      waiting_array::watch<P, W>(slot_of(mine), [&](std::memory_order order) { return is_near(mine, order); });
    ticket_words::wait_until<P, W>(grant_, mine, every_sleeper);
  }

  void notify_as_owner(std::uint32_t mine) {
    // What waiting_array::notify() asks for: the hand-over was seen in the one order of all such operations.
    if constexpr (W::parks) (void)grant_.load(std::memory_order_seq_cst);
    if (tells_at(mine)) waiting_array::notify<P, W>(slot_of(mine + LongTermThreshold * ticket_words::one));
  }

  word ticket_;
  word grant_;
  [[no_unique_address]] Array array_;
};

/// With the papers' parameters.
template <platform_with_tables P, class W>
using twa = basic_twa<P, W>;

template <platform_with_tables P, class W>
using twa_sized = basic_twa<P, W, array_by_cpus<P>>;

/// The paper gives no size of a gang: chosen, not measured.
template <platform_with_tables P, class W>
using twa_quantized = basic_twa<P, W, shared_array<P>, 1, 4>;

template <platform_with_tables P, class W>
using twa_private = basic_twa<P, W, private_array<P>>;

}  // namespace usher::inline v1
