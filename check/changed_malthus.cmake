# Locks of the Malthusian paper and of Fairlocks with a change, as in changed.cmake: rare paths made common, then mistakes
# that must be caught.

usher_check_changed(lifo-cr-drops-rest "a pop forgets the stack below" lifo_cr "" false
  "below == no_node ? held : below" "below == no_node ? held : held"
  locks/lifo.hpp)

usher_check_changed(lifo-cr-forgets-second "takes the second from the stack and leaves it there" lifo_cr "" false
  "    set_link(seen, link(second));
"
  ""
  locks/lifo.hpp)

usher_check_changed(lifo-cr-eldest-stays "serves the eldest and leaves it on the stack" lifo_cr "" false
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
usher_check_changed(lifo-popped-by-waiter "others than the holder pop: ABA" lifo "" false
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
