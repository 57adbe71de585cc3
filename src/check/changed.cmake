# Locks made from the shipped headers by one change. First those that only make a rare path common, then those that are
# wrong and must be caught: what the checker is worth.

# With 31 slots and four threads none would ever queue for one.
set(also ".bypass = 30")
set(also_instead ".bypass = 1")
usher_check_changed(fairlock-2 "" fairlock ""
  "waiter_bits = ~std::uint32_t{1}" "waiter_bits = 6"
  locks/fairlock.hpp)
unset(also)

# ---- wrong ones

usher_check_changed(mcs-relaxed-hand-over "hands over by a relaxed store" mcs ""
  "flag.store(flag_granted, std::memory_order_release)" "flag.store(flag_granted, std::memory_order_relaxed)"
  core/hand_over.hpp locks/mcs.hpp)

usher_check_changed(mcs-node-after-hand-over "looks at the next node after it has been granted" mcs ""
  "    if (const node_handle next = successor_or_free<P, W>(tail_, mine)) grant<P, W>(next);"
  "    if (const node_handle next = successor_or_free<P, W>(tail_, mine)) {
      grant<P, W>(next);
      (void)P::node(next).next.load(std::memory_order_relaxed);
    }"
  locks/mcs.hpp)

usher_check_changed(mcscr-drops-passive "forgets a passive thread where the queue has become empty" mcscr ""
  "        insert_latest(latest);  // somebody has just arrived: no deficit
"
  ""
  locks/mcscr.hpp)

usher_check_changed(mcscr-frees-with-passive "frees the lock though threads are passive" mcscr ""
  "if (passive_head_.get() == no_node) [[likely]]" "if (true)"
  locks/mcscr.hpp)

usher_check_changed(loiter-no-wake "does not wake the standby" loiter ""
  "if (old & asleep) P::wake(key, every_sleeper, 1);" "(void)old, (void)key;"
  locks/loiter.hpp)

set(also "waiter_bits = ~std::uint32_t{1}")
set(also_instead "waiter_bits = 6")
usher_check_changed(fairlock-claims-holders-slot "lets the holder's slot be claimed" fairlock ""
  "~std::uint32_t(w) & ~(std::uint32_t{1} << holders_slot(w)) & waiter_bits" "~std::uint32_t(w) & waiter_bits"
  locks/fairlock.hpp)

usher_check_changed(fairlock-keeps-head-asleep "does not wake the head of the overflow queue" fairlock ""
  "if (w & head_asleep) P::wake(key, head_mask, all);" ""
  locks/fairlock.hpp)

unset(also)

usher_check_changed(ttas-looks-back "looks at the word after it has been freed" ttas ""
  "word_.store(three_state::free, std::memory_order_release);"
  "{
      word_.store(three_state::free, std::memory_order_release);
      (void)word_.load(std::memory_order_relaxed);
    }"
  locks/ttas.hpp)

usher_check_changed(futex-key-too-late "reads the word after it has been freed to decide on the wake" futex ""
  "three_state::unlock<P>(word_)"
  "word_.exchange(three_state::free, std::memory_order_release) == word_.load(std::memory_order_relaxed)
             ? void()
             : P::wake(P::key_of(word_), every_sleeper, 1)"
  locks/futex.hpp)

usher_check_changed(mcsg-no-mark-back "a group's leader does not put the guest's mark back if somebody queued" mcsg ""
  "node_handle group_tail = tail_.exchange(mark, std::memory_order_acq_rel);"
  "node_handle group_tail = tail_.exchange(no_node, std::memory_order_acq_rel);
    (void)mark;"
  locks/mcsg.hpp)

usher_check_changed(mcscr-claims-fifo "claims to be first come, first served" mcscr ""
  "      .starvation_free = true," "      .fifo = true, .starvation_free = true,"
  locks/mcscr.hpp)

usher_check_changed(fairlock-as-printed "starts again while the lock is held and not where it is free: Figure 5, line 5, as printed"
  fairlock ""
  "    if ((w & lock_bit) == 0) {  // Fig 5 line 5, mended
      if (!try_lock()) return claim::again;
      P::doorway(this);
      return claim::locked;
    }
