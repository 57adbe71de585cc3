// The tables of functions that record, a set for each sink (wrappers.hpp).
#pragma once

#include <atomic>

#include "library/preload/calls.hpp"
#include "library/preload/export.hpp"
#include "library/preload/rwlock_table.hpp"
#include "usher/platform/native/recorded.hpp"
#include "watch/recorder/others.hpp"

/// Embedded locks call the functions that this points to; null while nothing is recorded.
USHER_EXPORT std::atomic<const usher::native_detail::record_calls*> usher_record_v1;
/// The functions that libusher-stat.so calls; null while nothing is recorded.
USHER_EXPORT std::atomic<const usher::recorder::other_calls*> usher_recorded_others_v2;

namespace usher::recorder {

struct recorded_tables {
  const preload::calls* mutexes = nullptr;  ///< also condition variables and semaphores
  const preload::rwlock_calls* rwlocks = nullptr;
  const other_calls* others = nullptr;                    ///< to which libusher-stat.so leads
  const native_detail::record_calls* embedded = nullptr;  ///< of embedded locks; null: they are not recorded
};

extern const recorded_tables summed_tables, streamed_tables;

}  // namespace usher::recorder
