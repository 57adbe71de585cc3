// MCSg+ and MCSg++: MCS locks that admit guests, threads without a queue node, and queue them among the regulars
// (threads with a node). A guest arrives by an exchange, as regulars do, and waits on the node of the regular before
// it. Regulars that arrive behind a guest form groups. MCSg++ gives tickets to the leaders of the groups, so that the
// groups mostly enter in order.
//
// Source: Wang, Chabbi & Kimura, "Be My Guest – MCS Lock Now Welcomes Guests" (PPoPP 2016), Algorithms 2 (guests), 3
// (MCSg+) and 4 (MCSg++), §4.3–4.4; back-off of footnote 2. MCSg+ is the paper's name for Algorithm 3 alone (§6.1). Our
// copy of the text lacks lines 10–11 of Algorithm 3; lead_group() has our own lines in their place. The paper's
// algorithms do not clear `next` on arrival; prepare() does.
// Guarantees: FIFO inside a group of regulars, always. MCSg++ admits the groups in the order of their leaders' tickets.
// But a regular that arrives just after a guest's unlock may overtake all groups, and a leader that finds this regular
// in the tail queues behind it with its group. MCSg+ keeps no order between groups. One guest among any number of
// regulars is in the queue in bounded time and is not overtaken there; of many guests, one may starve (§4.5). A guest's
// unlock is wait-free, except for the wake-up. A regular that hands the lock to a guest waits in unlock until the guest
// has acknowledged the grant.
// Cost: as MCS; for a guest one exchange each to lock and unlock.
// Layout: MCSg+: tail; MCSg++: tail · next ticket · ticket being served; then the holder's node: 32-bit words. The
// holder's node is 0 while a guest holds the lock.
//
//     tail
//     0                    free (groups may wait: their leaders are about to try again)
//     1 (π, guest)         the last in the queue is a guest: it holds the lock or waits. Set by that guest's lock() or
//                          by a leader whose group ends in a guest; cleared by the guest's unlock
//     2 (guest_watched)    the same, and a guest or a leader sleeps until the tail changes. Set by that thread (parking
//                          only; ours). A thread that removes it by an exchange wakes the sleepers or sets it again
//     ≥ first_node         the last in the queue is this regular
//
//     0, n, 1, 2 -> m      regular's lock(): has the lock (0), queues behind n, or leads a group (1, 2)
//     0, n, 1, 2 -> 1      guest's lock(): has the lock (0), waits on n's node, or tries again (1, 2)
//     1 -> 2               before a guest or a leader sleeps; restore_watch()
//     0, n, 1, 2 -> g, 1   lead_group(), for a group that ends in g or in a guest: has the lock (0), queues behind
//                          n, or tries again (1, 2)
//     m -> 0               regular's unlock(), if m is its own node
//     1, 2, m -> 0         guest's unlock(). 2: wakes the sleepers. m: writes to m's node that the group ends there
//
//     next of a node       meaning                                       written by            read by
//     0                    no successor yet                              its owner; end_of_group()
//     1 GW guest_waits     the successor is a guest that waits           that guest            unlock; end_of_group()
//     2 guest_sleeps       the same, and it sleeps (ours)                that guest            unlock, which wakes it;
//                                                                        end_of_group()
//     3 GG guest_granted   the lock is granted to that guest             the owner: unlock     that guest
//     4 GA guest_acquired  the guest no longer accesses the node         that guest            the owner: unlock
//     5 NS no_successor    the group ends here                           a guest: unlock       end_of_group()
//     6 leader_sleeps      the group's leader sleeps (ours)              that leader           tell(), which wakes it
//     ≥ first_node         the successor                                 the successor         unlock; end_of_group()
//
//     0 -> m               a regular is behind this node                 queue_behind()
//     0 -> 1 -> 3 -> 4     a guest is behind it, is granted, and leaves  wait_behind(), hand_to_guest(), wait_behind()
//     0 -> 1 -> 2 -> 3 -> 4    the same; the guest has slept
//     0 -> 5 -> 0          a guest's unlock removed it from the tail     unlock(), end_of_group()
//     0 -> 6 -> m, 1, 5    the group's leader slept until tell() wrote   await_word(), tell()
//
// A group: a regular that finds π in the tail becomes a leader. Threads that arrive after it queue behind it as in MCS,
// until a guest's exchange replaces the group's last node in the tail. That guest writes to the last node's `next`: GW
// if the guest arrives, NS if it unlocks. The leader follows the links to GW or NS, and enters for the whole group by
// an exchange: it puts the group's last node into the tail (after NS), or π (after GW, since that guest is the last).
//
// No thread waits for ever. Proof: a chain consists of the holder and all threads that will get the lock from it
// through links. Either the chain's last node is in the tail; or the chain ends in a guest, which at its unlock removes
// a group's last node from the tail and writes there that the group ends. No thread of a chain waits for a ticket. So
// the leader of each group finds the group's end whatever the tickets are, and the leader whose ticket is served
// succeeds once the tail is no longer π.
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/mcs_queue.hpp"
#include "usher/core/node.hpp"
#include "usher/core/thread_nodes.hpp"
#include "usher/core/ticket_words.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

