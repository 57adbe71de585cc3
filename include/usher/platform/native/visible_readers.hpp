// The fork handler for the table of visible readers (core/read_write_core.hpp). In the child it keeps only the ids that
// the thread that forked may have put there, because the other threads do not exist in the child.
//
// The kernel cannot wipe the table, because the table has both ids to keep and ids to remove. A slot does not name its
// thread, but a thread's tag and a lock determine the slot. The tag is made from the thread pointer, which is the same
// in the child, is the same in all shared objects that embed locks, and is known without a system call.
//
// The handler is registered when the shared object is loaded, by a static variable's initialisation. A registration in
// a lock call could deadlock: older C libraries hold a lock during fork() that pthread_atfork() takes, too, while a
// fork handler of the program may wait for the lock that the caller holds. Before it no lock becomes biased.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "usher/core/visible_slot.hpp"
#include "usher/platform/native/blocks.hpp"
#include "usher/platform/native/state_layout.hpp"

namespace usher::inline v2::native_detail {

inline std::uint32_t salt_of(std::uintptr_t lock) {
  return std::uint32_t(lock >> 3);
}

/// Differs between most threads that exist at one time: threads' control blocks are aligned to 64 bytes.
inline std::uint32_t reader_tag() {
  std::uintptr_t thread_pointer;
#if defined(__x86_64__)
  asm("mov %%fs:0, %0" : "=r"(thread_pointer));
#elif defined(__aarch64__)
  asm("mrs %0, tpidr_el0" : "=r"(thread_pointer));
#else
  thread_pointer = reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
#endif
  return std::uint32_t(thread_pointer >> 6);
}

/// A template, so that only a program with visible readers registers the handler.
template <class>
struct visible_readers_at_fork {
  static const bool registered;

 private:
  static void in_child() {
    auto* const slots = blocks::visible_readers();
    if (slots == nullptr) return;
    for (std::uint32_t i = 0; i < visible_slots; i++)
      if (const std::uint64_t id = slots[i].load(std::memory_order_relaxed); id != 0 && !may_be_own(i, id))
        slots[i].store(0, std::memory_order_relaxed);
  }

  static bool may_be_own(std::uint32_t slot, std::uint64_t id) {
    return visible_slot_of<visible_slots>(reader_tag(), salt_of(std::uintptr_t(id))) == slot;
  }
};

template <class T>
const bool visible_readers_at_fork<T>::registered = pthread_atfork(nullptr, nullptr, in_child) == 0;

}  // namespace usher::inline v2::native_detail
