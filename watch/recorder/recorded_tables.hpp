// The tables of recording functions, one set for each sink (wrappers.hpp).
#pragma once

#include <atomic>

#include "library/preload/calls.hpp"
#include "library/preload/export.hpp"
#include "library/preload/rwlock_table.hpp"
#include "usher/platform/native/recorded.hpp"
#include "watch/recorder/others.hpp"

/// The functions that embedded locks call while a recording runs; else null.
USHER_EXPORT std::atomic<const usher::native_detail::record_calls*> usher_record_v1;
/// The functions that libusher-stat.so calls while a recording runs; else null.
USHER_EXPORT std::atomic<const usher::recorder::other_calls*> usher_recorded_others_v2;

namespace usher::recorder {

struct recorded_tables {
  const preload::calls* mutexes = nullptr;  ///< also condition variables and semaphores
  const preload::rwlock_calls* rwlocks = nullptr;
  const other_calls* others = nullptr;                    ///< the targets of libusher-stat.so's functions
  const native_detail::record_calls* embedded = nullptr;  ///< for embedded locks; null: these are not recorded
};

extern const recorded_tables summed_tables, streamed_tables;

}  // namespace usher::recorder