/// Steps of a group's leader that are reported to the checker and the simulator. The checker verifies that leaders get
/// the lock in the order of their tickets; the simulator counts leaders that find a regular in the tail (Fig 9).
enum class leader_step { has_ticket, joins_other_group };

/// The turns of group leaders (Algorithm 4): a leader draws one ticket, waits for its turn before each attempt, and
/// passes the turn on after an attempt has succeeded. A class in place of this one may have await_no_guest(tail, pred):
/// a leader then calls this function, instead of polling, to wait until `pred` is true of the tail.
template <platform P, class W>
class leader_turns : ticket_words::front_end<P> {
  using base = ticket_words::front_end<P>;
  using base::grant_;

 public:
  static constexpr bool in_order = true;

  using base::count_from;
  using base::draw;

  /// Waits for the leader's turn. (t1) acquire: pairs with (t2), the write to grant in pass().
  void await(std::uint32_t mine) { ticket_words::wait_until<P, W>(grant_, mine, every_sleeper); }

  /// Passes the turn on. (t2) release: orders the next leader's attempt after this one's; pairs with (t1), the loads in
  /// await(). Wakes all sleepers and clears their mark; a leader that sleeps again sets it again.
  void pass(std::uint32_t mine) {
    if constexpr (W::parks) {
      const wake_key key = P::key_of(grant_);
      if (grant_.exchange(mine + ticket_words::one, std::memory_order_release) & ticket_words::asleep)
        P::wake(key, every_sleeper, all);
    } else {
      grant_.store(mine + ticket_words::one, std::memory_order_release);
    }
  }
};

/// MCSg+: leaders have no turns.
struct no_turns {
  static constexpr bool in_order = false;

  static std::uint32_t draw() { return 0; }
  static void await(std::uint32_t) {}
  static void pass(std::uint32_t) {}
};

/// The lock with its two interfaces: lock(node) for regulars, lock() for guests.
template <platform P, class W, class Turns>
class mcsg_plus_with_node {
 public:
  void lock(node_handle mine) {
    prepare<P>(mine);
    // (1) release: publishes the prepared node to the exchange that finds it in the tail. Acquire: pairs with the
    // exchange (1) that put the previous value into the tail, or with (5), a guest's unlock.
    const node_handle previous = enqueue<P>(tail_, mine);
    if (previous == no_node) [[likely]]
      return;
    if (!is_guest(previous)) [[likely]]
      return queue_behind(previous, mine);
    if (previous == guest_watched) wake_all();
    lead_group(mine);
  }

  bool try_lock(node_handle mine) { return try_enqueue<P>(tail_, mine); }

  void unlock(node_handle mine) {
    const node_handle next = successor_or_free<P, W>(tail_, mine);
    if (next == no_node) [[likely]]
      return;
    if (next == guest_waits || next == guest_sleeps) [[unlikely]]
      return hand_to_guest(mine);
    grant<P, W>(next);  // (2) release: (g2) in hand_over.hpp
  }

  // ---- guests

  void lock() {
    for (;;) {
      const node_handle previous = tail_.exchange(guest, std::memory_order_acq_rel);  // (1)
      if (previous == no_node) return;
      if (!is_guest(previous)) return wait_behind(previous);
      if (previous == guest_watched) restore_watch();
      await_other_than_guest();
    }
  }

