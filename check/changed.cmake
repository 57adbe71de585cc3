# Locks made from the shipped headers by one change. First those that only make a rare path common, then those that are
# wrong and must be caught: what the checker is worth.

# With 31 slots and four threads none would ever queue for one.
usher_check_changed(fairlock-2 "" fairlock "" false
  "waiter_bits = ~std::uint32_t{1}" "waiter_bits = 6"
  locks/fairlock.hpp)

# One slot: distant waiters meet in it. And a second parameter of the paper's.
usher_check_lock(twa-1 usher/locks/twa.hpp usher::basic_twa ", 1" true "")
usher_check_lock(twa-near-2 usher/locks/twa.hpp usher::basic_twa ", 1, 127, 2" true "")

# ---- wrong ones

usher_check_changed(twa-no-second-look "does not look at grant between the slot and waiting for it" basic_twa ", 2" true
  "        if (distance(mine, std::memory_order_acquire) <= LongTermThreshold) return;
"
  ""
  locks/twa.hpp)

usher_check_changed(twa-mark-after-look "looks at grant before it marks the slot" basic_twa ", 2" true
  "        if ((seen & watched) == 0 && !set(slot, seen, watched)) continue;
        if (distance(mine, std::memory_order_seq_cst) <= LongTermThreshold) return;
"
  "        if (distance(mine, std::memory_order_seq_cst) <= LongTermThreshold) return;
        if ((seen & watched) == 0 && !set(slot, seen, watched)) continue;
"
  locks/twa.hpp)

usher_check_changed(mcs-relaxed-hand-over "hands over by a relaxed store" mcs "" false
  "flag.store(flag_granted, std::memory_order_release)" "flag.store(flag_granted, std::memory_order_relaxed)"
  queue_node.hpp locks/mcs.hpp)

usher_check_changed(mcs-node-after-hand-over "looks at the next node after it has been granted" mcs "" false
  "    if (const node_handle next = successor_or_free<P, W>(tail_, mine)) grant<P, W>(next);"
  "    if (const node_handle next = successor_or_free<P, W>(tail_, mine)) {
      grant<P, W>(next);
      (void)P::node(next).next.load(std::memory_order_relaxed);
    }"
  locks/mcs.hpp)

usher_check_changed(mcscr-drops-passive "forgets a passive thread where the queue has become empty" mcscr "" false
  "        insert_latest(latest);  // somebody has just arrived: no deficit
"
  ""
  locks/mcscr.hpp)

usher_check_changed(mcscr-frees-with-passive "frees the lock though threads are passive" mcscr "" false
  "if (passive_head_.get() == no_node) [[likely]]" "if (true)"
  locks/mcscr.hpp)

usher_check_changed(loiter-no-wake "does not wake the standby" loiter "" false
  "if (old & asleep) P::wake(key, every_sleeper, 1);" "(void)old, (void)key;"
  locks/loiter.hpp)

set(also "waiter_bits = ~std::uint32_t{1}")
set(also_instead "waiter_bits = 6")
usher_check_changed(fairlock-claims-holders-slot "lets the holder's slot be claimed" fairlock "" false
  "~std::uint32_t(w) & ~(std::uint32_t{1} << holders_slot(w)) & waiter_bits" "~std::uint32_t(w) & waiter_bits"
  locks/fairlock.hpp)

usher_check_changed(fairlock-keeps-head-asleep "does not wake the head of the overflow queue" fairlock "" false
  "if (w & head_asleep) P::wake(key, head_mask, all);" ""
  locks/fairlock.hpp)

unset(also)

usher_check_changed(ttas-looks-back "looks at the word after it has been freed" ttas "" false
  "word_.store(three_state::free, std::memory_order_release);"
  "{
      word_.store(three_state::free, std::memory_order_release);
      (void)word_.load(std::memory_order_relaxed);
    }"
  locks/ttas.hpp)

usher_check_changed(futex-key-too-late "reads the word after it has been freed to decide on the wake" futex "" false
  "three_state::unlock<P>(word_)"
  "word_.exchange(three_state::free, std::memory_order_release) == word_.load(std::memory_order_relaxed)
             ? void()
             : P::wake(P::key_of(word_), every_sleeper, 1)"
  locks/futex.hpp)

usher_check_changed(mcsg-no-mark-back "a group's leader does not put the guest's mark back if somebody queued" mcsg "" false
  "node_handle group_tail = tail_.exchange(mark, std::memory_order_acq_rel);"
  "node_handle group_tail = tail_.exchange(no_node, std::memory_order_acq_rel);
    (void)mark;"
  locks/mcsg.hpp)

usher_check_changed(mcscr-claims-fifo "claims to be first come, first served" mcscr "" false
  "      .starvation_free = true," "      .fifo = true, .starvation_free = true,"
  locks/mcscr.hpp)
