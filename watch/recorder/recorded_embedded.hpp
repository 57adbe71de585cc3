// Declarations that recorded embedded locks and recorded pthread objects share.
#pragma once

#include <atomic>
#include <cstdint>

#include "library/preload/export.hpp"
#include "usher/platform/native/recorded.hpp"
#include "watch/recorder/holding.hpp"

/// Embedded locks call the functions that this points to; null while nothing is recorded.
USHER_EXPORT std::atomic<const usher::native_detail::record_calls*> usher_record_v1;

namespace usher::preload {

/// Sets usher_record_v1.
void connect_embedded(bool recording);

/// An operation of an embedded object, such as a lock or a wait. Returns false if its deadline has passed.
struct embedded_operation {
  native_detail::record_calls::operation call;
  void* context;
  bool operator()() const { return call(context); }
};

/// Locks a mutex or spin lock that was not free by calling `lock`, and records the wait.
bool wait_for_mutex(recorded_thread& me, record::object& o, const void* mutex, const embedded_operation& lock,
                    std::uint64_t caller, bool has_deadline, record::kind kind = record::kind::mutex);

/// Ends the hold of a mutex, whichever thread has it. Called before the unlock; charge_holder() must charge the result
/// after it.
held_charge end_own_or_others_hold(recorded_thread& me, record::object& o, const void* mutex);

/// Waits for a condition by calling `wait`, and records the wait. `mutex` is the mutex that an unlock may hand over to
/// the thread without a lock call; may be null.
bool wait_for_condition(const void* condition, const void* mutex, const embedded_operation& wait, std::uint64_t caller);

/// Records one signal, or a broadcast (`all`). Called before it.
void record_signal(const void* condition, bool all, std::uint64_t caller);

}  // namespace usher::preload
