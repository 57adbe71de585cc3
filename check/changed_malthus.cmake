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
