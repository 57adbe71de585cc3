# Locks of the Malthusian paper and of Fairlocks with a change, as in changed.cmake: rare paths made common, then mistakes
# that must be caught.

usher_check_changed(lifo-cr-drops-rest "a pop forgets the stack below" lifo_cr ""
  "below == no_node ? held : below" "below == no_node ? held : held"
  locks/lifo.hpp)

usher_check_changed(lifo-cr-forgets-second "takes the second from the stack and leaves it there" lifo_cr ""
  "    set_link(seen, link(second));
"
  ""
  locks/lifo.hpp)

usher_check_changed(lifo-cr-eldest-stays "serves the eldest and leaves it on the stack" lifo_cr ""
  "    set_link(above, no_node);
"
  "    set_link(above, eldest);
"
  locks/lifo.hpp)

# A waiter may take itself off, and the holder repeats its pop until it succeeds: all is well but for ABA. The node that the
# holder saw on top goes, comes back with another link, and the holder swaps in the old one.
set(also "    if (push(mine)) wait_for_grant<P, W>(mine);
")
set(also_instead "    while (push(mine)) {
      std::uint32_t me = mine;
      const node_handle below = link(mine);
      if (!P::bernoulli(2) || !top_.compare_exchange_strong(me, below == no_node ? held : below,
                                                            std::memory_order_acq_rel, std::memory_order_acquire)) {
        wait_for_grant<P, W>(mine);
        break;
      }
    }
")
usher_check_changed(lifo-popped-by-waiter "others than the holder pop: ABA" lifo ""
  "    grant<P, W>(P::bernoulli(FairnessPeriod) ? take_eldest(top) : take_latest(top));
"
  "    for (std::uint32_t seen = top;; P::backoff(0)) {
      if (seen == held) {
        if (top_.compare_exchange_strong(seen, free, std::memory_order_acq_rel, std::memory_order_acquire)) return;
        continue;
      }
      top = seen;
      const node_handle below = link(top);
      if (top_.compare_exchange_strong(seen, below == no_node ? held : below, std::memory_order_acquire,
                                       std::memory_order_acquire))
        return grant<P, W>(top);
    }
    (void)&basic_lifo::take_eldest;
"
  locks/lifo.hpp)
unset(also)

usher_check_changed(mcs-pt-skips "passes over a preempted waiter, which is not told" mcs_pt ""
  "      if (!P::node(to).flag.compare_exchange_strong(seen, flag_evicted, std::memory_order_release,
                                                    std::memory_order_relaxed))
        break;
"
  "      (void)seen;
"
  locks/mcs_pt.hpp)

usher_check_changed(mcs-pt-link-too-late "reads the link of a waiter that it has evicted" mcs_pt ""
  "      to = next;
"
  "      to = P::node(to).next.load(std::memory_order_acquire);
"
  locks/mcs_pt.hpp)

usher_check_changed(mcs-pt-keeps-tail "evicts the last and leaves it the tail" mcs_pt ""
  "        if (tail_.compare_exchange_strong(expected, no_node, std::memory_order_release, std::memory_order_relaxed))
          return evict_last(to);
"
  "        if (tail_.load(std::memory_order_relaxed) == expected) return evict_last(to);
"
  locks/mcs_pt.hpp)

usher_check_changed(mcs-pt-evicts-asleep "evicts the last and does not wake it" mcs_pt ""
  "if (flag.exchange(flag_evicted, std::memory_order_acq_rel) == flag_parked) P::wake(key, every_sleeper, 1);"
  "flag.exchange(flag_evicted, std::memory_order_acq_rel); (void)key;"
  locks/mcs_pt.hpp)

usher_check_changed(ttas-fair-asks-for-ever "the eldest leaves its request behind" ttas_fair ""
  "    gate_.store(nobody, std::memory_order_relaxed);
"
  ""
  locks/occasionally_fair.hpp)

usher_check_changed(ttas-fair-frees "frees the lock that it has handed to the eldest" ttas_fair ""
  "    gate_.store(handed, std::memory_order_release);
"
  "    gate_.store(handed, std::memory_order_release);
    lock_.unlock();
"
  locks/occasionally_fair.hpp)

usher_check_changed(ttas-fair-keeps-queue "the eldest does not call the next eldest" ttas_fair ""
  "if (const node_handle next = successor_or_free<P, W>(tail_, mine)) grant<P, W>(next);"
  "(void)successor_or_free<P, W>(tail_, mine);"
  locks/occasionally_fair.hpp)

