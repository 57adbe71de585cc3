// The pool of inflated states (core/inflatable.hpp). Its memory is never unmapped. For each size of states there are a
// list of free states and the number of states that have ever been used. The upper half of the list's word counts
// changes, so that equal words mean an equal list (no ABA).
//
// In the child of a fork the states in use at that moment are lost, because their threads do not exist there. The
// parent loses none.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>

#include "usher/core/platform.hpp"
#include "usher/platform/native/blocks.hpp"
#include "usher/platform/native/polling.hpp"
#include "usher/platform/native/state.hpp"

namespace usher::inline v2::native_detail {

struct inflation {
  template <class T>
  static std::uint32_t take_inflated() {
    static_assert(class_of<T> < inflated_class::classes);
    static_assert(alignof(inflated_state<native, T>) <= sizeof(inflated_slot));
    const std::uint32_t h = take_slot(class_of<T>);
    if (h == 0 || h == retake_inflated) return h;
    auto& slot = slot_of(class_of<T>, h);
    // The bytes are cleared if the state's last lock was of another type. Two shared objects may have different tags
    // for one type; then the bytes are cleared unnecessarily.
    if (const void* const type = slot.type.load(std::memory_order_relaxed); type != &type_tag<T>) {
      if (type != nullptr) std::memset(static_cast<void*>(&inflated<T>(h).lock), 0, sizeof(T));
      slot.type.store(&type_tag<T>, std::memory_order_relaxed);
    }
    return h;
  }

  template <class T>
  static void give_inflated(std::uint32_t h) {
    auto& free = usher_process_state.inflated[class_of<T>].free;
    std::uint64_t head = free.load(std::memory_order_relaxed);
    for (;;) {
      slot_of(class_of<T>, h).next_free.store(std::uint32_t(head), std::memory_order_relaxed);
      // (a2) release: publishes the state, as this user has left it, to (a1), by which a thread takes it from the list.
      if (free.compare_exchange_weak(head, ((head >> 32) + 1) << 32 | h, std::memory_order_release,
                                     std::memory_order_relaxed))
        return;
      polling::pause();
    }
  }

  template <class T>
  static inflated_state<native, T>& inflated(std::uint32_t h) {
    return *std::launder(reinterpret_cast<inflated_state<native, T>*>(&slot_of(class_of<T>, h) + 1));
  }

 private:
  template <class T>
  static inline constexpr char type_tag = 0;
  template <class T>
  static inline constexpr std::size_t class_of = inflated_class::of(sizeof(inflated_state<native, T>));

  static std::uint32_t block_of(std::size_t c, std::uint32_t h) {
    return inflated_class::first_block(c) + h / inflated_class::slots_a_block(c);
  }
  static inflated_slot& slot_of(std::size_t c, std::uint32_t h) {
    unsigned char* const block = usher_process_state.inflated_block[block_of(c, h)].load(std::memory_order_relaxed);
    return *reinterpret_cast<inflated_slot*>(block +
                                             h % inflated_class::slots_a_block(c) * inflated_class::slot_bytes(c));
  }

  static std::uint32_t take_slot(std::size_t c) {
    auto& s = usher_process_state.inflated[c];
    // (a1) acquire: pairs with (a2), by which a user gives a state back.
    std::uint64_t head = s.free.load(std::memory_order_acquire);
    while (std::uint32_t(head) != 0) {
      const std::uint32_t next = slot_of(c, std::uint32_t(head)).next_free.load(std::memory_order_relaxed);
      if (s.free.compare_exchange_weak(head, ((head >> 32) + 1) << 32 | next, std::memory_order_acquire,
                                       std::memory_order_acquire))
        return std::uint32_t(head);
      polling::pause();
    }
    // Mapping a block takes long, above all in a process that has locked its memory. Many threads that contend for one
    // lock would each map a block, and each take a state from it. So a thread that has mapped a block takes no state
    // from it before it has checked whether another thread has inflated the lock meanwhile.
    std::uint32_t made = s.made.load(std::memory_order_acquire);
    while (made + 1 < inflated_class::most) {
      const std::uint32_t block = block_of(c, made + 1);
      if (!blocks::inflated_is_mapped(block)) return blocks::has_inflated(block) ? retake_inflated : 0;
      if (s.made.compare_exchange_weak(made, made + 1, std::memory_order_acq_rel, std::memory_order_acquire))
        return made + 1;
    }
    return 0;
  }
};

}  // namespace usher::inline v2::native_detail
