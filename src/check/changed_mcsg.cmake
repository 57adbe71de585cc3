# As changed.cmake, for the locks of the MCSg paper.

usher_check_changed(clh-gives-own-node "gives its own node back in place of the one it has watched" clh ""
  "Nodes::give(previous);" "Nodes::give(mine);"
  locks/clh.hpp)

usher_check_changed(clh-tls-keeps-early "keeps the node that it watches before it has been granted" clh_tls ""
  "      wait_for_grant<P, W>(previous);  // pairs with (2)
      Nodes::give(previous);           // its owner has done with it: granting was the last that it did
"
  "      Nodes::give(previous);
      wait_for_grant<P, W>(previous);
"
  locks/clh.hpp)

usher_check_changed(k42-head-not-recorded "does not say who is first in the queue when it takes its node out" k42 ""
  "    next_.store(second, std::memory_order_relaxed);  // for our own unlock()
"
  ""
  locks/k42.hpp)

usher_check_changed(k42-keeps-old-first "lets its node be the first in the queue though it is gone" k42 ""
  "      next_.store(no_node, std::memory_order_relaxed);
"
  ""
  locks/k42.hpp)

usher_check_changed(k42-clears-too-late "forgets its node as the first in the queue only after others may have come" k42 ""
  "      if (tail_.compare_exchange_strong(expected, self, std::memory_order_release, std::memory_order_relaxed)) return;
      second"
  "      if (tail_.compare_exchange_strong(expected, self, std::memory_order_release, std::memory_order_relaxed)) {
        next_.store(no_node, std::memory_order_relaxed);
        return;
      }
      second"
  locks/k42.hpp)

usher_check_changed(mcsg++-no-acknowledgement "a regular leaves before the guest that it handed the lock to has taken note"
  mcsg_plus_plus ""
  "    W::await_soon(next, [](node_handle h) { return h == guest_acquired; });  // pairs with (6)
"
  ""
  locks/mcsg_plus.hpp)

usher_check_changed(mcsg++-keeps-turn "a group's leader that finds the lock free does not pass the turn on" mcsg_plus_plus ""
  "turns_.pass(ticket);" "if (previous != no_node) turns_.pass(ticket);"
  locks/mcsg_plus.hpp)

usher_check_changed(mcsg++-keeps-turn-behind "a group's leader that queues behind a regular does not pass the turn on"
  mcsg_plus_plus ""
  "turns_.pass(ticket);" "if (previous == no_node) turns_.pass(ticket);"
  locks/mcsg_plus.hpp)

usher_check_changed(mcsg++-sleeping-turn "passes the turn on and wakes nobody" mcsg_plus_plus ""
  "        P::wake(key, every_sleeper, all);
    } else {
      owner_"
  "        (void)key;
    } else {
      owner_"
  locks/mcsg_plus.hpp)

usher_check_changed(mcsg+-ends-unsaid "a guest that leaves does not tell the group behind it where it ends" mcsg_plus ""
  "tell(last, no_successor);" "return;"
  locks/mcsg_plus.hpp)

usher_check_changed(mcsg+-guest-lost "a leader puts the last regular into the tail though a guest waits behind it" mcsg_plus ""
  "if (h == guest_waits || h == guest_sleeps) return guest;" "if (h == guest_waits || h == guest_sleeps) return last;"
  locks/mcsg_plus.hpp)

usher_check_changed(mcsg+-keeps-end "a leader does not take the mark of the end off its group's last node" mcsg_plus ""
  "        next.store(no_node, std::memory_order_relaxed);  // seen by who finds the node in the tail: (1)
"
  ""
  locks/mcsg_plus.hpp)

usher_check_changed(mcsg+-leader-sleeps-on "does not wake a leader that waits to hear where its group ends" mcsg_plus ""
  "if (next.exchange(what, std::memory_order_release) == leader_sleeps) P::wake(key, every_sleeper, 1);"
  "next.exchange(what, std::memory_order_release), (void)key;"
  locks/mcsg_plus.hpp)

usher_check_changed(mcsg+-watch-lost "a guest takes the mark of the sleepers off and does not put it back" mcsg_plus ""
  "      if (previous == guest_watched) restore_watch();
"
  ""
  locks/mcsg_plus.hpp)

usher_check_changed(mcsg+-guests-sleep-on "a guest that leaves does not wake those who wait for the tail" mcsg_plus ""
  "      P::wake(key, every_sleeper, all);
    else
      tell"
  "      (void)key;
    else
      tell"
  locks/mcsg_plus.hpp)

usher_check_changed(mcsg-guests-sleep-on "a guest that leaves does not wake the leaders of groups" mcsg ""
  "if (seen == guest_watched) P::wake(key, every_sleeper, all);" "(void)key;"
  locks/mcsg.hpp)

usher_check_changed(mcsg+-covers-watch "a regular that takes the mark of the sleepers off does not wake them" mcsg_plus ""
  "    if (previous == guest_watched) wake_all();
"
  ""
  locks/mcsg_plus.hpp)

usher_check_changed(mcsg+-leader-covers-watch "a leader that takes the mark of the sleepers off does not wake them" mcsg_plus ""
  "last == guest ? restore_watch() : wake_all();" "if (last == guest) restore_watch();"
  locks/mcsg_plus.hpp)

# ---- cohorts

# A cohort of ticket locks with a threshold of one, changed: text becomes instead.
function(usher_check_cohort name bug text instead)
  usher_check_change(${name} "${text}" "${instead}" locks/cohort.hpp)
  string(MAKE_C_IDENTIFIER ${name} id)
  file(CONFIGURE OUTPUT changed/${id}_runs.hpp CONTENT "#pragma once
#include \"check/cohort_runs.hpp\"
#include \"check/changed/@id@.hpp\"
namespace usher::changed_@id@ {
template <platform P, class W>
using counted = check::counts_runs<cohort<P, W, check::begins_a_run, usher::ticket, 1>>;
}
" @ONLY)
  usher_check_lock(${name} check/changed/${id}_runs.hpp usher::changed_${id}::counted "" "${bug}")
  set(sources ${sources} PARENT_SCOPE)
endfunction()

usher_check_cohort(c-tkt-tkt-1 "" "PassThreshold = 64" "PassThreshold = 1")

usher_check_cohort(cohort-passes-on "passes the lock within a node without end"
  "h.turns.get() <= PassThreshold && " "")

usher_check_cohort(cohort-hands-over-what-it-frees "leaves the global lock to the node and frees it, too"
  "    h.turns.set(0);
"
  "")

usher_check_cohort(cohort-frees-global-first "frees the global lock and then the local one"
  "    h.lock.unlock();
    global_.unlock();
"
  "    global_.unlock();
    h.lock.unlock();
")

usher_check_cohort(cohort-leaves-to-nobody "leaves the global lock to the node though nobody is there"
  " && !h.lock.alone()" "")

usher_check_cohort(cohort-keeps-local "goes away with the local lock where the global one is not free"
  "      h.lock.unlock();
      return false;"
  "      return false;")
