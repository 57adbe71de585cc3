// MCSg+ and MCSg++: MCS locks that take guests, threads without a queue node, and do not let regulars starve them. A guest
// arrives by an exchange, as everybody does, and waits in the node of the regular that is before it. MCSg++ also gives
// tickets to those who lead groups of regulars in again after a guest, so that the groups come in order, mostly.
//
// Source: Wang, Chabbi & Kimura, "Be My Guest – MCS Lock Now Welcomes Guests" (PPoPP 2016), Algorithms 2 (guests), 3
// (MCSg+) and 4 (MCSg++), §4.3–4.4; back-off of footnote 2. MCSg+ is their name for Algorithm 3 alone (§6.1). Algorithm 3
// lacks lines 10–11 in the text we have: lead_group(). Neither clears `next` on arrival; prepare() does.
// Guarantees: FIFO inside a group of regulars, always. Between groups: in MCSg++ in the order of their tickets, but a regular
// that comes at the right moment may overtake them all, and a leader that finds one there is behind it with its group; in
// MCSg+ none. One guest among any number of regulars is in the queue in bounded time and is not overtaken there; of many guests,
// one may starve (§4.5). A guest's unlock is wait-free, but for the wake. A regular's unlock to a guest waits until the guest has
// taken note.
// Cost: as MCS; a guest one exchange each way.
// Layout: MCSg+: tail; MCSg++: tail · next ticket · ticket being served; then the holder's node: 32-bit words. The
// holder's node is 0 while a guest holds the lock.
//
//     tail             meaning
//     0                free (groups may wait and are about to try again)
//     1 (π)            the last in the queue is a guest: it holds the lock or waits
//     2                the same, and somebody sleeps until the tail changes (parking only; ours)
//     ≥ first_node     the last in the queue is this regular
//
//     next of a node   meaning                                       written by
//     0                no successor yet                              its owner, or the leader of its group
//     1 GW             the successor is a guest that waits           that guest
//     2                the same, and it sleeps (ours)                that guest
//     3 GG             the lock is granted to that guest             the owner: unlock
//     4 GA             the guest has it: the node may be used again  that guest
//     5 NS             the group ends here                           a guest: unlock
//     6                the group's leader sleeps (ours)              that leader
//     ≥ first_node     the successor                                 the successor, or the leader of its group
//
// A group: a regular that finds π in the tail becomes a leader; those who come after it queue up behind it as in MCS,
// until a guest's exchange takes the tail away from the last of them. That guest tells the last so: GW if it has come, NS
// if it has gone. The leader follows the links to that mark, and enters for the whole group: by an exchange of the tail for
// the group's last (after NS), or for π (after GW: the last is that guest).
//
// Why nobody waits for ever: call chain the holder and who will have the lock from it by links. It ends in the tail or in a
// guest; so either the tail is the chain's, or a guest of the chain will take the tail at its unlock and tell the group that
// it ends. No part of a chain waits for a ticket. So each group's leader comes to its mark whatever the tickets are, and
// whoever has the turn gets through once the tail is no longer π.
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/mcs_queue.hpp"
#include "usher/core/node.hpp"
#include "usher/core/thread_nodes.hpp"
#include "usher/core/ticket_words.hpp"

namespace usher::inline v1 {

/// What a checker is told of a group's leader, to see that leaders get the lock in the order of their tickets; and a simulator, which
/// counts those who come too late (Fig 9).
enum class leader_step { has_ticket, joins_other_group };

/// The tickets of group leaders (Algorithm 4): drawn once, awaited before each attempt, passed on by who has got through.
template <platform P, class W>
class leader_turns {
 public:
  static constexpr bool in_order = true;

  std::uint32_t draw() { return next_.fetch_add(ticket_words::one, std::memory_order_relaxed); }

  void await(std::uint32_t mine) {
    const auto served = [mine](std::uint32_t w) { return ticket_words::number(w) == mine; };
    if (W::poll(owner_, served)) return;  // (t1) acquire: pairs with (t2)
    if constexpr (W::parks) {
      for (;;) {
        const std::uint32_t seen = owner_.load(std::memory_order_acquire);  // (t1)
        if (served(seen)) return;
        ticket_words::park_on<P>(owner_, seen, every_sleeper);
      }
    }
  }

  void count_from(std::uint32_t n) {
    next_.store(n * ticket_words::one, std::memory_order_relaxed);
    owner_.store(n * ticket_words::one, std::memory_order_relaxed);
  }

  /// (t2) release: the next leader's attempt comes after ours. Takes the sleepers' mark off: who sleeps on sets it again.
  void pass(std::uint32_t mine) {
    if constexpr (W::parks) {
      const wake_key key = P::key_of(owner_);
      if (owner_.exchange(mine + ticket_words::one, std::memory_order_release) & ticket_words::asleep)
        P::wake(key, every_sleeper, all);
    } else {
      owner_.store(mine + ticket_words::one, std::memory_order_release);
    }
  }

 private:
  typename P::template atomic<std::uint32_t> next_;
  typename P::template atomic<std::uint32_t> owner_;
};

/// MCSg+ has none.
struct no_turns {
  static constexpr bool in_order = false;

