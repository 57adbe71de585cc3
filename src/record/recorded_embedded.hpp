// The parts that recorded embedded locks share with those of pthread.
#pragma once

#include <atomic>
#include <cstdint>

#include "preload/export.hpp"
#include "record/holding.hpp"
#include "usher/platform/native/recorded.hpp"

/// Embedded locks look here: null while nothing is recorded.
USHER_EXPORT std::atomic<const usher::native_detail::record_calls*> usher_record_v1;

namespace usher::preload {

/// Sets usher_record_v1.
void connect_embedded(bool recording);

/// An operation of an embedded object: false means that time ran out.
struct embedded_operation {
  native_detail::record_calls::operation call;
  void* context;
  bool operator()() const { return call(context); }
};

/// Locks a mutex that was not free, and records the wait.
bool wait_for_mutex(recorded_thread& me, record::object& o, const void* mutex, const embedded_operation& lock,
                    std::uint64_t caller);

/// Before an unlock by any thread: ends the hold. charge_holder() charges the result after the unlock.
held_charge end_own_or_others_hold(recorded_thread& me, record::object& o, const void* mutex);

/// Waits for a condition. `mutex`: may be handed over to the thread, without a lock call; or null.
bool wait_for_condition(const void* condition, const void* mutex, const embedded_operation& wait, std::uint64_t caller);

/// Before one signal, or a broadcast (`all`).
void record_signal(const void* condition, bool all, std::uint64_t caller);

}  // namespace usher::preload