"
  "    if (w & lock_bit) return claim::again;
"
  locks/fairlock.hpp)

usher_check_changed(fairlock-scans-from-below "serves the lowest bit, not the next one" fairlock ""
  "slot = next_bit(std::uint32_t(w), holders_slot(w));" "slot = next_bit(std::uint32_t(w), 0);"
  locks/fairlock.hpp)

usher_check_changed(fairlock-promises-too-much "promises a smaller bound on bypass than it keeps" fairlock ""
  ".bypass = 30," ".bypass = 1,"
  locks/fairlock.hpp)

usher_check_changed(mcscr-never-fair "never serves the eldest passive thread" mcscr ""
  "passive_head_.get() != no_node && P::bernoulli(FairnessPeriod)" "false"
  locks/mcscr.hpp)

usher_check_changed(loiter-patient "the standby never becomes impatient" loiter ""
  "(patient ? 0 : impatient)" "0"
  locks/loiter.hpp)

usher_check_changed(loiter-rash "is certain of another thread that has been there" loiter ""
  "|| last != inner_node_.get()" "|| last == inner_node_.get()"
  locks/loiter.hpp)

usher_check_changed(mcscr-rash "is certain of another thread where there is none" mcscr ""
  "|| tail_.load(std::memory_order_relaxed) != mine;" "|| tail_.load(std::memory_order_relaxed) != no_node || mine == no_node;"
  locks/mcscr.hpp)

# A lock of ours in its compact form, so changed.
function(usher_check_compact name bug text instead)
  string(MAKE_C_IDENTIFIER ${name} id)
  usher_check_changed(${name} "${bug}" compact ", usher::changed_${id}::ticket<P, W>" "${text}" "${instead}"
    locks/ticket.hpp core/inflatable.hpp)
  set(sources ${sources} PARENT_SCOPE)
endfunction()

usher_check_compact(compact-blind-waiter "a waiter does not see that the lock was made large in its turn"
  "return (w & attached) != 0 || served(w) == mine;" "return served(w) == mine;")

usher_check_compact(compact-same-upper-half "a generation looks like the word on which a waiter falls asleep"
  "(a.users.load(std::memory_order_relaxed)) + 2u}" "(a.users.load(std::memory_order_relaxed)) + 1u}")

usher_check_compact(compact-enters-closed "enters an annex that has been closed"
  "generation(u) == generation(seen) && count(u) != 0" "generation(u) == generation(seen)")

usher_check_compact(compact-any-generation "enters an annex that has gone to another"
  "generation(u) == generation(seen) && count(u) != 0" "count(u) != 0")

usher_check_compact(compact-keeps-annex "does not count itself out before it unlocks"
  "        if (!last) return a.lock.unlock();" "        if (!last) {
          a.lock.unlock();
          a.users.fetch_sub(0, std::memory_order_relaxed);
          (void)word_.load(std::memory_order_relaxed);
          return;
        }")

# ---- wrong waiting lists, condition variables, semaphores

usher_check_wrong(queue queue-hides-waiters "who has locked the list hides that somebody waits" wait_queue
  "(stale(seen) ? stamp : seen) | locked"
  "stamp | locked"
  core/wait_queue.hpp)

usher_check_wrong(queue queue-chooses-unmarked "a broadcast does not mark those whom it chooses" wait_queue
  "      if (mark_chosen(*w)) {
"
  "      if (w->state.load(std::memory_order_relaxed) == waiter::waiting) {
"
  core/wait_queue.hpp)

usher_check_wrong(queue queue-close-at-once "close() does not wait for those who leave" wait_queue
  "const bool empty = waiting_.front() == nullptr && tied_.get() == nullptr;"
  "const bool empty = true;"
  core/wait_queue.hpp)

usher_check_wrong(queue queue-close-severs "close() severs those who are tied before it says that threads wait" wait_queue
  "if (!blocked) sever();"
  "sever();"
  core/wait_queue.hpp)

