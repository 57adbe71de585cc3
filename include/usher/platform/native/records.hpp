// Thread records, and the values that they contain: the thread's id, a small number, random bits, free queue nodes.
//
// Thread records and queue nodes lie in memory that is never unmapped (blocks.hpp). A record's owner is a thread, named
// by its id and a fork epoch, until that thread ends. Records have no destructor and no pthread key: a thread that
// needs a record takes over one whose owner no longer exists. Thread-local storage has one pointer to the record.
//
// Signal handlers may lock, too, at any point of an operation on free[] and top (the record's free nodes), and may
// return while they hold the lock. So the owner announces the operation in `ready`:
//
//     (s1) compare ready with the epoch        if they differ, do not use the record
//     (s2) ready = busy
//     (s3) read and write top and free[]
//     (s4) ready = the epoch
//
// A handler before (s2) has finished with the record when it returns, and (s3) reads the state that the handler has
// left. A handler between (s2) and (s4) finds `busy`, takes its nodes from the pool, and gives them back there; the
// pool's operations are compare-and-swaps, which other operations may interrupt. A handler after (s4) finds the
// operation complete. A jump (longjmp) out of a handler between (s2) and (s4) leaves the record busy: the thread does
// not use the record any more. The order of the operations of (s3) leaves no node in two places if the thread ends in a
// handler.
//
// Forks. If a handler forks between (s2) and (s4), then (s4) writes the parent's epoch in the child, too. The child
// then finds that the record is not ready, and make_ready() drops the record's nodes if the child has a new pool
// (nodes.hpp). The nodes in the records of threads that only the parent has are dropped in the same way.
#pragma once

#include <errno.h>

#include <atomic>
#include <cstdint>

#include "usher/platform/native/blocks.hpp"
#include "usher/platform/native/fork.hpp"
#include "usher/platform/native/futex.hpp"
#include "usher/platform/native/state.hpp"
#include "usher/platform/native/system_call.h"

namespace usher::inline v2::native_detail {

struct records {
  /// Returns the calling thread's record, or null if no record is left.
  static thread_record* self() {
    thread_record* r = current.record;
    return r->epoch() == forks::fork_epoch() ? r : find_record();
  }

  /// Returns the id of the calling thread. For a child of vfork() it is the id of the parent's thread.
  [[gnu::always_inline]] static std::int32_t thread_id() {
    if (thread_record* r = self()) [[likely]]
      return std::int32_t(std::uint32_t(r->owner.load(std::memory_order_relaxed)));
    return forks::own_id(forks::fork_epoch());
  }

  /// Gets thread_id() by one comparison, if the thread has a record of the epoch in the upper half of `word`. Otherwise
  /// returns false, and the caller calls thread_id().
  [[gnu::always_inline]] static bool recorded_id(std::uint64_t word, std::uint32_t& id) {
    const std::uint64_t owner = current.record->owner.load(std::memory_order_relaxed);
    id = std::uint32_t(owner);
    return (owner ^ word) >> 32 == 0;
  }

  /// Returns a small number that differs between all threads; 0 if the calling thread has no record.
  static std::uint32_t thread_index() {
    const thread_record* r = self();
    return r != nullptr ? r->number.load(std::memory_order_relaxed) : 0;
  }

  /// As in core/platform.hpp. It is 1 if the thread has no record (yet), or a record whose address has a lower half of
  /// 0. Bits 7–31 are those of the record's address, bits 1–6 are 0. Costs one load from thread-local storage.
  static std::uint32_t owner_tag() { return current.owner_tag; }
  static void ensure_owner_tag() { self(); }

  static std::uint32_t random() {
    thread_record* r = self();
    if (r == nullptr) [[unlikely]]
      return usher_process_state.seed.fetch_add(0x9e3779b9u, std::memory_order_relaxed) * 0x85ebca6bu;
    std::uint64_t x =
        r->random.load(std::memory_order_relaxed);  // Marsaglia's xorshift, as in §4 of the Malthusian paper
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    r->random.store(x, std::memory_order_relaxed);
    return std::uint32_t(x >> 16);
  }

  static bool bernoulli(std::uint32_t n) { return n != 0 && random() % n == 0; }

  // ---- called by nodes.hpp

  // The fences keep the compiler from moving operations of (s3) across (s2) and (s4).