usher_check_changed(ttas-fair-relaxed "hands over by a relaxed store" ttas_fair ""
  "gate_.store(handed, std::memory_order_release);" "gate_.store(handed, std::memory_order_relaxed);"
  locks/occasionally_fair.hpp)

# ---- LOITER's parts

usher_check_changed(loiter-defer-gives-up "an arrival gives up that was relied upon" loiter_defer ""
  "return is_free(left) && try_lock();" "return (void)left, false;"
  locks/loiter.hpp)

usher_check_changed(loiter-defer-relies-on-none "does not wake the standby though nobody spins" loiter_defer ""
  "const bool leave = O.avoid_wake && spin != 0 &&" "const bool leave = O.avoid_wake &&"
  locks/loiter.hpp)

usher_check_changed(loiter-defer-miscounts "the standby forgets who spins when it is handed the lock" loiter_defer ""
  "outer_.fetch_xor((w & (handed | asleep | impatient)) | inner, std::memory_order_relaxed);" "outer_.store(held | inner, std::memory_order_relaxed);"
  locks/loiter.hpp)

usher_check_changed(loiter-defer-forgets-arrivals "the standby forgets who spins when it takes the lock" loiter_defer ""
  "outer_.compare_exchange_strong(w, arrivals(w) | held | inner," "outer_.compare_exchange_strong(w, held | inner,"
  locks/loiter.hpp)

usher_check_changed(loiter-defer-wipes-count "an unlock wipes out what arrivals count" loiter_defer ""
  "if (outer_.compare_exchange_strong(seen, then, std::memory_order_acq_rel, std::memory_order_relaxed))
        return"
  "seen = outer_.exchange(then, std::memory_order_acq_rel);
        return"
  locks/loiter.hpp)

usher_check_changed(loiter-store-sleeps "the standby counts on its mark: sleeps without a limit" loiter_store ""
  "P::nap(outer_, w | marks, every_sleeper, waited < impatience ? impatience - waited : impatience);"
  "P::park(outer_, w | marks, every_sleeper);"
  locks/loiter.hpp)

usher_check_changed(loiter-numa-frees-inner "the inner lock is freed while remote threads wait for it" loiter_numa ""
  "    if (!empty() && (P::bernoulli(period) || P::node(mine).next.load(std::memory_order_acquire) == no_node)) {"
  "    if (!empty() && P::bernoulli(period)) {"
  core/numa_queue.hpp locks/loiter.hpp)

# ---- LOITER's urgent waiters

usher_check_changed(loiter-frees-blind "an unlock wipes out an urgent waiter that has just come" loiter ""
  "if (outer_.compare_exchange_strong(seen, then, std::memory_order_acq_rel, std::memory_order_relaxed))
        return"
  "seen = outer_.exchange(then, std::memory_order_acq_rel);
        return"
  locks/loiter.hpp)

usher_check_changed(loiter-takes-blind "who takes the urgent waiter on top wipes out one that has just come" loiter ""
  "!outer_.compare_exchange_strong(seen, then, std::memory_order_acquire, std::memory_order_acquire))"
  "(outer_.store(then, std::memory_order_release), false))"
  locks/loiter.hpp)

usher_check_changed(loiter-standby-blind "the standby that is handed the lock wipes out an urgent waiter" loiter ""
  "if constexpr (counts || ranks)
          outer_.fetch_xor" "if constexpr (counts)
          outer_.fetch_xor"
  locks/loiter.hpp)

usher_check_changed(loiter-urgent-inner "an urgent waiter is taken for one that has the inner lock" loiter ""
  "(seen & state_bits & ~inner)" "(seen & state_bits)"
  locks/loiter.hpp)

usher_check_changed(loiter-urgent-stays "an urgent waiter below the top is served and stays on the stack" loiter ""
  "if (best != top) P::node(above).next.store(link(best), std::memory_order_relaxed);" "(void)above;"
  locks/loiter.hpp)

usher_check_changed(loiter-urgent-cuts "an urgent waiter below the top takes those below it along" loiter ""
  "P::node(above).next.store(link(best), std::memory_order_relaxed);"
  "P::node(above).next.store(no_node, std::memory_order_relaxed);"
  locks/loiter.hpp)

usher_check_changed(loiter-urgent-relaxed "an urgent waiter's node is put on the stack by a relaxed operation" loiter ""
  "mine * urgent | (seen & state_bits), std::memory_order_release," "mine * urgent | (seen & state_bits), std::memory_order_relaxed,"
  locks/loiter.hpp)