  bool try_lock() {
    node_handle expected = no_node;
    return tail_.compare_exchange_strong(expected, guest, std::memory_order_acquire, std::memory_order_relaxed);
  }

  void unlock() {
    const wake_key key = P::key_of(tail_);
    // (5) release: pairs with (1), the exchange that finds the tail 0. Acquire: pairs with (1), by which the last node
    // got into the tail: the node is prepared before this thread writes to it.
    const node_handle last = tail_.exchange(no_node, std::memory_order_acq_rel);
    if (last == guest) return;
    if (last == guest_watched)
      P::wake(key, every_sleeper, all);
    else
      tell(last, no_successor);  // touches a node, not the lock: the group's leader waits for it
  }

  void count_from(std::uint32_t n)
    requires requires(Turns& t) { t.count_from(n); }
  {
    turns_.count_from(n);
  }

  /// Called by the holder with its node, or with no_node if it is a guest. Returns false only if another thread is
  /// certain to get the lock next.
  bool has_no_successor(node_handle mine) const {
    const node_handle last = tail_.load(std::memory_order_relaxed);
    return mine != no_node ? last == mine : is_guest(last);
  }

 private:
  static constexpr node_handle guest = 1, guest_watched = 2;
  static constexpr node_handle guest_waits = 1, guest_sleeps = 2, guest_granted = 3, guest_acquired = 4,
                               no_successor = 5, leader_sleeps = 6;
  static constexpr bool is_guest(node_handle h) { return h == guest || h == guest_watched; }
  static constexpr bool is_no_guest(node_handle h) { return !is_guest(h); }

  /// Writes `what` to the `next` of a node that was the last in the queue, once for each time that it was the last.
  static void tell(node_handle whom, node_handle what) {
    auto& next = P::node(whom).next;
    // (3) release: pairs with the acquire loads in unlock() and end_of_group().
    if constexpr (W::parks) {
      const wake_key key = P::key_of(next);
      if (next.exchange(what, std::memory_order_release) == leader_sleeps) P::wake(key, every_sleeper, 1);
    } else {
      next.store(what, std::memory_order_release);
    }
  }

  void queue_behind(node_handle previous, node_handle mine) {
    tell(previous, mine);
    wait_for_grant<P, W>(mine);
  }

  [[gnu::cold, gnu::noinline]] void lead_group(node_handle mine) {
    const std::uint32_t ticket = turns_.draw();
    if constexpr (Turns::in_order) tell_checker(leader_step::has_ticket);
    node_handle last = mine;  // the group's last node; `guest` if the group ends in a guest
    for (;;) {
      if (last != guest) last = end_of_group(last);
      turns_.await(ticket);
      // Algorithm 3, lines 9–11: another attempt for a group that ends in a guest. The leader has no links to follow,
      // and an exchange of the guest's mark for the same mark would change nothing. So it waits until the tail is
      // another value.
      if (last == guest) {
        if constexpr (requires { Turns::await_no_guest(tail_, is_no_guest); })
          Turns::await_no_guest(tail_, is_no_guest);
        else
          await_other_than_guest();
      }
      const node_handle previous = tail_.exchange(last, std::memory_order_acq_rel);  // (1)
      if (is_guest(previous)) {  // a guest was faster. If the mark was guest_watched, threads sleep on the tail
        if (previous == guest_watched) last == guest ? restore_watch() : wake_all();
        continue;
      }
      turns_.pass(ticket);
      if (previous != no_node) {  // a regular was faster: this group queues behind it
        tell_checker(leader_step::joins_other_group);
        queue_behind(previous, mine);
      }
      return;
    }
  }

  static void tell_checker(leader_step s) {
    if constexpr (requires { P::leader(s); }) P::leader(s);
  }

  /// Follows the links to the end of the group. Returns the last regular, or `guest` if a guest has queued behind it.
  static node_handle end_of_group(node_handle last) {
    for (;;) {
      auto& next = P::node(last).next;
      const node_handle h = await_word(next);
      if (h == guest_waits || h == guest_sleeps) return guest;
      if (h == no_successor) {
        next.store(no_node, std::memory_order_relaxed);  // published by (1), which puts the node into the tail
        return last;
      }
      last = h;
    }
  }