  static std::uint32_t draw() { return 0; }
  static void await(std::uint32_t) {}
  static void pass(std::uint32_t) {}
};

/// Both faces of the lock: lock(node) for regulars, lock() for guests.
template <platform P, class W, class Turns>
class mcsg_plus_with_node {
 public:
  void lock(node_handle mine) {
    prepare<P>(mine);
    // (1) release: whoever finds this node here sees it prepared. Acquire: pairs with (1) and (5).
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
    grant<P, W>(next);  // (2) release: pairs with wait_for_grant()
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
    // (5) release: pairs with (1). Acquire: the last node is prepared before we write to it.
    const node_handle last = tail_.exchange(no_node, std::memory_order_acq_rel);
    if (last == guest) return;
    if (last == guest_watched)
      P::wake(key, every_sleeper, all);
    else
      tell(last, no_successor);  // not the lock, and its leader waits for this: the node is still there
  }

  void count_from(std::uint32_t n)
    requires requires(Turns& t) { t.count_from(n); }
  {
    turns_.count_from(n);
  }

  /// Asked by the holder, which has a node or is a guest. False only if another thread is certain to get the lock after it.
  bool has_no_successor(node_handle mine) const {
    const node_handle last = tail_.load(std::memory_order_relaxed);
    return mine != no_node ? last == mine : is_guest(last);
  }

 private:
  static constexpr node_handle guest = 1, guest_watched = 2;
  static constexpr node_handle guest_waits = 1, guest_sleeps = 2, guest_granted = 3, guest_acquired = 4,
                               no_successor = 5, leader_sleeps = 6;
  static constexpr bool is_guest(node_handle h) { return h == guest || h == guest_watched; }

  /// Writes to the `next` of who was last in the queue: exactly once for each time that it was.
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
    node_handle last = mine;  // of the group; `guest` if that is a guest
    for (;;) {
      if (last != guest) last = end_of_group(last);
      turns_.await(ticket);
      // Algorithm 3, lines 9–11: retrying with a guest in the tail. There are no links to follow then, and an exchange of
      // π for π would change nothing: wait until the tail is something else.
      if (last == guest) await_other_than_guest();
      const node_handle previous = tail_.exchange(last, std::memory_order_acq_rel);  // (1)
      if (is_guest(previous)) {  // a guest was quicker. What there was of a watch belongs to the tail that is gone now
        if (previous == guest_watched) last == guest ? restore_watch() : wake_all();
        continue;
      }
      turns_.pass(ticket);
      if (previous != no_node) {  // a regular was quicker: in MCSg++ the unlucky case
        tell_checker(leader_step::joins_other_group);
        queue_behind(previous, mine);
      }
      return;
    }
  }

  static void tell_checker(leader_step s) {
    if constexpr (requires { P::leader(s); }) P::leader(s);
  }

  /// Follows the links to the end of the group: the last regular, or `guest` if a guest has come after it.
  static node_handle end_of_group(node_handle last) {
    for (;;) {
      auto& next = P::node(last).next;
      const node_handle h = await_word(next);
      if (h == guest_waits || h == guest_sleeps) return guest;
      if (h == no_successor) {
        next.store(no_node, std::memory_order_relaxed);  // seen by who finds the node in the tail: (1)
        return last;
      }
      last = h;
    }
  }

  /// What is told to a node: waits as long as a guest holds the lock.
  template <class Word>
  static node_handle await_word(Word& next) {
    const auto told = [](node_handle h) { return h != no_node && h != leader_sleeps; };
    if (const auto h = W::poll(next, told)) return *h;
    node_handle seen = no_node;
    if constexpr (W::parks) {
      // Acquire on failure: pairs with (3), which came first.
      if (next.compare_exchange_strong(seen, leader_sleeps, std::memory_order_acq_rel, std::memory_order_acquire))
        while (!told(seen = next.load(std::memory_order_acquire))) P::park(next, leader_sleeps, every_sleeper);
    }
    return seen;
  }

  /// A guest waits until its predecessor passes it the lock.
  [[gnu::cold, gnu::noinline]] static void wait_behind(node_handle previous) {
    tell(previous, guest_waits);
    auto& next = P::node(previous).next;
    const auto granted = [](node_handle h) { return h == guest_granted; };
    if (!W::poll(next, granted)) {  // pairs with (4)
      if constexpr (W::parks) {
        node_handle seen = guest_waits;
        if (next.compare_exchange_strong(seen, guest_sleeps, std::memory_order_acq_rel, std::memory_order_acquire))
          while (!granted(next.load(std::memory_order_acquire))) P::park(next, guest_sleeps, every_sleeper);
      }
    }
    next.store(guest_acquired, std::memory_order_release);  // (6) from here on we do not look at the node
  }

  /// A regular passes the lock to a guest, and does not leave before the guest has taken note: it would use the node
  /// again, and the guest would wait for a GG that is gone.
  [[gnu::cold, gnu::noinline]] static void hand_to_guest(node_handle mine) {
    auto& next = P::node(mine).next;
    if constexpr (W::parks) {
      const wake_key key = P::key_of(next);
      // (4) release: what this thread did in the critical section.
      if (next.exchange(guest_granted, std::memory_order_release) == guest_sleeps) P::wake(key, every_sleeper, 1);
    } else {
      next.store(guest_granted, std::memory_order_release);  // (4)
    }
    W::await_soon(next, [](node_handle h) { return h == guest_acquired; });  // pairs with (6)
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

  /// Whoever takes the watched mark off by an exchange sees to those who sleep: they are woken if the tail is now something
  /// else than π; if it is π again, so is the mark.
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

}  // namespace usher::inline v1
