// The pool of inflated states (core/inflatable.hpp), never unmapped: a list of states that were in use, and those that
// have not been. The upper half of the list's word counts changes, so that equal words mean an equal list (no ABA).
//
// In the child of a fork the states in use at that moment are lost, for their threads do not exist there. The parent
// loses none.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>

#include "usher/core/platform.hpp"
#include "usher/platform/native/blocks.hpp"
#include "usher/platform/native/polling.hpp"
#include "usher/platform/native/state.hpp"

namespace usher::inline v1::native_detail {

struct inflation {
  template <class T>
  static std::uint32_t take_inflated() {
    static_assert(sizeof(inflated_state<native, T>) <= inflated_slot::room);
    const std::uint32_t h = take_inflated_slot();
    if (h == 0) return 0;
    auto& slot = slot_of(h);
    // Two shared objects may have different tags for the same type: then the bytes are cleared once too often.
    if (slot.type.load(std::memory_order_relaxed) != &type_tag<T>) {
      std::memset(static_cast<void*>(&inflated<T>(h).lock), 0, sizeof(T));
      slot.type.store(&type_tag<T>, std::memory_order_relaxed);
    }
    return h;
  }

  template <class T>
  static void give_inflated(std::uint32_t h) {
    auto& s = usher_process_state;
    std::uint64_t head = s.free_inflated.load(std::memory_order_relaxed);
    for (;;) {
      slot_of(h).next_free.store(std::uint32_t(head), std::memory_order_relaxed);
      // (a2) release: pairs with (a1), the state as it was left.
      if (s.free_inflated.compare_exchange_weak(head, ((head >> 32) + 1) << 32 | h, std::memory_order_release,
                                                std::memory_order_relaxed))
        return;
      polling::pause();
    }
  }

  template <class T>
  static inflated_state<native, T>& inflated(std::uint32_t h) {
    return *std::launder(reinterpret_cast<inflated_state<native, T>*>(slot_of(h).bytes));
  }

 private:
  template <class T>
  static inline constexpr char type_tag = 0;

  static inflated_slot& slot_of(std::uint32_t h) {
    return *usher_process_state.inflated[h].load(std::memory_order_relaxed);
  }

  static std::uint32_t take_inflated_slot() {
    auto& s = usher_process_state;
    // (a1) acquire: pairs with (a2). The upper half counts changes: equal words mean an equal list.
    std::uint64_t head = s.free_inflated.load(std::memory_order_acquire);
    while (std::uint32_t(head) != 0) {
      const std::uint32_t next = slot_of(std::uint32_t(head)).next_free.load(std::memory_order_relaxed);
      if (s.free_inflated.compare_exchange_weak(head, ((head >> 32) + 1) << 32 | next, std::memory_order_acquire,
                                                std::memory_order_acquire))
        return std::uint32_t(head);
      polling::pause();
    }
    std::uint32_t made = s.inflated_made.load(std::memory_order_acquire);
    while (made + 1 < most_inflated && blocks::has_inflated(made + 1))
      if (s.inflated_made.compare_exchange_weak(made, made + 1, std::memory_order_acq_rel, std::memory_order_acquire))
        return made + 1;
    return 0;
  }
};

}  // namespace usher::inline v1::native_detail
