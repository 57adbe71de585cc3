# The ticket family: as changed.cmake.

# One slot: distant waiters meet in it. And a second parameter of the paper's.
usher_check_lock(twa-1 usher/locks/twa.hpp usher::basic_twa ", usher::shared_array<P, 1>" "")
usher_check_lock(twa-near-2 usher/locks/twa.hpp usher::basic_twa ", usher::shared_array<P>, 2" "")

# ---- wrong ones

usher_check_changed(twa-no-second-look "does not look at grant between the slot and waiting for it" twa ""
  "      if (near(std::memory_order_acquire)) return;
"
  ""
  core/waiting_array.hpp locks/twa.hpp)

usher_check_changed(twa-mark-after-look "looks at grant before it marks the slot" twa ""
  "      if ((seen & watched) == 0) {
        slot.fetch_or(watched, std::memory_order_seq_cst);
        seen = slot.load(std::memory_order_acquire);
      }
      if (near(std::memory_order_seq_cst)) return;
"
  "      if (near(std::memory_order_seq_cst)) return;
      if ((seen & watched) == 0) {
        slot.fetch_or(watched, std::memory_order_seq_cst);
        seen = slot.load(std::memory_order_acquire);
      }
"
  core/waiting_array.hpp locks/twa.hpp)

usher_check_changed(twa-array-first "notifies the array before the hand-over" twa ""
  "      hand_over(next);                                        // hand-over first …
      if (tells_at(next)) waiting_array::notify<P, W>(slot);  // … then the array: outside the critical section
"
  "      if (tells_at(next)) waiting_array::notify<P, W>(slot);
      hand_over(next);
"
  core/waiting_array.hpp locks/twa.hpp)

usher_check_changed(twa-quantized-first-only "of a gang that is told only the first comes near" twa_quantized ""
  "return ahead <= LongTermThreshold + mine / ticket_words::one % Gang;"
  "return ahead <= LongTermThreshold;"
  core/waiting_array.hpp locks/twa.hpp)

usher_check_changed(twa-quantized-late "tells a gang when its last is served and not before its first" twa_quantized ""
  "word& slot = slot_of(next + LongTermThreshold * ticket_words::one);" "word& slot = slot_of(next);"
  core/waiting_array.hpp locks/twa.hpp)

set(also "OwnerNotifies || !Array::in_lock,")
set(also_instead "true,")
usher_check_changed(twa-private-in-unlock "notifies an array that is in the lock after the hand-over" twa_private ""
  "bool OwnerNotifies = Array::in_lock>" "bool OwnerNotifies = false>"
  core/waiting_array.hpp locks/twa.hpp)
unset(also)

# The carry of a field.
usher_check_changed(ticket32-spills "lets the carry of grant spill into ticket" ticket32 ""
  "return grant(w) == numbers - 1 ? 1 - numbers : 1;" "return 1 + 0 * w;"
  locks/ticket32.hpp)

usher_check_changed(ticket32-unmarks "takes the sleepers' mark off though threads wait" ticket32 ""
  "if (fields::grant(next) == fields::ticket(next)) next &= ~fields::asleep;" "next &= ~fields::asleep;"
  locks/ticket32.hpp)

usher_check_changed(twa32-adds-twice "adds twice what the mark is where it means to take it off" twa32 ""
  "step - (seen & fields::asleep)" "step + (seen & fields::asleep)"
  locks/ticket32.hpp locks/twa32.hpp)

# The paper's gap, and the notification itself.
usher_check_changed(twa-staged-as-printed "only who has been two away tells the next" twa_staged ""
  "    watch_grant(mine, 1);
    look_behind(mine);
"
  "    const bool transitional = distance(mine, std::memory_order_seq_cst) == 2;
    watch_grant(mine, 1);
    if (transitional) look_behind(mine);
"
  core/waiting_array.hpp locks/twa_staged.hpp)

usher_check_changed(twa-staged-silent "the thread two away tells nobody when it moves up" twa_staged ""
  "    watch_grant(mine, 1);
    look_behind(mine);
"
  "    watch_grant(mine, 1);
"
  core/waiting_array.hpp locks/twa_staged.hpp)

usher_check_changed(twa-staged-trusts-fast-path "who is served at once does not look behind" twa_staged ""
  "    else
      look_behind(mine);
"
  ""
  core/waiting_array.hpp locks/twa_staged.hpp)

usher_check_changed(twa-id-no-second-look "does not look at grant after it has published its identity" twa_id ""
  "if (is_still_far(mine)) {" "{"
  core/waiting_array.hpp locks/twa_id.hpp)

usher_check_changed(twa-id-displaces-sleeper "does not wake the sleeper whom it displaces" twa_id ""
  "    leave(slot, me); " "    slot.exchange(me, std::memory_order_seq_cst); "
  core/waiting_array.hpp locks/twa_id.hpp)

usher_check_changed(twa-id-one-identity "gives all waiters one identity" twa_id ""
  "    const node_handle me = P::take_node();
    if (me == no_node) return;
"
  "    node_handle me = 1;
"
  core/waiting_array.hpp locks/twa_id.hpp)

usher_check_changed(twa-chain-forgets "tells only the first of a chain" twa_chain ""
  "      h = rest;" "      (void)rest;
      h = no_node;"
  core/waiting_array.hpp locks/twa_chain.hpp)

usher_check_changed(twa-chain-reads-late "reads a node's link after its owner has been told" twa_chain ""
  "      const node_handle rest = P::node(h).next.load(std::memory_order_relaxed);  // first: it is its owner's once told
      grant<P, W>(h);
"
  "      grant<P, W>(h);
      const node_handle rest = P::node(h).next.load(std::memory_order_relaxed);
"
  core/waiting_array.hpp locks/twa_chain.hpp)

