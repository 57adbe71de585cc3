#include "watch/recorder/recorder.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "library/preload/c_library_functions.hpp"
#include "library/preload/layout.hpp"
#include "library/preload/one_thread.hpp"
#include "library/preload/selection.hpp"
#include "watch/recorder/inherited_file.hpp"
#include "watch/recorder/mapped_modules.hpp"

namespace usher::recorder {
namespace {

constexpr std::uint32_t longest_search = contract::longest_search;

/// Copies a C string into a field of the file, up to its size. The field is not atomic.
template <std::size_t n>
void copy_text(char (&to)[n], const char* from) {
  std::size_t i = 0;
  for (; i < n - 1 && from[i] != '\0'; i++) to[i] = from[i];
}

/// The slot + 1 of this process; takes a slot if the process has none since its fork or exec. 0 if there is no room, or
/// if another recording has begun.
std::uint32_t own_process(recorder& r, std::uint64_t recording, std::uint32_t epoch) {
  const auto number = std::uint32_t(recording >> recorder_bits);
  std::uint64_t seen = r.process.load(std::memory_order_acquire);
  if ((std::uint32_t(seen) >> 16) != (number & 0xffff)) return 0;
  if (std::uint32_t(seen >> 32) == epoch) return slot_of(seen);
  const std::uint32_t index = r.head->processes.fetch_add(1, std::memory_order_relaxed);
  const bool room = index < r.room().processes && index < 0xfffe;  // an object's key has 16 bits for index + 1
  const std::uint64_t mine = process_word(epoch, number, room ? index + 1 : 0);
  const std::uint32_t parent = slot_of(seen);
  if (!r.process.compare_exchange_strong(seen, mine, std::memory_order_acq_rel))
    return seen >> 16 == mine >> 16 ? slot_of(seen) : 0;
  if (!room) {
    add(r.head->dropped.processes, 1);
    return 0;
  }
  contract::process_slot& p = r.file.process(index);
  p.parent.store(parent, std::memory_order_relaxed);
  p.began.store(r.ticks(), std::memory_order_relaxed);
  const preload::mutex_table& table = preload::selected();
  p.library.store(table.passes_through ? 0 : 1, std::memory_order_relaxed);
  copy_text(p.lock, table.name);
  std::memcpy(p.command, r.command, sizeof p.command);
  p.pid.store(std::uint32_t(syscall(SYS_getpid)), std::memory_order_release);
  return index + 1;
}

/// Takes a slot for a thread and returns the index + 1. If all slots are in use, it reuses the slot of a thread whose
/// end the launcher has recorded. 0 if there is none.
std::uint32_t own_slot(recorder& r) {
  contract::header& head = *r.head;
  const std::uint32_t room = r.room().threads;
  if (head.threads.load(std::memory_order_relaxed) < room) {
    const std::uint32_t i = head.threads.fetch_add(1, std::memory_order_relaxed);
    if (i < room) return i + 1;
  }
  for (std::uint32_t i = 0; i < room; i++) {
    contract::thread_slot& t = r.file.thread(i);
    std::uint32_t over = 1;
    if (t.over.load(std::memory_order_relaxed) != 1 ||
        !t.over.compare_exchange_strong(over, 2, std::memory_order_acq_rel))
      continue;
    add(head.retired, 1);
    add(head.retired_lives, t.last.load(std::memory_order_relaxed) - t.first.load(std::memory_order_relaxed));
    for (int k = 0; k < contract::kinds; k++) {
      add(head.retired_waited[k], t.waited[k].load(std::memory_order_relaxed));
      t.waited[k].store(0, std::memory_order_relaxed);
      t.waits[k].store(0, std::memory_order_relaxed);
    }
    t.waits_for.store(0, std::memory_order_relaxed);
    for (contract::word64& w : t.counts) add_counted(r, w.exchange(0, std::memory_order_relaxed));
    return i + 1;
  }
  add(head.dropped.threads, 1);
  return 0;
}

/// The entry with the key. If there is none, a free entry gets the key, and `is_new` is set. Null if there is no room.
contract::object* entry_for(recorder& r, std::uint64_t key, bool& is_new) {
  const std::uint32_t mask = r.most_objects - 1;
  for (;;) {
    contract::object* vacant = nullptr;
    std::uint32_t i = contract::first_place(key, r.most_objects);
    for (std::uint32_t n = 0; n < longest_search; n++, i = (i + 1) & mask) {
      const std::uint64_t seen = r.objects[i].key.load(std::memory_order_acquire);
      if (seen == key) return &r.objects[i];
      if ((seen == 0 || seen == contract::object::vacant) && vacant == nullptr) vacant = &r.objects[i];
      if (seen == 0) break;
    }
    if (vacant == nullptr) return nullptr;
    std::uint64_t seen = vacant->key.load(std::memory_order_relaxed);
    if (seen != 0 && seen != contract::object::vacant) continue;
    if (vacant->key.compare_exchange_strong(seen, key, std::memory_order_acq_rel)) {
      is_new = true;
      return vacant;
    }
  }
}

/// The entry with the sum of the destroyed objects of this object's place; makes it if there is none. Null if there is
/// no room.
contract::object* sum_of_place(recorded_thread& me, const contract::object& o, contract::kind kind) {
  const std::uint32_t place = o.place.load(std::memory_order_relaxed);
  // The key has bit 47 set, which only kernel addresses have, so it is never the key of an object.
  const std::uint64_t key = me.key_base | (std::uint64_t{1} << 47) | std::uint64_t{place} << 4 | std::uint64_t(kind);
  bool is_new = false;
  contract::object* const sum = entry_for(*me.of, key, is_new);
  if (sum != nullptr && is_new) {
    sum->depth_and_kind.store(std::uint32_t(kind), std::memory_order_relaxed);
    sum->place.store(place, std::memory_order_relaxed);
    sum->flags.store(contract::is_sum | (o.flags.load(std::memory_order_relaxed) & contract::from_init),
                     std::memory_order_relaxed);
  }
  return sum;
}

/// Adds the counters of an object or a detail to those of a sum, and sets them to 0.
template <class T>
void move_counters(contract::kind kind, T& to, T& from) {
  contract::for_counters(kind, from, [&](auto counter, bool raised) {
    const auto n = counter(from).exchange(0, std::memory_order_relaxed);
    if (raised)
      raise_to(counter(to), n);
    else if (n != 0)
      add(counter(to), n);
  });
}

void add_details(contract::kind kind, contract::detail& to, contract::detail& from) {
  for (std::uint32_t i = 0; i < contract::duration_buckets::count; i++)
    if (const std::uint32_t n = from.waits[i].exchange(0, std::memory_order_relaxed); n != 0) add(to.waits[i], n);
  for (std::uint32_t i = 0; i < contract::duration_buckets::count / 2; i++)
    if (const std::uint32_t n = from.holds[i].exchange(0, std::memory_order_relaxed); n != 0) add(to.holds[i], n);
  move_counters(kind, to, from);
  from.yields_before.store(0, std::memory_order_relaxed);
  for (auto& t : from.threads) {
    // A barrier's threads are kept, since most programs destroy their barriers.
    if (const std::uint32_t name = t.index.load(std::memory_order_relaxed);
        kind == contract::kind::barrier && name != 0)
      note_thread(to, name, t.waits.load(std::memory_order_relaxed), t.waited.load(std::memory_order_relaxed));
    t.index.store(0, std::memory_order_relaxed);
    t.waits.store(0, std::memory_order_relaxed);
    t.waited.store(0, std::memory_order_relaxed);
  }
  for (contract::word64* w :
       {&from.timed_at, &from.longest_waiter, &from.next_window, &from.sent, &from.heard, &from.released})
    w->store(0, std::memory_order_relaxed);
  from.many.store(0, std::memory_order_relaxed);
  from.window.store(0, std::memory_order_relaxed);
  from.windows.store(0, std::memory_order_relaxed);
}

/// Adds the acquisitions in the threads' slots to the mutex's entry. Called when no thread locks the mutex any more.
void collect_counts(recorder& r, contract::object& o) {
  const std::uint64_t object = std::uint64_t(&o - r.objects) + 1;
  const std::uint32_t at = contract::counted_at(contract::address_of(o.key.load(std::memory_order_relaxed)));
  const std::uint32_t threads = std::min(r.head->threads.load(std::memory_order_relaxed), r.room().threads);
  for (std::uint32_t i = 0; i < threads; i++) {
    contract::word64& w = r.file.thread(i).counts[at];
    std::uint64_t seen = w.load(std::memory_order_relaxed);
    // The compare-and-swap fails if the thread replaces this count by another mutex's at the same time; then the thread
    // adds the old count.
    if ((seen & (contract::one_counted - 1)) == object && w.compare_exchange_strong(seen, 0, std::memory_order_relaxed))
      add_counted(r, seen);
  }
}

/// Whether an object lies in a module. Registers that module (`number`) and the caller's module. Neither can be
/// unloaded during this call, since object and caller are in use. Not inlined: the caller of this function also takes a
/// chain, and its stack frame must stay small.
[[gnu::noinline]] bool is_in_module(recorded_thread& me, const void* object, std::uint64_t caller,
                                    std::uint32_t& number) {
  loaded_module m;
  readable_memory memory;
  const auto number_at = [&](std::uint64_t address, std::uint32_t& to) {
    if (find_module(address, m) != lookup::found) return false;
    if (!m.stays) m.identity = identity_in_memory(m, memory);
    to = number_of(*me.of, me, m);
    return true;
  };
  std::uint32_t of_user;
  if (!number_at(reinterpret_cast<std::uintptr_t>(object), number)) return false;
  number_at(caller, of_user);
  return true;
}

}  // namespace

void note_thread(contract::detail& d, std::uint32_t name, std::uint32_t waits, std::uint64_t ticks) {
  contract::detail::thread* least = nullptr;
  for (auto& t : d.threads) {
    std::uint32_t seen = t.index.load(std::memory_order_relaxed);
    if (seen == 0 && t.index.compare_exchange_strong(seen, name, std::memory_order_relaxed)) seen = name;
    if (seen == name) {
      add(t.waits, waits);
      add(t.waited, ticks);
      return;
    }
    if (least == nullptr || t.waited.load(std::memory_order_relaxed) < least->waited.load(std::memory_order_relaxed))
      least = &t;
  }
  d.many.store(1, std::memory_order_relaxed);
  least->index.store(name, std::memory_order_relaxed);
  add(least->waits, waits);
  add(least->waited, ticks);
}

void add_counted(recorder& r, std::uint64_t word) {
  const auto object = std::uint32_t(word & (contract::one_counted - 1));
  if (object - 1 < r.most_objects) add(r.objects[object - 1].mutex.counted, word / contract::one_counted);
}

contract::object* recorded_thread::find_further(std::uint64_t key) const {
  std::uint32_t i = contract::first_place(key, last_object + 1);
  for (std::uint32_t n = 0; n < longest_search; n++, i = (i + 1) & last_object) {
    contract::object& o = objects[i];
    const std::uint64_t seen = o.key.load(std::memory_order_acquire);
    if (seen == key) return &o;
    if (seen == 0) return nullptr;
  }
  return nullptr;
}

recorded_thread* begin_thread() {
  const std::uint64_t recording = current_recording.load(std::memory_order_acquire);
  if (recording == 0) return nullptr;
  recorder& r = recorder_of(recording);
  recorded_thread& me = this_thread;
  const int saved = errno;
  const std::uint32_t epoch = native::fork_epoch();
  if (me.recording == recording && me.refused == epoch) return nullptr;
  // Set by a signal handler after the check in recorded_self()
  if (me.recording == recording && is_current(me)) return &me;
  // A signal handler that interrupts this function is not recorded: with fields of two recordings, an index of the
  // larger table could be used in the smaller one. If the handler leaves by longjmp(), its thread stays unrecorded.
  if (me.beginning == epoch) return nullptr;
  std::atomic_ref(me.beginning).store(epoch, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const std::uint32_t process = own_process(r, recording, epoch);
  const std::uint32_t name = process != 0 ? own_slot(r) : 0;
  recorded_thread then;
  then.beginning = epoch;
  then.recording = recording;
  then.of = &r;
  then.objects = r.objects;
  then.key_base = std::uint64_t{process} << 48;
  then.last_object = r.most_objects - 1;
  then.name = name;
  then.random = std::uint32_t(((r.ticks() ^ name) * 0x9e3779b97f4a7c15u) >> 32);
  begin_light_interval(then);
  then.unusual = preload::selected().passes_through && preload::has_one_thread() ? recorded_thread::alone : 0;
  then.refused = name == 0 ? epoch : 0;
  if (name != 0) {
    contract::thread_slot& slot = r.file.thread(name - 1);
    const std::uint64_t now = r.ticks();
    slot.process.store(process - 1, std::memory_order_relaxed);
    slot.first.store(now, std::memory_order_relaxed);
    slot.last.store(now, std::memory_order_relaxed);
    slot.tid.store(std::uint32_t(syscall(SYS_gettid)), std::memory_order_relaxed);
    slot.over.store(0, std::memory_order_release);
    then.slot = &slot;
  }
  // The fields are marked as invalid during the copy, so that a signal handler does not use them.
  std::atomic_ref(me.epoch_word).store(recorded_thread::never, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  me = then;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (name != 0) std::atomic_ref(me.epoch_word).store(std::uint64_t{epoch} << 32 | 4, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::atomic_ref(me.beginning).store(0u, std::memory_order_relaxed);
  errno = saved;
  if (name != 0) return &me;
  add(r.head->calls, 1);
  return nullptr;
}

contract::object* begin_object(recorded_thread& me, const void* address, contract::kind kind, bool recursive,
                               bool from_init, std::uint64_t caller) {
  recorder& r = *me.of;
  if (has_ended(r)) {
    end_recording(r);
    return nullptr;
  }
  const std::uint64_t key = me.key_base | (reinterpret_cast<std::uintptr_t>(address) & 0xffffffffffffu);
  bool is_new = false;
  contract::object* const o = entry_for(r, key, is_new);
  if (o == nullptr) add(r.head->dropped.objects, 1);
  if (!is_new) return o;
  if (contract::has_holds(kind)) o->mutex.countdown.store(1 << 16 | 1, std::memory_order_relaxed);
  o->depth_and_kind.store((recursive ? 1u << 8 : 0u) | std::uint32_t(kind), std::memory_order_relaxed);
  std::uint32_t place = 0;
  const bool in_module = kind != contract::kind::join && is_in_module(me, address, caller, place);
  o->flags.store((in_module ? contract::is_static : 0u) | (from_init ? contract::from_init : 0u),
                 std::memory_order_relaxed);
  if (!in_module) place = take_chain(me);
  o->place.store(place, std::memory_order_relaxed);
  return o;
}

contract::object* begin_anew(recorded_thread& me, contract::object& before, const void* address, contract::kind kind,
                             bool recursive, std::uint64_t caller) {
  if ((before.depth_and_kind.load(std::memory_order_relaxed) & 0xff) == 0)
    return &before;  // another thread is filling it in
  end_object(me, before);
  contract::object* const o = begin_object(me, address, kind, recursive, false, caller);
  return o != nullptr && !is_another(*o, kind) ? o : nullptr;
}

void end_object(recorded_thread& me, contract::object& o) {
  const std::uint32_t flags = o.flags.load(std::memory_order_relaxed);
  // A condition variable may be destroyed while woken waiters have not returned yet. Then the entry stays, for these
  // waiters and for the next object at this address.
  const bool is_left = (o.waiting.load(std::memory_order_relaxed) & contract::waiting_count) == 0;
  if ((flags & contract::is_static) != 0 || !is_left) {
    o.owner.store(0, std::memory_order_relaxed);
    return;
  }
  const auto kind = contract::kind(o.depth_and_kind.load(std::memory_order_relaxed) & 0xff);
  contract::object* const sum = sum_of_place(me, o, kind);
  if (sum == nullptr) return;  // the entry stays until its address is used again
  const bool is_held_by_one = contract::has_holds(kind);
  if (is_held_by_one && o.acquisitions.load(std::memory_order_relaxed) >= contract::least_counted_by_threads)
    collect_counts(*me.of, o);
  add(sum->died, 1);
  if (const std::uint64_t holds = o.holds.load(std::memory_order_relaxed); holds != 0) {
    // The mean, in sixteenths of a tick
    const std::uint64_t sixteenths = (o.held.load(std::memory_order_relaxed) << 4) / holds;
    const std::uint64_t all = is_held_by_one ? o.acquisitions.load(std::memory_order_relaxed) +
                                                   o.mutex.counted.load(std::memory_order_relaxed)
                                             : 0;
    raise_to(sum->longest_in_all, std::max(holds, all) * sixteenths >> 4);
  }
  move_counters(kind, *sum, o);
  sum->flags.fetch_or(flags & (contract::any_wait_hidden | contract::embedded), std::memory_order_relaxed);
  // The detail stays with the entry, for the next object that uses the entry; its figures move to the sum.
  if (contract::detail* const from = existing_detail(me, o))
    if (contract::detail* const to = detail_of(me, *sum)) add_details(kind, *to, *from);
  // The fields of mutex_part overlay those of all other kinds.
  for (contract::word64* w :
       {&o.hold_begin, &o.waiting, &o.mutex.waited_before, &o.mutex.failed_tries, &o.mutex.counted})
    w->store(0, std::memory_order_relaxed);
  for (contract::word32* w : {&o.owner, &o.mutex.countdown, &o.mutex.timed, &o.depth_and_kind, &o.place, &o.flags})
    w->store(0, std::memory_order_relaxed);
  o.key.store(contract::object::vacant, std::memory_order_release);
}

contract::object* begin_initialised(const void* address, contract::kind kind, bool recursive) {
  recorded_thread* const me = recorded_self();
  if (me == nullptr) return nullptr;
  if (contract::object* const before = me->find(address)) end_object(*me, *before);
  contract::object* const o = begin_object(*me, address, kind, recursive, true, 0);
  return o != nullptr && !is_another(*o, kind) ? o : nullptr;  // a static object's entry stays
}

void end_destroyed(const void* address) {
  recorded_thread* const me = recorded_self();
  if (me == nullptr) return;
  if (contract::object* const o = me->find(address)) end_object(*me, *o);
}

contract::detail* detail_of(recorded_thread& me, contract::object& o) {
  std::uint32_t d = o.detail.load(std::memory_order_acquire);
  if (d == no_room) return nullptr;
  contract::header& head = *me.of->head;
  if (d == 0) {
    const std::uint32_t next = head.details.load(std::memory_order_relaxed) < me.of->room().details
                                   ? head.details.fetch_add(1, std::memory_order_relaxed)
                                   : me.of->room().details;
    const bool room = next < me.of->room().details;
    if (!room) add(head.dropped.details, 1);
    if (o.detail.compare_exchange_strong(d, room ? next + 1 : no_room, std::memory_order_acq_rel)) {
      d = room ? next + 1 : no_room;
      if (room) me.of->file.detail(next).object.store(me.index(o) + 1, std::memory_order_relaxed);
    }
    if (d == no_room) return nullptr;
  }
  return existing_detail(me, o);
}

void record_retry(recorded_thread& me, contract::object& o) {
  const std::uint64_t now = me.of->ticks(), ticks = now > me.failed_at ? now - me.failed_at : 0;
  me.failed_try = nullptr;
  me.unusual &= std::uint8_t(~recorded_thread::has_failed);
  contract::detail* const d = detail_of(me, o);
  if (d == nullptr) return;
  add(d->tries, 1);
  add(d->tried, ticks);
  raise_to(d->longest_try, ticks);
}

namespace {

/// The work areas for recording chains, and one bit for each area in use. Threads record chains concurrently, and a
/// signal handler may interrupt a thread that does. If a handler leaves by longjmp(), or a fork intervenes, the area
/// stays in use.
constexpr unsigned most_areas = 64;  // chosen: a chain takes a few microseconds, at most once a millisecond in a thread
constinit capture_area areas[most_areas]{};
constinit std::atomic<std::uint64_t> areas_in_use{0};

capture_area* take_area() {
  std::uint64_t seen = areas_in_use.load(std::memory_order_relaxed);
  while (seen != ~std::uint64_t{0}) {
    const auto i = unsigned(std::countr_one(seen));
    if (areas_in_use.compare_exchange_weak(seen, seen | std::uint64_t{1} << i, std::memory_order_acquire,
                                           std::memory_order_relaxed))
      return &areas[i];
  }
  return nullptr;
}
void give_area(const capture_area& area) {
  areas_in_use.fetch_and(~(std::uint64_t{1} << (&area - areas)), std::memory_order_release);
}

std::uint32_t number_in_chain(const void* thread, const loaded_module& m) {
  const auto& me = *static_cast<const recorded_thread*>(thread);
  return number_of(*me.of, me, m);
}

/// Finds the chain in the file, or adds it. Returns its index + 1, or 0 if there is no room.
std::uint32_t put_chain(recorder& r, std::uint32_t process, const call_chain& c) {
  std::uint64_t hash = process + 1;
  for (unsigned i = 0; i < c.length; i++)
    hash = (hash ^ contract::word_of(c.pc[i], c.module[i])) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
  if (hash == 0) hash = 1;
  const std::uint32_t mask = r.room().chains - 1;
  std::uint32_t i = std::uint32_t(hash >> 20) & mask;
  for (std::uint32_t n = 0; n < longest_search; n++, i = (i + 1) & mask) {
    contract::chain& there = r.file.chain(i);
    std::uint64_t seen = there.hash.load(std::memory_order_acquire);
    if (seen == hash) return i + 1;
    if (seen != 0) continue;
    if (!there.hash.compare_exchange_strong(seen, hash, std::memory_order_acq_rel)) {
      if (seen == hash) return i + 1;
      continue;
    }
    there.process = process;
    there.length = c.length;
    there.cut = c.cut ? 1 : 0;
    for (unsigned k = 0; k < c.length; k++) there.pc[k] = contract::word_of(c.pc[k], c.module[k]);
    there.ready.store(1, std::memory_order_release);
    return i + 1;
  }
  add(r.head->dropped.chains, 1);
  return 0;
}

}  // namespace

std::uint32_t take_chain(recorded_thread& me) {
  recorder& r = *me.of;
  capture_area* const area = take_area();
  if (area == nullptr) {
    add(r.head->dropped.chains, 1);
    return 0;
  }
  const module_numbers numbers{number_in_chain, &me};
  capture(*area, me.stack, &numbers);
  const std::uint32_t at =
      area->chain.length != 0 ? put_chain(r, std::uint32_t(me.key_base >> 48) - 1, area->chain) : 0;
  give_area(*area);
  return at;
}

std::uint32_t charge_target(const recorded_thread& me, const contract::object& o) {
  const std::uint32_t place = o.place.load(std::memory_order_relaxed);
  return (o.flags.load(std::memory_order_relaxed) & contract::is_static) != 0 || place == 0
             ? me.index(o)
             : contract::of_place + place - 1;
}

void charge(recorder& r, contract::charged what, contract::kind kind, std::uint32_t whom, std::uint32_t chain,
            std::uint64_t count, std::uint64_t ticks) {
  if (chain == 0) return;
  const std::uint64_t key = contract::charge_key(what, kind, whom, chain - 1);
  const std::uint32_t mask = r.room().charges - 1;
  std::uint32_t i = contract::first_place(key, r.room().charges);
  for (std::uint32_t n = 0; n < longest_search; n++, i = (i + 1) & mask) {
    contract::charge& c = r.file.charge(i);
    std::uint64_t seen = c.key.load(std::memory_order_relaxed);
    if (seen == 0 && c.key.compare_exchange_strong(seen, key, std::memory_order_relaxed)) seen = key;
    if (seen != key) continue;
    add(c.count, count);
    add(c.ticks, ticks);
    return;
  }
  add(r.head->dropped.charges, 1);
}

// ---- a wait ------------------------------------------------------------------------------------------------

namespace {

/// The id of the thread that holds a lock; 0: not known. A light hold is not in the entry, but the C library's mutex has its
/// owner's id, which this reads as the calling thread is about to lock the mutex.
std::uint32_t tid_of_owner(const recorder& r, const contract::object& o, contract::kind kind, std::uint32_t owner) {
  if (!contract::has_holds(kind) && kind != contract::kind::rwlock) return 0;
  if (owner != 0 && owner <= r.room().threads) return r.file.thread(owner - 1).tid.load(std::memory_order_relaxed);
  const bool is_embedded = (o.flags.load(std::memory_order_relaxed) & contract::embedded) != 0;
  if (kind != contract::kind::mutex || is_embedded || !preload::selected().passes_through ||
      !preload::c_library::is_glibc())
    return 0;
  constexpr std::uint32_t most = 1u << 22;  // no thread has a higher id; a robust mutex has flags above
  const std::uint64_t address = contract::address_of(o.key.load(std::memory_order_relaxed));
  auto* const mutex = reinterpret_cast<pthread_mutex_t*>(address);
  const auto tid = std::uint32_t(std::atomic_ref(mutex->__data.__owner).load(std::memory_order_relaxed));
  return tid <= most ? tid : 0;
}

/// Whether an unlock beside waiters is noted: if each hold is timed, since reading the clock would lengthen shorter ones. Only
/// the holder changes this, so the thread that locks next sees the same.
bool has_noted_releases(const contract::object& o) {
  return o.mutex.countdown.load(std::memory_order_relaxed) >> 16 <= 1 &&
         (o.depth_and_kind.load(std::memory_order_relaxed) & contract::counted_by_threads) == 0;
}

/// Takes a chunk for the thread's next waits.
void take_waits(recorded_thread& me) {
  recorder& r = *me.of;
  const std::uint64_t number = r.head->wait_chunks.fetch_add(1, std::memory_order_relaxed);
  contract::wait_chunk& c = r.file.waits(std::uint32_t(number % r.room().waits));
  c.taken.store(r.ticks(), std::memory_order_relaxed);
  c.number.store(number + 1, std::memory_order_release);
  me.next_wait = 0;
  me.waits_number = number;
  me.waits = &c;
}

}  // namespace

void note_release(recorded_thread& me, contract::object& o) {
  if (!me.of->keeps_waits() || (o.waiting.load(std::memory_order_relaxed) & contract::waiting_count) == 0 ||
      !has_noted_releases(o))
    return;
  if (contract::detail* const d = existing_detail(me, o))
    d->released.store(contract::released_word(me.of->ticks(), me.name), std::memory_order_relaxed);
}

void recorded_wait::note(int result) {
  recorded_thread& me = me_;
  const std::uint64_t taken = of_.head->wait_chunks.load(std::memory_order_relaxed);
  // A signal handler that has interrupted this function takes the next wait of the chunk.
  if (me.waits == nullptr || me.next_wait >= contract::wait_chunk::length ||
      taken - me.waits_number > of_.room().waits / 2)
    take_waits(me);
  contract::noted_wait& w = me.waits->waits[me.next_wait++];
  const auto chunk = std::uint32_t(me.waits_number + 1);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  w.chunk.store(0, std::memory_order_relaxed);
  const bool is_acquired = result == 0 || result == EOWNERDEAD || result == PTHREAD_BARRIER_SERIAL_THREAD;
  const auto how = is_acquired           ? contract::wait_result::acquired
                   : result == ETIMEDOUT ? contract::wait_result::timed_out
                                         : contract::wait_result::other;
  // Otherwise the last unlock that was noted may be an older one.
  const bool is_noted = is_acquired && contract::has_holds(kind_) && has_noted_releases(object_);
  const contract::detail* const d = is_noted ? existing_detail(me, object_) : nullptr;
  w.begin.store(began_, std::memory_order_relaxed);
  w.end.store(ended_, std::memory_order_relaxed);
  w.released.store(d != nullptr ? d->released.load(std::memory_order_relaxed) : 0, std::memory_order_relaxed);
  w.key.store(object_.key.load(std::memory_order_relaxed), std::memory_order_relaxed);
  w.object.store(me.index(object_) + 1, std::memory_order_relaxed);
  w.place.store(object_.place.load(std::memory_order_relaxed), std::memory_order_relaxed);
  w.kind_result.store(
      std::uint32_t(kind_) | (object_.flags.load(std::memory_order_relaxed) & 0xff) << 8 | std::uint32_t(how) << 16,
      std::memory_order_relaxed);
  w.thread.store(me.name, std::memory_order_relaxed);
  w.tid.store(slot_.tid.load(std::memory_order_relaxed), std::memory_order_relaxed);
  w.owner.store(owner_, std::memory_order_relaxed);
  w.stack.store(chain_, std::memory_order_relaxed);
  w.chunk.store(chunk, std::memory_order_release);
}

recorded_wait::recorded_wait(recorded_thread& me, contract::object& o, contract::kind kind, std::uint64_t caller,
                             bool has_deadline)
    : me_(me),
      of_(*me.of),
      recording_(me.recording),
      slot_(*me.slot),
      object_(o),
      kind_(kind),
      epoch_(me.epoch()),
      began_(of_.ticks()) {
  recorder& r = of_;
  settle_light_hold(me);
  const std::uint64_t before = o.waiting.fetch_add(contract::arrival(began_), std::memory_order_relaxed);
  raise_to(o.most_waiting, std::uint32_t(before & contract::waiting_count) + 1);
  slot_.caller.store(caller, std::memory_order_relaxed);
  slot_.since.store(began_, std::memory_order_relaxed);
  slot_.chain.store(0, std::memory_order_relaxed);
  slot_.has_deadline.store(has_deadline ? 1 : 0, std::memory_order_relaxed);
  slot_.waits_for.store(me.index(o) + 1, std::memory_order_release);
  USHER_PROBE3(wait_begin, int(kind), contract::address_of(o.key.load(std::memory_order_relaxed)), caller);
  // A thread's chain is taken at most once a millisecond, but always if the lock's holder waits, too: this may be a
  // deadlock.
  const std::uint32_t owner = o.owner.load(std::memory_order_relaxed);
  if (r.keeps_waits()) [[unlikely]]
    owner_ = tid_of_owner(r, o, kind, owner);
  const bool is_lock = contract::has_holds(kind) || kind == contract::kind::rwlock;
  const bool holder_waits = owner != 0 && owner <= r.room().threads && is_lock &&
                            r.file.thread(owner - 1).waits_for.load(std::memory_order_relaxed) != 0;
  if (began_ >= me.next_sample || holder_waits) {
    chain_ = take_chain(me);
    me.next_sample = began_ + r.ticks_a_ms;
    slot_.chain.store(chain_, std::memory_order_release);
  }
}

bool recorded_wait::is_current() {
  if (epoch_ != native::fork_epoch()) return false;
  if (current_recording.load(std::memory_order_relaxed) == recording_ && me_.recording == recording_) return true;
  // The recording has ended. Another recording's file may be mapped at these addresses, and it does not contain this
  // wait.
  return false;
}

void recorded_wait::leave() {
  // If another recording has begun since is_current(), the entry is in its file and does not count this waiter.
  std::uint64_t seen = object_.waiting.load(std::memory_order_relaxed);
  while ((seen & contract::waiting_count) != 0 &&
         !object_.waiting.compare_exchange_weak(seen, seen - contract::arrival(began_), std::memory_order_relaxed)) {
  }
  slot_.waits_for.store(0, std::memory_order_release);
}

std::uint64_t recorded_wait::finish(int result) {
  ended_ = of_.ticks();
  leave();
  slot_.last.store(ended_, std::memory_order_relaxed);
  if (of_.keeps_waits()) [[unlikely]]
    note(result);
  const std::uint64_t ticks = ended_ > began_ ? ended_ - began_ : 0;
  USHER_PROBE3(wait_end, int(kind_), contract::address_of(object_.key.load(std::memory_order_relaxed)), ticks);
  return ticks;
}

void recorded_wait::book_wait(std::uint64_t ticks) {
  add(object_.waited, ticks);
  // The time from a failed trylock to the acquisition excludes recorded waits.
  if (me_.failed_try != nullptr && me_.key_for(me_.failed_try) == object_.key.load(std::memory_order_relaxed))
    me_.failed_at += ticks;
  const auto k = unsigned(kind_) - 1;
  add(me_.slot->waits[k], 1);
  add(me_.slot->waited[k], ticks);
  constexpr std::uint64_t long_wait = 10;  // ms; chosen: taking a chain needs less than a thousandth of it
  if (chain_ == 0 && ticks >= long_wait * me_.of->ticks_a_ms) chain_ = take_chain(me_);
  contract::detail* const d = detail_of(me_, object_);
  const bool longest = ticks > object_.longest.load(std::memory_order_relaxed);
  raise_to(object_.longest, ticks);
  std::uint64_t count = 1, sum = ticks;
  if (d != nullptr) {
    add(d->waits[contract::duration_buckets::of(ticks)], 1);
    note_thread(*d, me_.name, kind_ != contract::kind::barrier ? 1 : 0, ticks);
    if (longest) d->longest_waiter.store(me_.name, std::memory_order_relaxed);
    if (chain_ == 0) {  // charged to the chain of the next wait with a chain
      add(d->uncharged_waits, 1);
      add(d->uncharged_waited, ticks);
    } else {
      count += d->uncharged_waits.exchange(0, std::memory_order_relaxed);
      sum += d->uncharged_waited.exchange(0, std::memory_order_relaxed);
    }
  }
  charge(*me_.of, contract::charged::waiter, kind_, charge_target(me_, object_), chain_, count, sum);
}

void end_recording(recorder& r) {
  if (leave_recording(r)) preload::connect();
}

}  // namespace usher::recorder
