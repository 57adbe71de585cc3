#include "watch/recorder/holding.hpp"

#include <algorithm>

namespace usher::recorder {
namespace {

/// Whether a window, a list of the mutex's successive owners, is being recorded.
bool has_window(const recorded_thread& me, const contract::object& o) {
  const contract::detail* const d = existing_detail(me, o);
  return d != nullptr && d->window.load(std::memory_order_relaxed) != 0;
}

constexpr std::uint64_t far_apart = 4096;  // ticks; chosen: two readings of the clock are 1 % of it

/// The number of acquisitions that the next timed hold represents: one, if acquisitions are so far apart that timing
/// costs little; else random, up to about 256, so that the sample does not follow a period of the program.
std::uint32_t next_interval(recorded_thread& me, const contract::object& o, std::uint64_t apart, std::uint64_t now) {
  if (me.of->hold_times.load(std::memory_order_relaxed) != 0 || apart >= far_apart || has_window(me, o)) return 1;
  // The first thousand holds are all timed, later ones more and more rarely: in a short run a few timed holds must not
  // represent many.
  constexpr std::uint64_t most = 256;
  const std::uint64_t n = o.acquisitions.load(std::memory_order_relaxed) / 512;
  if (n <= 1) return 1;
  const std::uint64_t mean = n < most ? n : most;
  return std::uint32_t(mean / 2 + (((now * 0x9e3779b97f4a7c15u) >> 40) * mean >> 24)) + 1;
}

/// An interval between two timed holds shows how far apart holds are only if it has this number of holds. Chosen.
constexpr std::uint32_t least_light_interval = 16;

/// Whether threads may count this mutex's acquisitions in their own slots, as its holds follow each other closely.
bool is_for_threads(const recorded_thread& me, const contract::object& o) {
  return o.acquisitions.load(std::memory_order_relaxed) >= contract::least_counted_by_threads &&
         (o.depth_and_kind.load(std::memory_order_relaxed) & contract::changes_hands) == 0 &&
         me.of->hold_times.load(std::memory_order_relaxed) == 0 && !has_window(me, o);
}
/// Records the owner in the mutex's open window. Opens a window from time to time if the mutex is contended.
void record_owner(recorded_thread& me, contract::object& o, std::uint64_t now) {
  contract::detail* const detail = existing_detail(me, o);
  if (detail == nullptr) return;
  recorder& r = *me.of;
  contract::detail& d = *detail;
  std::uint32_t w = d.window.load(std::memory_order_relaxed);
  if (w == 0) {
    constexpr std::uint32_t most_windows = 8;
    constexpr std::uint64_t least_contended = 32, pause = 100;  // contended acquisitions; ms. Chosen
    if (o.contended.load(std::memory_order_relaxed) < least_contended ||
        now < d.next_window.load(std::memory_order_relaxed) ||
        d.windows.load(std::memory_order_relaxed) >= most_windows)
      return;
    d.next_window.store(now + pause * r.ticks_a_ms, std::memory_order_relaxed);
    if (r.head->windows.load(std::memory_order_relaxed) >= r.room().windows) return;
    const std::uint32_t i = r.head->windows.fetch_add(1, std::memory_order_relaxed);
    if (i >= r.room().windows) return;
    w = i + 1;
    r.file.window(i).begin.store(now, std::memory_order_relaxed);
    r.file.window(i).object.store(me.index(o) + 1, std::memory_order_relaxed);
    d.windows.store(d.windows.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    d.window.store(w, std::memory_order_relaxed);
    // While the window is open, each hold is recorded and timed (next_interval()). The next timed hold represents the
    // holds that were not timed before.
    const std::uint32_t countdown = o.mutex.countdown.load(std::memory_order_relaxed), all = countdown >> 16,
                        left = countdown & 0xffff;
    o.depth_and_kind.store(o.depth_and_kind.load(std::memory_order_relaxed) & ~contract::counted_by_threads,
                           std::memory_order_relaxed);
    if (left > 1) o.mutex.countdown.store((all - left + 1) << 16 | 1, std::memory_order_relaxed);
  }
  contract::window& window = r.file.window(w - 1);
  const std::uint32_t n = window.count.load(std::memory_order_relaxed);
  if (n >= contract::window::length)
    return d.window.store(0, std::memory_order_relaxed);  // a longjmp() out of a signal handler skipped the line below
  window.owners[n].store(std::uint16_t(me.name - 1), std::memory_order_relaxed);
  window.end.store(now, std::memory_order_relaxed);
  window.count.store(n + 1, std::memory_order_release);
  if (n + 1 == contract::window::length) d.window.store(0, std::memory_order_relaxed);
}

}  // namespace

held_charge add_charge(recorded_thread& me, contract::object& o, std::uint64_t ticks, std::uint64_t now) {
  contract::detail* const d = ticks != 0 ? detail_of(me, o) : nullptr;
  if (d == nullptr) return {};
  const std::uint64_t all = d->uncharged_held.load(std::memory_order_relaxed) + ticks;
  contract::word64& sample = me.of->head->next_holder_sample;
  std::uint64_t next = sample.load(std::memory_order_relaxed);
  const bool is_due =
      now >= next && sample.compare_exchange_strong(next, now + me.of->ticks_a_ms, std::memory_order_relaxed);
  d->uncharged_held.store(is_due ? 0 : all, std::memory_order_relaxed);
  return is_due ? held_charge{all, charge_target(me, o), entry_kind(o)} : held_charge{};
}

void settle_light_hold(recorded_thread& me) {
  const void* const mutex = me.light_mutex;
  if (mutex == nullptr) return;
  contract::object& o = *me.light_object;
  const std::uint32_t depth = me.light_depth, attributes = o.depth_and_kind.load(std::memory_order_relaxed);
  forget_light_hold(me);
  // Does nothing if another thread has ended the hold, or if the entry now belongs to another object.
  if (o.key.load(std::memory_order_relaxed) != me.key_for(mutex) || (attributes & contract::counted_by_threads) == 0)
    return;
  if (depth != 0) o.depth_and_kind.store(attributes + depth * one_deeper, std::memory_order_relaxed);
  o.hold_begin.store(contract::object::not_timed, std::memory_order_relaxed);
  o.owner.store(me.name, std::memory_order_relaxed);
}

void counted_hold_begins(recorded_thread& me, contract::object& o, const void* mutex) {
  const std::uint32_t attributes = o.depth_and_kind.load(std::memory_order_relaxed);
  const bool is_recursive = (attributes & contract::recursive) != 0;
  if (me.light_mutex == mutex) {
    if (is_recursive) {
      me.light_depth++;
      return;
    }
    forget_light_hold(me);  // another thread has unlocked the mutex
  }
  if (is_recursive && o.owner.load(std::memory_order_relaxed) == me.name) {
    o.depth_and_kind.store(attributes + one_deeper, std::memory_order_relaxed);
    return;
  }
  o.owner.store(me.name, std::memory_order_relaxed);
  std::uint64_t acquisitions = o.acquisitions.load(std::memory_order_relaxed) + 1;
  if (me.light_left > 1) {
    --me.light_left;
    o.acquisitions.store(acquisitions, std::memory_order_relaxed);
    o.hold_begin.store(contract::object::not_timed, std::memory_order_relaxed);
    return;
  }
  // This hold is timed. The thread's count of this mutex is added to the entry. If the word has the count of another
  // mutex, this count is added to that mutex's entry, and the word is reused.
  const std::uint32_t index = me.index(o) + 1;
  contract::word64& count = me.slot->counts[contract::counted_at(reinterpret_cast<std::uintptr_t>(mutex))];
  const std::uint64_t counted = count.exchange(index, std::memory_order_relaxed);
  if ((counted & (contract::one_counted - 1)) == index)
    acquisitions += counted / contract::one_counted;
  else
    add_counted(*me.of, counted);
  o.acquisitions.store(acquisitions, std::memory_order_relaxed);
  o.mutex.countdown.store(me.light_interval << 16 | 1, std::memory_order_relaxed);
  me.light_left = me.light_interval = next_light_interval(me.random);
  hold_begins_slowly(me, o);
}

// Bits 0 and 1 of hold_begin give the kind of a timed hold. 0: it represents all holds since the last such hold that
// began without waiters. 1 and 3: it began while others waited, and represents itself (1) or beside_waiters() holds
// (3). 2: it is a sample of a mutex that is counted by threads, with or without waiters, and represents the number of
// holds that counted_hold_begins() stored.
void hold_begins_slowly(recorded_thread& me, contract::object& o) {
  recorder& r = *me.of;
  const std::uint64_t now = r.ticks();
  const std::uint64_t waiting = o.waiting.load(std::memory_order_relaxed);
  const std::uint32_t countdown = o.mutex.countdown.load(std::memory_order_relaxed);
  const bool is_sample = (o.depth_and_kind.load(std::memory_order_relaxed) & contract::counted_by_threads) != 0 &&
                         (countdown & 0xffff) <= 1;
  if (is_sample) {
    if (has_ended(r)) return end_recording(r);
    const bool is_waited_for = (waiting & contract::waiting_count) != 0;
    o.mutex.waited_before.store(is_waited_for ? contract::waited_so_far(waiting, now) : 0, std::memory_order_relaxed);
    o.hold_begin.store((now & ~std::uint64_t{3}) | 2, std::memory_order_relaxed);
  } else if ((waiting & contract::waiting_count) != 0) {
    o.mutex.waited_before.store(contract::waited_so_far(waiting, now), std::memory_order_relaxed);
    const bool is_one = countdown < least_beside_waiters << 16 || (countdown & 0xffff) <= 1;
    o.hold_begin.store((now & ~std::uint64_t{3}) | (is_one ? 1 : 3), std::memory_order_relaxed);
  } else if ((countdown & 0xffff) <= 1) {  // always so while a window is recorded
    if (has_ended(r)) return end_recording(r);
    o.hold_begin.store(now & ~std::uint64_t{3}, std::memory_order_relaxed);
  } else {
    o.mutex.countdown.store(countdown - 1, std::memory_order_relaxed);
    return;
  }
  if (contract::detail* const d = existing_detail(me, o))
    d->yields_before.store(me.yields + 1, std::memory_order_relaxed);
  record_owner(me, o, now);
}

held_charge hold_ends_slowly(recorded_thread& me, contract::object& o) {
  recorder& r = *me.of;
  const std::uint64_t now = r.ticks(), begin = o.hold_begin.load(std::memory_order_relaxed);
  const bool is_beside_waiters = (begin & 1) != 0, is_sample = (begin & 3) == 2;
  std::uint32_t stands_for = 1;
  if (begin != 0 && begin != contract::object::not_timed) {
    const std::uint64_t hold = now > begin ? now - begin : 0;
    const std::uint32_t countdown = o.mutex.countdown.load(std::memory_order_relaxed);
    stands_for = !is_beside_waiters ? countdown >> 16
                 : (begin & 2) != 0 ? beside_waiters(o.acquisitions.load(std::memory_order_relaxed))
                                    : 1;
    std::uint64_t held = o.held.load(std::memory_order_relaxed) + hold * stands_for;
    std::uint32_t holds = o.holds.load(std::memory_order_relaxed);
    if (holds > 0x80000000u && r.hold_times.load(std::memory_order_relaxed) == 0)
      held /= 2, holds /= 2;  // the mean does not change
    o.held.store(held, std::memory_order_relaxed);
    o.holds.store(holds + stands_for, std::memory_order_relaxed);
    o.mutex.timed.store(o.mutex.timed.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    std::uint64_t apart = hold;
    bool is_apart_known = false;
    if (contract::detail* const d = existing_detail(me, o)) {
      contract::word32& bucket = d->holds[contract::duration_buckets::of(hold) / 2];
      bucket.store(bucket.load(std::memory_order_relaxed) + stands_for, std::memory_order_relaxed);
      const std::uint32_t yields_before = d->yields_before.load(std::memory_order_relaxed);
      if (yields_before != 0 && yields_before != me.yields + 1) [[unlikely]]
        d->yielding_holds.store(d->yielding_holds.load(std::memory_order_relaxed) + stands_for,
                                std::memory_order_relaxed);
      if (hold > d->longest_hold.load(std::memory_order_relaxed))
        d->longest_hold.store(hold, std::memory_order_relaxed);
      if (!is_beside_waiters) {
        // `apart` is the mean time between holds. Each thread has its own sampling interval, so a sample uses the mean
        // interval.
        if (const std::uint64_t before = d->timed_at.load(std::memory_order_relaxed); before != 0 && now > before) {
          apart = std::max(apart, (now - before) / (is_sample ? mean_light_interval : stands_for));
          is_apart_known = is_sample || stands_for >= least_light_interval;
        }
        d->timed_at.store(now, std::memory_order_relaxed);
      }
    }
    if (!is_beside_waiters || (countdown & 0xffff) <= 1 || hold >= far_apart) {
      const std::uint32_t n = next_interval(me, o, apart, now);
      count_by_threads(o, n > 1 && is_apart_known && is_for_threads(me, o));
      o.mutex.countdown.store(n << 16 | n, std::memory_order_relaxed);
    }
  }
  o.hold_begin.store(0, std::memory_order_relaxed);
  const std::uint64_t waiting = o.waiting.load(std::memory_order_relaxed),
                      before = o.mutex.waited_before.load(std::memory_order_relaxed);
  held_charge charge;
  const bool is_charged = (waiting & contract::waiting_count) != 0 || before != 0;
  if (is_charged && begin != contract::object::not_timed) {
    constexpr std::uint64_t modulus = std::uint64_t{1} << 52;
    const std::uint64_t ticks = (contract::waited_so_far(waiting, now) - before) % modulus;
    // A larger value is a negative difference: a waiter is giving up at this moment.
    if (ticks < modulus / 2) charge = add_charge(me, o, ticks * (is_beside_waiters || is_sample ? stands_for : 1), now);
  }
  o.mutex.waited_before.store(0, std::memory_order_relaxed);
  o.owner.store(0, std::memory_order_relaxed);
  return charge;
}

namespace {

/// Ends a hold and does not record its duration.
void forget_hold(contract::object& o) {
  o.hold_begin.store(0, std::memory_order_relaxed);
  o.mutex.waited_before.store(0, std::memory_order_relaxed);
  o.owner.store(0, std::memory_order_relaxed);
}

}  // namespace

held_charge hold_ends_otherwise(recorded_thread& me, contract::object& o, const void* mutex, bool needs_owner) {
  if (light_hold_ends(me, mutex)) return {};
  held_charge c;
  const std::uint32_t owner = o.owner.load(std::memory_order_relaxed),
                      depth = o.depth_and_kind.load(std::memory_order_relaxed);
  if (owner == me.name) {
    if (depth >= one_deeper)
      o.depth_and_kind.store(depth - one_deeper, std::memory_order_relaxed);
    else if (is_unwaited(o) || o.hold_begin.load(std::memory_order_relaxed) == contract::object::not_timed)
      forget_hold(o);
    else
      c = hold_ends_slowly(me, o);
    if (depth < one_deeper) note_release(me, o);
  } else if (owner == 0 && (depth & contract::counted_by_threads) != 0 && !needs_owner) {
    // Another thread has a light hold and does not see this unlock. The mutex gets no further light holds.
    o.depth_and_kind.store((depth & ~contract::counted_by_threads) | contract::changes_hands,
                           std::memory_order_relaxed);
  } else if (owner != 0 && !needs_owner) {
    // Most kinds of mutex allow this thread to end another thread's hold. The hold is not charged, since the holder's
    // call chain is not known here. The fields are written before the unlock, because the next holder writes them
    // afterwards.
    forget_hold(o);
    note_release(me, o);
  }
  return c;
}

void hold_ends(recorded_thread& me, contract::object& o, std::uint32_t chain) {
  if (o.owner.load(std::memory_order_relaxed) != me.name) return;
  held_charge c = hold_ends_slowly(me, o);
  note_release(me, o);
  contract::detail* const d = existing_detail(me, o);
  if (d == nullptr) return;
  contract::word64& others = d->uncharged_held;
  c.due += others.load(std::memory_order_relaxed);
  others.store(chain == 0 ? c.due : 0, std::memory_order_relaxed);
  if (c.due != 0)
    charge(*me.of, contract::charged::holder, contract::kind::mutex, charge_target(me, o), chain, 1, c.due);
}

void charge_holder(recorded_thread& me, const held_charge& c) {
  charge(*me.of, contract::charged::holder, c.kind, c.whom, take_chain(me), 1, c.due);
}

}  // namespace usher::recorder
