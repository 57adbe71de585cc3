# The ticket family: as changed.cmake.

# One slot: distant waiters meet in it. And a second parameter of the paper's.
usher_check_lock(twa-1 usher/locks/twa.hpp usher::basic_twa ", usher::shared_array<P, 1>" "")
usher_check_lock(twa-near-2 usher/locks/twa.hpp usher::basic_twa ", usher::shared_array<P>, 2" "")

# ---- wrong ones

usher_check_changed(twa-no-second-look "does not look at grant between the slot and waiting for it" twa ""
  "      if (near(std::memory_order_acquire)) return;
"
  ""
  locks/waiting_array.hpp locks/twa.hpp)

usher_check_changed(twa-mark-after-look "looks at grant before it marks the slot" twa ""
  "      if ((seen & watched) == 0 && !set<P>(slot, seen, watched)) continue;
      if (near(std::memory_order_seq_cst)) return;
"
  "      if (near(std::memory_order_seq_cst)) return;
      if ((seen & watched) == 0 && !set<P>(slot, seen, watched)) continue;
"
  locks/waiting_array.hpp locks/twa.hpp)