usher_check_changed(loiter-urgent-lifo "serves the latest of the urgent waiters of one priority" loiter ""
  "if (priority_of(h) >= priority_of(best)) {" "if (priority_of(h) > priority_of(best)) {"
  locks/loiter.hpp)

usher_check_changed(loiter-urgent-eldest "serves the eldest urgent waiter, whatever its priority" loiter ""
  "if (priority_of(h) >= priority_of(best)) {" "{"
  locks/loiter.hpp)

usher_check_changed(loiter-urgent-behind "an urgent waiter queues behind the standby" loiter ""
  "if (const std::uint32_t priority = P::priority(); priority != 0) [[unlikely]]"
  "if (const std::uint32_t priority = P::priority(); priority != 0 && false) [[unlikely]]"
  locks/loiter.hpp)

# ---- MCSCRN

usher_check_changed(mcscrn-frees "frees the lock while remote threads wait" mcscrn ""
  "if (passive_.get() == no_node && remote_.empty()) [[likely]] {" "if (passive_.get() == no_node) [[likely]] {"
  locks/mcscrn.hpp)

usher_check_changed(mcscrn-forgets-residents "forgets the passive threads when home changes" mcscrn ""
  "set(node_ring<P>::join(left, residents), new_home);" "set(left, new_home); (void)residents;"
  core/numa_queue.hpp locks/mcscrn.hpp)

usher_check_changed(mcscrn-drops-last "who comes back goes before the last in the queue, and is not linked to it" mcscrn ""
  "    P::node(c.last).next.store(front, std::memory_order_relaxed);  // made visible by the grant
"
  ""
  core/numa_queue.hpp locks/mcscrn.hpp)

usher_check_changed(mcscrn-graft-drops-rest "who comes back is not linked to those who are in the queue" mcscrn ""
  "  P::node(c.last).next.store(next, std::memory_order_relaxed);  // made visible by the grant
"
  ""
  core/numa_queue.hpp locks/mcscrn.hpp)

# Not a mistake: threads are moved from node to node, so that lists are longer than two nodes make them.
usher_check_changed(mcscrn-roaming "" mcscrn ""
  "P::numa_node()" "P::random() % 2"
  core/numa_queue.hpp locks/mcscrn.hpp)

set(also "P::numa_node()")
set(also_instead "P::random() % 2")
usher_check_changed(mcscrn-ring-keeps-youngest "the list is still named by a thread that has left it" mcscrn ""
  "return h == youngest ? older : youngest;" "return youngest;"
  core/numa_queue.hpp locks/mcscrn.hpp)

usher_check_changed(mcscrn-ring-joins-wrong "two lists are joined at one end only" mcscrn ""
  "link(second, before);" "(void)second;"
  core/numa_queue.hpp locks/mcscrn.hpp)
unset(also)
unset(also_instead)

# ---- Wide Fairlock

usher_check_changed(fairlock-wide-frees "frees the lock over a waiter that has just been counted" fairlock_wide ""
  "if (word_.compare_exchange_strong(w, 0, std::memory_order_acq_rel, std::memory_order_acquire)) return;
      P::backoff(0);
"
  "return word_.store(0, std::memory_order_release);
"
  locks/fairlock_wide.hpp)

usher_check_changed(fairlock-wide-from-the-lowest "scans from the lowest slot each time" fairlock_wide ""
  "next_slot(holders_slot(w))" "(static_cast<void>(holders_slot(w)), next_slot(0))"
  locks/fairlock_wide.hpp)

usher_check_changed(fairlock-wide-leaves-bit "takes a free lock and leaves its bit set" fairlock_wide ""
  "      bits_of(mine).fetch_and(~waits(mine), std::memory_order_relaxed);
"
  ""
  locks/fairlock_wide.hpp)

usher_check_changed(fairlock-wide-leaves-mark "the hand-over leaves the sleeper's mark" fairlock_wide ""
  "~(waits(next) | asleep(next))" "~waits(next)"
  locks/fairlock_wide.hpp)

usher_check_changed(fairlock-wide-stays-counted "who has the lock remains counted" fairlock_wide ""
  "(w & ~std::uint64_t{0xffffffff}) - one_waits," "(w & ~std::uint64_t{0xffffffff}),"
  locks/fairlock_wide.hpp)

usher_check_changed(fairlock-wide-relaxed "hands over by a relaxed operation" fairlock_wide ""
  "bits.fetch_and(~(waits(next) | asleep(next)), std::memory_order_acq_rel)"
  "bits.fetch_and(~(waits(next) | asleep(next)), std::memory_order_relaxed)"
  locks/fairlock_wide.hpp)