usher_check_changed(twa-chain-no-second-look "does not look at grant after it has hung its node in" twa_chain ""
  "      if (!is_far(mine, std::memory_order_seq_cst)) tell_all(slot);  // (5): me, too, unless I am just being told
"
  ""
  core/waiting_array.hpp locks/twa_chain.hpp)

usher_check_changed(twa-chain-leaves "leaves with its node still in the chain" twa_chain ""
  "      if (!is_far(mine, std::memory_order_seq_cst)) tell_all(slot);  // (5): me, too, unless I am just being told
"
  "      if (!is_far(mine, std::memory_order_seq_cst)) break;
"
  core/waiting_array.hpp locks/twa_chain.hpp)

usher_check_changed(tkt-dual-as-printed "advances the second word after it has handed over" tkt_dual ""
  "    const std::uint32_t next = ticket_words::number(grant_.word.load(std::memory_order_relaxed)) + ticket_words::one;
    if constexpr (!W::parks) {
      grant_.word.store(next, std::memory_order_release);  // (2)
    } else {"
  "    const std::uint32_t next = ticket_words::number(grant_.word.load(std::memory_order_relaxed)) + ticket_words::one;
    if constexpr (!W::parks) {
      grant_.word.store(next, std::memory_order_release);
      entered_.word.store(next + ticket_words::one, std::memory_order_relaxed);
    } else {"
  locks/tkt_dual.hpp)

usher_check_changed(tkt-dual-unmarks "takes the mark off the second word though threads wait" tkt_dual ""
  "    ticket_words::unmark(ticket_.word, entered_.word, next);"
  "    entered_.word.fetch_and(~ticket_words::asleep, std::memory_order_relaxed);"
  locks/tkt_dual.hpp)

usher_check_changed(three-stage-plain-c "takes C by a store though others take it from outside" three_stage_try ""
  "      for (await_free(c_); !take(c_); await_free(c_)) P::backoff(0);"
  "      await_free(c_);
      hold(c_);"
  locks/three_stage.hpp)

usher_check_changed(three-stage-early-a "releases A before it has B" three_stage ""
  "    await_free(b_);
    hold(b_);
    a_.unlock();
"
  "    a_.unlock();
    await_free(b_);
    hold(b_);
"
  locks/three_stage.hpp)

usher_check_changed(three-stage-no-mark "sleeps at B or C without a mark" three_stage ""
  "        if (seen == taken &&
            !w.compare_exchange_strong(seen, slept_on, std::memory_order_relaxed, std::memory_order_relaxed))
          continue;
        P::park(w, slept_on, every_sleeper);"
  "        P::park(w, seen, every_sleeper);"
  locks/three_stage.hpp)

usher_check_changed(qspinlock-loses-waiter "the pending thread overwrites the tail when it takes the lock" qspinlock ""
  "    word_.fetch_add(held - pending, std::memory_order_relaxed);"
  "    word_.store(held, std::memory_order_relaxed);"
  locks/qspinlock.hpp)

usher_check_changed(qspinlock-loses-mark "the pending thread takes the queue head's mark off" qspinlock ""
  "    word_.fetch_add(held - pending, std::memory_order_relaxed);"
  "    word_.fetch_and(~asleep, std::memory_order_relaxed);
    word_.fetch_add(held - pending, std::memory_order_relaxed);"
  locks/qspinlock.hpp)

usher_check_changed(qspinlock-keeps-pending "does not take back what it has set behind a queue" qspinlock ""
  "      if ((seen & pending) == 0) take_pending_back();
"
  ""
  locks/qspinlock.hpp)

set(also "    P::doorway(this);
    if (const node_handle previous")
set(also_instead "    if (const node_handle previous")
usher_check_changed(qspinlock-early-doorway "claims its place where it has set pending behind a queue, and not where it queues up"
  qspinlock ""
  "      if ((seen & pending) == 0) take_pending_back();
"
  "      P::doorway(this);
      if ((seen & pending) == 0) take_pending_back();
"
  locks/qspinlock.hpp)
unset(also)
unset(also_instead)

usher_check_changed(qspinlock-quiet-pending "takes back what it has set behind a queue and does not wake the queue's head" qspinlock ""
  "      if (old & asleep) P::wake(P::key_of(word_), every_sleeper, all);
"
  "      (void)old;
"
  locks/qspinlock.hpp)

usher_check_changed(qspinlock-head-ignores-pending "the head of the queue does not wait for the pending thread" qspinlock ""
  "wait_until_clear(held | pending)" "wait_until_clear(held)"
  locks/qspinlock.hpp)

usher_check_changed(partitioned-drops-mark "does not wake those who sleep on a word for later numbers" partitioned_ticket ""
  "      if (grant.exchange(next, std::memory_order_release) & ticket_words::asleep) [[unlikely]]
        P::wake(key, every_sleeper, all);"
  "      if (grant.exchange(next, std::memory_order_release) & ticket_words::asleep) [[unlikely]]
        P::wake(key, every_sleeper, 1);"
  locks/partitioned.hpp)

usher_check_changed(awn-early-place "takes a place whose last number has been served and not released" awn ""
  "    await(place_of(mine + 1), [mine](std::uint64_t v) {
      return (v & ~asleep) == served(mine + 1 - Places) || (v >> 33 == round(mine + 1) && (v & waits) != 0);
    });
"
  "    await(place_of(mine), [mine](std::uint64_t v) {
      return (v & ~asleep) == served(mine - Places) || (v & ~asleep) == served(mine);
    });
"
  locks/awn.hpp)

usher_check_changed(awn-drops-sleepers "forgets those who sleep at a place that it takes" awn ""
  "| std::uint64_t{me} * 2 | (seen & asleep)," "| std::uint64_t{me} * 2,"
  locks/awn.hpp)
