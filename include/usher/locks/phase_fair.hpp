// Read-write locks: phase-fair ones, and BRAVO, whose readers make themselves visible to writers in a table. Algorithm,
// source, guarantees and bounds: core/read_write_core.hpp.
//
//     phase_fair<P, W>                               writers queue on a ticket lock
//     phase_fair<P, W, mcs>                          … on another lock of the catalogue
//     phase_fair<P, W, ticket, reader_rule::recursive>   a thread may lock again for reading
//     bravo<P, W, …>                                 readers write to a slot of a table, not to a word that all share
//
// Guarantees, if every owner unlocks and every thread goes on running:
//
//     rule         a reader waits for                        a writer waits for
//     phase_fair   at most one writer                        the writers before it in the writers' lock, and for each of
//                                                            them and for itself one phase of readers
//     recursive    at most one writer that holds the lock,   as above, if each reader leaves within a window and none
//                  and at most one window (8 ms) behind a    depends on a later reader; else without a bound
//                  writer that waits
//
// Window: the time after which a waiting writer admits later readers; read_write_windows.hpp.
//
// A thread that holds the lock for writing must not lock it again. Under the rule phase_fair it must not lock again for
// reading either. Calls with a time limit, try_lock() and try_upgrade() do not keep this order. After 16 writers have
// timed out while readers were inside, a reader may enter before a waiting writer, until a waiting writer gets the lock.
// Cost, uncontended: a pair for reading two fetch-and-adds; a pair for writing a compare-and-swap and a fetch-and-add.
// With BRAVO's bias, a pair for reading is two compare-and-swaps on a slot that no other thread uses, except by a
// collision.
// Layout: five 32-bit words, then the writers' lock. All zero bytes are a free lock. unlock() and unlock_shared() do not
// touch the lock after the operation that releases it.
#pragma once

#include <cstdint>

#include "usher/core/platform.hpp"
#include "usher/core/read_write_core.hpp"
#include "usher/core/waiting.hpp"
#include "usher/locks/ticket.hpp"

namespace usher::inline v2 {

/// A read-write lock's guarantees as data.
struct read_write_traits {
  const char* summary;
  const char* paper;
  reader_rule rule;
  bool biased;
};

template <platform_with_asymmetric_fences P, class W, template <class, class> class Writers, reader_rule Rule,
          bool Biased>
class basic_phase_fair {
 public:
  using writers_lock = Writers<P, W>;
  static_assert(lock_algorithm<writers_lock>);
  static constexpr read_write_traits traits{
      .summary = Biased ? "BRAVO over a phase-fair lock: readers in slots of a table, which writers search"
                        : "phase-fair: readers and writers take turns",
      .paper = Biased ? "BRAVO, Listing 1; PF-T of Brandenburg and Anderson" : "Brandenburg and Anderson 2010, PF-T",
      .rule = Rule,
      .biased = Biased,
  };

  void lock() { core().lock(); }
  bool try_lock() { return core().try_lock(); }
  void unlock() { core().unlock(); }
  void lock_shared() { core().lock_shared(); }
  bool try_lock_shared() { return core().try_lock_shared(); }
  void unlock_shared() { core().unlock_shared(); }
  /// `remaining()` returns the nanoseconds that are left; when it returns 0, the function returns false.
  template <class Remaining>
  bool lock_while_time(Remaining remaining) {
    return core().lock(remaining);
  }
  template <class Remaining>
  bool lock_shared_while_time(Remaining remaining) {
    return core().lock_shared(remaining);
  }
  bool try_upgrade() { return core().try_upgrade(); }
  void unlock_and_lock_shared() { core().unlock_and_lock_shared(); }
  bool is_idle() { return core().is_idle(); }
  void renew(std::uint32_t reads, bool writes) { core().renew(reads, writes); }
  void count_from(std::uint32_t n) { core().count_from(n); }

 private:
  auto core() { return read_write_core<P, W, writers_lock, Biased>(words_, writers_, Rule); }

  read_write_words<P> words_;
  writers_lock writers_;
};

template <platform_with_asymmetric_fences P, class W, template <class, class> class Writers = ticket,
          reader_rule Rule = reader_rule::phase_fair>
class phase_fair : public basic_phase_fair<P, W, Writers, Rule, false> {};

template <platform_with_visible_readers P, class W, template <class, class> class Writers = ticket,
          reader_rule Rule = reader_rule::phase_fair>
class bravo : public basic_phase_fair<P, W, Writers, Rule, true> {};

/// A thread may lock again for reading.
template <platform_with_asymmetric_fences P, class W, template <class, class> class Writers = ticket>
using phase_fair_recursive = phase_fair<P, W, Writers, reader_rule::recursive>;
template <platform_with_visible_readers P, class W, template <class, class> class Writers = ticket>
using bravo_recursive = bravo<P, W, Writers, reader_rule::recursive>;

}  // namespace usher::inline v2