  /// Waits until tell() has written the node's successor, or that there is none. This may last until a guest unlocks.
  template <class Word>
  static node_handle await_word(Word& next) {
    const auto told = [](node_handle h) { return h != no_node && h != leader_sleeps; };
    if (const auto h = W::poll(next, told)) return *h;
    node_handle seen = no_node;
    if constexpr (W::parks) {
      // Acquire on failure: the write in tell(), (3), came first, and this load pairs with it.
      if (next.compare_exchange_strong(seen, leader_sleeps, std::memory_order_acq_rel, std::memory_order_acquire))
        while (!told(seen = next.load(std::memory_order_acquire))) P::park(next, leader_sleeps, every_sleeper);
    }
    return seen;
  }

  /// Called by a guest. Waits until its predecessor, a regular, hands it the lock.
  [[gnu::cold, gnu::noinline]] static void wait_behind(node_handle previous) {
    tell(previous, guest_waits);
    auto& next = P::node(previous).next;
    const auto granted = [](node_handle h) { return h == guest_granted; };
    if (!W::poll(next, granted)) {  // acquire: pairs with (4), in hand_to_guest()
      if constexpr (W::parks) {
        node_handle seen = guest_waits;
        if (next.compare_exchange_strong(seen, guest_sleeps, std::memory_order_acq_rel, std::memory_order_acquire))
          while (!granted(next.load(std::memory_order_acquire))) P::park(next, guest_sleeps, every_sleeper);
      }
    }
    next.store(guest_acquired, std::memory_order_release);  // (6) the guest no longer accesses the node
  }

  /// Hands the lock to a guest, and waits until the guest has acknowledged the grant. Without this wait, the regular
  /// could use its node again and overwrite the grant before the guest has read it.
  [[gnu::cold, gnu::noinline]] static void hand_to_guest(node_handle mine) {
    auto& next = P::node(mine).next;
    if constexpr (W::parks) {
      const wake_key key = P::key_of(next);
      // (4) release: publishes this thread's writes in the critical section to the acquire loads in wait_behind().
      if (next.exchange(guest_granted, std::memory_order_release) == guest_sleeps) P::wake(key, every_sleeper, 1);
    } else {
      next.store(guest_granted, std::memory_order_release);  // (4)
    }
    W::await_soon(next, [](node_handle h) { return h == guest_acquired; });  // acquire: pairs with (6)
  }

  [[gnu::cold, gnu::noinline]] void await_other_than_guest() {
    const auto other = [](node_handle t) { return !is_guest(t); };
    while (!W::poll(tail_, other)) {
      if constexpr (W::parks) {
        node_handle seen = tail_.load(std::memory_order_relaxed);
        if (!is_guest(seen)) return;
        if (seen == guest &&
            !tail_.compare_exchange_strong(seen, guest_watched, std::memory_order_relaxed, std::memory_order_relaxed))
          continue;
        P::park(tail_, guest_watched, every_sleeper);
      }
    }
  }

  /// Called by a thread that has replaced the mark guest_watched (threads sleep until the tail changes) by an exchange.
  /// If the tail is `guest`, sets the mark again; otherwise wakes the sleepers.
  void restore_watch() {
    node_handle seen = guest;
    if (!tail_.compare_exchange_strong(seen, guest_watched, std::memory_order_relaxed, std::memory_order_relaxed))
      wake_all();
  }
  void wake_all() { P::wake(P::key_of(tail_), every_sleeper, all); }

  typename P::template atomic<node_handle> tail_;
  [[no_unique_address]] Turns turns_;
};

template <platform P, class W>
class mcsg_plus : public admits_guests<P, mcsg_plus_with_node<P, W, no_turns>> {
 public:
  static constexpr lock_traits traits{
      .summary = "MCSg in which guests queue up, too",
      .paper = "MCSg, Algorithms 2 and 3",
      .starvation_free = false,
      .context = true,
      .words = 1,
  };
};

template <platform P, class W>
class mcsg_plus_plus : public admits_guests<P, mcsg_plus_with_node<P, W, leader_turns<P, W>>> {
 public:
  static constexpr lock_traits traits{
      .summary = "MCSg+ with tickets for groups held up by a guest",
      .paper = "MCSg, Algorithms 2 to 4",
      .fifo_leaders = true,
      .starvation_free = false,
      .context = true,
      .words = 3,
  };
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