  static void begin(thread_record& r) {
    r.ready.store(thread_record::busy, std::memory_order_relaxed);  // (s2)
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  /// (s4) release: publishes this thread's operations on the record's nodes to (r2), the load in make_ready().
  static void end(thread_record& r, std::uint32_t epoch) { r.ready.store(epoch, std::memory_order_release); }  // (s4)

  /// Makes the record valid in this epoch. Drops nodes of another epoch if they belong to another pool.
  static void make_ready(thread_record& r, std::uint32_t epoch) {
    if (r.ready.load(std::memory_order_acquire) == epoch) return;  // (r2)
    begin(r);
    if (usher_process_state.orphaned_are_free.load(std::memory_order_relaxed) != 0 ||
        r.top.load(std::memory_order_relaxed) == nullptr)
      r.top.store(r.at(0), std::memory_order_relaxed);
    end(r, epoch);
  }

  /// Returns the calling thread's record. Returns null if there is none, or if this is a signal handler that has
  /// interrupted an operation on the record.
  static thread_record* ready_record(std::uint32_t epoch) {
    thread_record* const r = self();
    if (r == nullptr || r->ready.load(std::memory_order_relaxed) == thread_record::busy) return nullptr;
    // If a signal handler interrupts the thread here and calls this function, make_ready() is executed twice, and the
    // nodes that the handler has got are lost.
    make_ready(*r, epoch);
    return r;
  }

 private:
  [[gnu::cold, gnu::noinline]] static thread_record* find_record() {
    const std::uint32_t epoch = forks::fork_epoch();
    const std::uint64_t me = std::uint64_t{epoch} << 32 | std::uint32_t(forks::own_id(epoch));
    if (thread_record* r = current.record; r->number.load(std::memory_order_relaxed) != 0) {
      // If the record's epoch is old, this is the thread that forked. No thread takes over a record of an old epoch, so
      // the record still belongs to this thread.
      if (r->epoch() != epoch) r->owner.store(me, std::memory_order_relaxed);
      return r;
    }
    // A child of vfork() with an id of its own gets no record: it cannot check which of the parent's threads live.
    if (!forks::is_of_this_process(epoch)) return nullptr;
    thread_record* r = claim_record(me);
    if (r == nullptr) return nullptr;
    // A signal handler of this thread may have taken a record meanwhile: then the thread uses that record. (If a
    // handler takes a record after this check, that record stays unused as long as this thread lives.)
    if (thread_record* const theirs = current.record; theirs->number.load(std::memory_order_relaxed) != 0) {
      if (r != theirs) r->owner.store(0, std::memory_order_release);
      return theirs;
    }
    current.record = r;
    current.owner_tag = std::uint32_t(reinterpret_cast<std::uintptr_t>(r)) | 1;
    return r;
  }

  /// Takes a record from the first source that has one. The sources: the reserved records that are new, without a
  /// system call; when these are used up, a short search for a dead thread's record; a new record beyond the reserved
  /// ones; a longer search for a dead thread's record. So the time is bounded.
  static thread_record* claim_record(std::uint64_t me) {
    auto& s = usher_process_state;
    std::uint32_t made = s.made.load(std::memory_order_acquire);
    const auto find_dead = [&](unsigned most) -> thread_record* {
      for (unsigned tries = 0; tries < most && tries < made; tries++) {
        thread_record& r = record(1 + s.cursor.fetch_add(1, std::memory_order_relaxed) % made);
        if (take_over(r, me)) return &r;
      }
      return nullptr;
    };
    if (made >= reserved_records)
      if (thread_record* const r = find_dead(4)) return r;
    while (made < most_records && blocks::has_record(made + 1)) {
      // The number is written before `made`: once `made` includes the record, other threads may take it. If several
      // threads write the number, they all write the same one.
      record(made + 1).number.store(made + 1, std::memory_order_relaxed);
      // Another thread may find the new record without an owner, and take it first: then this thread tries the next.
      if (s.made.compare_exchange_weak(made, made + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
        thread_record& r = record(++made);
        if (take_over(r, me)) return &r;
      }
    }
    return find_dead(64);
  }

  static bool take_over(thread_record& r, std::uint64_t me) {
    std::uint64_t owner = r.owner.load(std::memory_order_acquire);
    if (owner == me) {
      // The owner has this thread's id. Either the owner is dead and its id was given to this thread. Or the record
      // already belongs to this thread: another shared object that embeds locks has taken it, or this is a signal
      // handler that interrupted the thread after this function took the record. In each case this thread may use the
      // record, too, unless an operation on it is in progress.
      if (&r == current.record || r.ready.load(std::memory_order_relaxed) == thread_record::busy) return false;
    } else if (owner != 0) {
      // Does not take over a record of another fork epoch: it may belong to the thread that forked.
      if (owner >> 32 != me >> 32) return false;
      const long answer = system_call(SYS_tgkill, usher_process_state.pid.load(std::memory_order_relaxed),
                                      std::int32_t(std::uint32_t(owner)), 0);
      if (answer != -ESRCH) return false;
    }
    // (r1) acquire: this thread sees the writes of earlier owners that have given the record back. The kernel orders a
    // dead owner's.
    if (!r.owner.compare_exchange_strong(owner, me, std::memory_order_acq_rel, std::memory_order_relaxed)) return false;
    // The seed does not use the clock, because reading the clock is a system call on some machines.
    const std::uint64_t seed = me ^ reinterpret_cast<std::uintptr_t>(&r) << 20 ^
                               std::uint64_t{usher_process_state.seed.fetch_add(1, std::memory_order_relaxed)} << 40;
    r.random.store(seed * 0x9e3779b97f4a7c15u | 1, std::memory_order_relaxed);
    make_ready(r, std::uint32_t(me >> 32));
    return true;
  }
};

}  // namespace usher::inline v2::native_detail
