// TWA-Staged: a TWA whose unlock is the ticket lock's. The next two threads in line watch grant. When the second of
// them becomes the first, it notifies the third, which then leaves the waiting array. So waiters do all the work that
// TWA adds.
//
// Source: TWA (extended version), §6, TWA-Staged. Where the paper has "2 or more elements away" (group A), it must mean
// more than two.
// Guarantees: FIFO (doorway: the fetch-and-add); no thread is overtaken or starves. As large as a ticket lock.
// Cost: lock one fetch-and-add and, unlike the ticket lock, a load of ticket, which the thread has just written. Unlock
// a store (spinning) or one exchange (parking), without access to the array.
// Layout: two 32-bit words in one line, ticket_words.hpp. The array: waiting_array.hpp.
//
//     distance    stage   the thread
//     above 2     A       watches its slot
//     2           B       watches grant
//     1           C       watches grant, after it has notified the slot of its number + 1
//     0                   has the lock
//
//     A -> B -> C -> owner     each by one unlock. A -> B: when the thread in front goes from B to C, and notifies
//                              the slot
//
// The paper's rule has a gap. Between a thread's draw of its number and its load of grant, the threads before it may
// leave the lock. Then the thread is next or even served without having been in stage B. If the thread behind it has
// loaded grant earlier, and found that it was far, no thread would notify that second thread. Here every thread
// therefore calls look_behind() as soon as its distance is below 2, also on the fast path.
//
// The words and try_lock() are those of ticket_words.hpp. The arrival is not: its two operations are sequentially
// consistent.
#pragma once

#include "usher/core/waiting_array.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform_with_tables P, class W>
class twa_staged : ticket_words::front_end<P> {
  using base = ticket_words::front_end<P>;

 public:
  static constexpr lock_traits traits{
      .summary = "TWA whose waiters tell each other; a ticket lock's unlock",
      .paper = "TWA (extended), section 6, TWA-Staged",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .bounded_doorway = true,
      .words = 2,
      .checker_threads = 4,  // far waiters may share a slot
  };

  void lock() {
    P::doorway(this);
    const std::uint32_t mine = ticket_.fetch_add(ticket_words::one, std::memory_order_seq_cst);
    // (1) acquire: pairs with (2), the write to grant in unlock(). Sequentially consistent, as look_behind() requires.
    if (ticket_words::number(grant_.load(std::memory_order_seq_cst)) != mine) [[unlikely]]
      wait(mine);
    else
      look_behind(mine);
    P::admitted(this);
  }

  bool try_lock() {
    if (!base::try_lock()) return false;
    const std::uint32_t mine = ticket_words::number(grant_.load(std::memory_order_seq_cst));
    look_behind(mine);
    return true;
  }

  void unlock() {
    const std::uint32_t next = base::following();
    if constexpr (!W::parks) {
      grant_.store(next, std::memory_order_release);  // (2) release: pairs with (1)
    } else {
      const wake_key key = P::key_of(grant_);
      // (2) release: pairs with (1), the load in lock(). At most two threads sleep on grant. Both are woken, because
      // the second must now notify the third; the exchange clears the mark. Sequentially consistent: look_behind()
      // requires this.
      if (grant_.exchange(next, std::memory_order_seq_cst) & ticket_words::asleep) [[unlikely]]
        P::wake(key, every_sleeper, all);
    }
  }

  using base::count_from;

 private:
  using base::ticket_, base::grant_;

  /// Makes the thread behind the caller watch grant. The caller has seen by a sequentially consistent load that at most
  /// one unlock remains until it is served. If the next thread has not yet drawn its number, then in the single order
  /// of these operations its draw and its load of grant in may_go_far() come after the caller's load: it reads the same
  /// grant or a later one. (The spinning unlock's store is not in that order itself, so this holds by C++20, not by
  /// C++11.)
  void look_behind(std::uint32_t mine) {
    if (ticket_.load(std::memory_order_seq_cst) != mine + ticket_words::one) [[unlikely]]
      tell(mine + ticket_words::one);
  }

  [[gnu::cold, gnu::noinline]] void tell(std::uint32_t number) {
    waiting_array::notify<P, W>(array_.slot(number, this));
  }

  bool may_go_far(std::uint32_t mine) {
    if constexpr (W::parks)
      return base::distance_of(mine, std::memory_order_seq_cst) > 2;
    else  // changes nothing, but a read-modify-write reads the newest value: correct by C++11, too
      return ticket_words::distance(mine, grant_.fetch_or(0, std::memory_order_seq_cst)) > 2;
  }

  [[gnu::cold, gnu::noinline]] void wait(std::uint32_t mine) {
    if (may_go_far(mine))
      waiting_array::watch<P, W>(array_.slot(mine, this),
                                 [&](std::memory_order order) { return base::distance_of(mine, order) <= 2; });
    watch_grant(mine, 1);
    look_behind(mine);
    watch_grant(mine, 0);
  }

  /// Watches grant until at most `most` unlocks remain until the number `mine` is served.
  void watch_grant(std::uint32_t mine, std::uint32_t most) {
    const auto near = [mine, most](std::uint32_t g) { return ticket_words::distance(mine, g) <= most; };
    if (!W::poll(grant_, near)) {
      if constexpr (W::parks) {
        for (std::uint32_t g; !near(g = grant_.load(std::memory_order_acquire));)
          ticket_words::park_on<P>(grant_, g, every_sleeper);
      }
    }
    if (most == 1) (void)grant_.load(std::memory_order_seq_cst);  // look_behind() requires this load
  }

  [[no_unique_address]] shared_array<P> array_;
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