usher_check_wrong(queue queue-keeps-signal "a cancelled waiter passes its signal on to nobody" wait_queue
  "waiter* const other = choose(choice::tied);"
  "waiter* const other = nullptr;"
  core/wait_queue.hpp)

usher_check_wrong(queue queue-leaves-tied "close() forgets those who are tied and does not tell them" wait_queue
  "      std::uint32_t seen = waiter::tied;
      // (7) release: we have read what we need of the waiter; pairs with (8).
      if (!w->tie.compare_exchange_strong(seen, waiter::severed, std::memory_order_release, std::memory_order_relaxed))
        push_tied(*w);
"
  "      if (w->tie.load(std::memory_order_relaxed) != waiter::tied) push_tied(*w);
"
  core/wait_queue.hpp)

usher_check_wrong(queue queue-loses-last "the rest of a chain does not know its last" wait_queue
  "    if (next != nullptr) next->prev.set(granted.prev.get());
"
  ""
  core/wait_queue.hpp)

usher_check_wrong(queue queue-forgets-priority "a waiter does not ask for its priority" wait_queue
  "w.rank.begin(anyone());"
  "w.rank.value.set(1);"
  core/wait_queue.hpp)

usher_check_wrong(queue queue-appends-blind "a chain is appended behind threads of a lower priority" wait_queue
  "if (last->rank.get() >= more.rank.get()) [[likely]] {"
  "if (true) {"
  core/wait_queue.hpp)

usher_check_wrong(condition condition-stops "a broadcast wakes the first alone" basic_condition_variable
  "      if (waiter* next = queue::rest(*me_)) queue::grant(*next);
"
  ""
  core/condition_core.hpp)

usher_check_wrong(semaphore semaphore-plain-let-go "lets the list go by a plain store" semaphore_core
  "      if (!word_.compare_exchange_weak(seen, then, order::acq_rel, order::relaxed)) {
        P::backoff(0);
        continue;
      }
      if (!takes_off) break;"
  "      if (!takes_off) {
        word_.store(then, order::release);
        break;
      }
      if (!word_.compare_exchange_weak(seen, then, order::acq_rel, order::relaxed)) {
        P::backoff(0);
        continue;
      }"
  core/semaphore_core.hpp)

usher_check_wrong(semaphore semaphore-forgets-priority "a waiter does not ask for its priority" semaphore_core
  "w.rank.begin((word_.load(order::relaxed) & some_wait) != 0);"
  "w.rank.value.set(1);"
  core/semaphore_core.hpp)

usher_check_wrong(semaphore semaphore-wakes-first "wakes before it lets the list go" semaphore_core
  "      (last != nullptr ? last->next.set(w) : void(first = w));
      last = w;
"
  "      const wake_key key = P::key_of(w->state);
      w->state.store(w->becomes.get(), order::release);
      P::wake(key, every_sleeper, 1);
      (void)last;
"
  core/semaphore_core.hpp)

usher_check_wrong(semaphore semaphore-release-leaves-it "a release leaves its credit to nobody" semaphore_core
  "settles = to_be_settled(then);"
  "settles = false;"
  core/semaphore_core.hpp)

usher_check_wrong(semaphore semaphore-arrives-uncounted "a waiter that comes for its credit remains expected" semaphore_core
  "seen - 1 - came(w)"
  "seen - 1"
  core/semaphore_core.hpp)

usher_check_wrong(semaphore semaphore-leaves-uncounted "a waiter that was called and leaves remains expected" semaphore_core
  "seen, seen - came(w), order::relaxed"
  "seen, seen, order::relaxed"
  core/semaphore_core.hpp)

usher_check_wrong(semaphore semaphore-queues-unsettled "who joins the list does not look for a credit that came meanwhile" semaphore_core
  "    settle();  // sees a credit that has come since
"
  "    std::uint64_t seen_now = word_.load(order::relaxed);
    while (!word_.compare_exchange_weak(seen_now, (seen_now & ~(locked | some_wait)) | (list_.front() ? some_wait : 0),
                                        order::acq_rel, order::relaxed))
      P::backoff(0);
"
  core/semaphore_core.hpp)

