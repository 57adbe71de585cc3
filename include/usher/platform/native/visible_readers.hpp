// The table of visible readers (core/read_write_core.hpp) in the child of a fork: keeps only the ids that the thread that
// forked may have put there. The other threads do not exist in the child.
//
// The table has no page that the kernel wipes, because it has ids of both kinds. A slot does not name its thread. But a
// thread's owner tag and a lock determine the slot, and a record determines the tag. A thread may have several records,
// one for each shared object that embeds locks: those with the id that the thread had before the fork.
//
// The handlers are registered when the shared object is loaded, by a static variable's initialisation. In a lock call it
// would be too late: older C libraries keep a lock during fork() that pthread_atfork() takes, too, and a handler of the
// program may wait for the caller's lock. Before the initialisation no lock becomes biased.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "usher/core/visible_slot.hpp"
#include "usher/platform/native/blocks.hpp"
#include "usher/platform/native/fork.hpp"
#include "usher/platform/native/records.hpp"
#include "usher/platform/native/state.hpp"

namespace usher::inline v2::native_detail {

inline std::uint32_t salt_of(std::uintptr_t lock) {
  return std::uint32_t(lock >> 3);
}

/// A template, so that only a program with visible readers registers the handlers.
template <class>
struct visible_readers_at_fork {
  static const bool registered;

 private:
  static void before_fork() { current.forks_as = forks::own_id(forks::fork_epoch()); }

  static void in_child() {
    auto* const slots = blocks::visible_readers();
    if (slots == nullptr) return;
    for (std::uint32_t i = 0; i < visible_slots; i++)
      if (const std::uint64_t id = slots[i].load(std::memory_order_relaxed); id != 0 && !may_be_own(i, id))
        slots[i].store(0, std::memory_order_relaxed);
  }

  static bool may_be_own(std::uint32_t slot, std::uint64_t id) {
    const std::uint32_t made = usher_process_state.made.load(std::memory_order_relaxed);
    for (std::uint32_t n = 1; n <= made; n++) {
      const thread_record& r = record(n);
      // Another fork handler may have used a lock in the child, which gave `current.record` the child's id.
      const bool own = &r == current.record ||
                       std::int32_t(std::uint32_t(r.owner.load(std::memory_order_relaxed))) == current.forks_as;
      const std::uint32_t tag = std::uint32_t(reinterpret_cast<std::uintptr_t>(&r)) | 1;
      if (own && visible_slot_of<visible_slots>(tag, salt_of(std::uintptr_t(id))) == slot) return true;
    }
    return false;
  }
};

template <class T>
const bool visible_readers_at_fork<T>::registered = pthread_atfork(before_fork, nullptr, in_child) == 0;

}  // namespace usher::inline v2::native_detail
