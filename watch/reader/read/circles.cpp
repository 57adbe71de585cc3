#include <algorithm>

#include "watch/reader/judge/stat_quantities.hpp"
#include "watch/reader/name/id_names.hpp"
#include "watch/reader/name/naming.hpp"
#include "watch/reader/read/circle_walk.hpp"
#include "watch/reader/read/reading.hpp"

namespace usher::reader {
namespace {

constexpr std::size_t most_circles = 64;  ///< limit of one search; chosen

/// An edge of the graph of waiting threads: a thread's wait for an object, as read from the record.
struct edge {
  std::uint32_t thread, object, next;  ///< the next thread holds the object
  std::uint64_t since;
};

/// Reads the lock that a thread waits for and the thread that holds the lock. The known holder of a read-write lock is
/// always a writer. False if the thread does not wait for a lock, if its wait has a deadline, or if the holder is not
/// known.
bool read_wait(const contract::live& record, std::uint32_t thread, edge& e) {
  const contract::thread_slot* const t = record.thread(thread);
  if (t == nullptr) return false;
  const std::uint32_t object = t->waits_for.load(std::memory_order_acquire);
  const contract::object* const o = object != 0 ? record.object(object - 1) : nullptr;
  if (o == nullptr) return false;
  const std::uint32_t owner = o->owner.load(std::memory_order_acquire);
  const auto k = kind(contract::read(o->depth_and_kind) & 0xff);
  if (!contract::has_holds(k) && k != kind::rwlock) return false;
  if (owner == 0 || owner > record.room().threads) return false;
  if (contract::read(t->has_deadline) != 0) return false;  // written before waits_for, which is read above
  e = {thread, object - 1, owner - 1, contract::read(t->since)};
  return true;
}

/// Like read_wait(), but false if the thread has ended.
bool read_edge(const contract::live& record, std::uint32_t thread, edge& e) {
  const contract::thread_slot* const t = record.thread(thread);
  return t != nullptr && contract::read(t->over) == 0 && read_wait(record, thread, e);
}

bool is_as_before(const contract::live& record, const edge& before) {
  edge now{};
  return read_edge(record, before.thread, now) && now.object == before.object && now.next == before.next &&
         now.since == before.since;
}

}  // namespace

std::vector<std::vector<std::uint32_t>> circles(const contract::live& record) {
  const std::uint32_t threads = record.threads();
  std::vector<edge> edges(threads);
  const auto next = [&](std::uint32_t thread) {
    return read_edge(record, thread, edges[thread]) ? edges[thread].next : threads;
  };
  // A circle is a deadlock only if all its waits existed at the same time, but some may have ended while others were
  // read. So all are read again: each unchanged wait still existed when the last one was first read.
  const auto is_present = [&](const std::vector<std::uint32_t>& circle) {
    return std::all_of(circle.begin(), circle.end(), [&](std::uint32_t i) { return is_as_before(record, edges[i]); });
  };
  std::vector<std::vector<std::uint32_t>> found = find_circles(threads, most_circles, next, is_present);
  // The thread with the lowest index comes first, so that the order of a circle does not depend on the walk.
  for (std::vector<std::uint32_t>& circle : found)
    std::rotate(circle.begin(), std::min_element(circle.begin(), circle.end()), circle.end());
  return found;
}

bool still_waits(const contract::live& record, const std::vector<std::uint32_t>& circle,
                 const std::vector<std::uint64_t>& since) {
  for (std::size_t i = 0; i < circle.size(); i++) {
    edge e{};
    if (!read_wait(record, circle[i], e) || e.next != circle[(i + 1) % circle.size()] || e.since != since[i])
      return false;
  }
  return true;
}

deadlock describe(contract::view record, const std::vector<std::uint32_t>& circle, const time_scale& time,
                  symbols& names, const access::seen_ids* ids) {
  const contract::capacities& room = record.room();
  namer namer(record, names);
  deadlock d;
  std::uint64_t since = 0;
  for (const std::uint32_t i : circle) {
    if (i >= room.threads) continue;
    const contract::thread_slot& t = record.thread(i);
    deadlock::thread who;
    who.tid = id_names(record, ids).thread(i);
    since = std::max(since, t.since.load(std::memory_order_relaxed));
    const std::uint32_t object = t.waits_for.load(std::memory_order_acquire);
    if (object != 0 && object <= room.objects) {
      const contract::object& o = record.object(object - 1);
      who.waits_for = namer.name(o);
      const std::uint64_t key = o.key.load(std::memory_order_relaxed);
      who.address = contract::address_of(key);
      who.pid = id_names(record, ids).process(contract::process_of(key));
    }
    if (const std::uint32_t chain = t.chain.load(std::memory_order_relaxed); chain != 0)
      who.where = namer.whole(chain - 1);
    if (const std::uint64_t caller = t.caller.load(std::memory_order_relaxed);
        who.where.frames.empty() && caller != 0) {
      who.where = names.resolve(t.process.load(std::memory_order_relaxed), caller);
      who.where.is_cut = true;
    }
    d.threads.push_back(std::move(who));
  }
  d.seconds = since != 0 && since < time.end ? time.seconds(time.end - since) : 0;
  return d;
}

}  // namespace usher::reader