usher_check_wrong(semaphore semaphore-leaves-unsettled "who leaves the list does not look for a credit that came meanwhile" semaphore_core
  "      list_.remove(w);
      settle();
"
  "      list_.remove(w);
      std::uint64_t seen = word_.load(order::relaxed);
      while (!word_.compare_exchange_weak(seen, (seen & ~(locked | some_wait)) | (list_.front() ? some_wait : 0),
                                          order::acq_rel, order::relaxed))
        P::backoff(0);
"
  core/semaphore_core.hpp)

usher_check_wrong(semaphore semaphore-leaves-called-unsettled "who was called and leaves does not call another" semaphore_core
  "seen - came(w), order::relaxed, order::relaxed)) P::backoff(0);
    settle();"
  "seen - came(w), order::relaxed, order::relaxed)) P::backoff(0);
    std::uint64_t seen_now = word_.load(order::relaxed);
    while (!word_.compare_exchange_weak(seen_now, (seen_now & ~(locked | some_wait)) | (list_.front() ? some_wait : 0),
                                        order::acq_rel, order::relaxed))
      P::backoff(0);"
  core/semaphore_core.hpp)

usher_check_wrong(semaphore semaphore-loses-handed "who leaves loses the credit that was handed to it" semaphore_core
  "if (w.state.load(order::relaxed) == waiter::granted || take_called(w)) return true;"
  "if (w.state.load(order::relaxed) == waiter::granted) return false;
    if (take_called(w)) return true;"
  core/semaphore_core.hpp)

# ---- timed waiters beside a lock

usher_check_changed(gate-read-first "an unlock reads the gate before it clears the owner's tag" check::timed_tas ""
  "    tag.store(0, std::memory_order_relaxed);  // ordered before the release by the lock's own release
    P::fence_light();                         // (3)
    return anyone(gate);"
  "    const bool some = anyone(gate);
    P::fence_light();
    tag.store(0, std::memory_order_relaxed);
    return some;"
  core/timed_waiters.hpp ../../src/check/timed_locks.hpp)

usher_check_changed(gate-no-light-fence "an unlock does not order its tag before its look at the gate" check::timed_tas ""
  "P::fence_light();" ";"
  core/timed_waiters.hpp ../../src/check/timed_locks.hpp)

usher_check_changed(gate-no-heavy-fence "a timed waiter does not order its mark before its look at the tag" check::timed_tas ""
  "P::fence_heavy();" "true;"
  core/timed_waiters.hpp ../../src/check/timed_locks.hpp)

usher_check_changed(gate-sleeps-untagged "a timed waiter sleeps without a limit though there is no tag" check::timed_tas ""
  "tag->load(std::memory_order_relaxed) != 0" "tag->load(std::memory_order_relaxed) != ~0u"
  core/timed_waiters.hpp ../../src/check/timed_locks.hpp)

usher_check_changed(gate-release-no-wake "an unlock that frees the lock wakes no timed waiter" check::timed_ticket ""
  "          lock.unlock();
          return P::wake(key, every_sleeper, 1);"
  "          return lock.unlock();"
  core/timed_waiters.hpp ../../src/check/timed_locks.hpp)

usher_check_changed(gate-release-no-look "an unlock that frees the lock leaves no mark for a waiter about to sleep"
  check::timed_tas ""
  "(seen & ~(served | in_a_row)) | look, std::memory_order_release" "seen & ~served, std::memory_order_release"
  core/timed_waiters.hpp ../../src/check/timed_locks.hpp)

usher_check_changed(gate-tag-late "an unlock that frees the lock has its tag there while it says so" check::timed_tas ""
  "      } else if (seen & served) {"
  "      } else if (seen & served) {
        if (tag != nullptr) tag->store(unknown_owner, std::memory_order_relaxed);"
  core/timed_waiters.hpp ../../src/check/timed_locks.hpp)
