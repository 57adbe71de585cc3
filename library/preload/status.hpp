// Reports the selection: in the library's status record, and with USHER_VERBOSE=1 by a line on stderr.
#pragma once

#include "library/preload/status_record.hpp"

namespace usher::preload {

/// Stores the selection in the status record. `lock` is the name of the lock in use. Several threads may call this,
/// with the same arguments.
void note_selection(outcome what, const char* lock);

/// As note_selection(), for read-write locks; null: the C library's.
void note_rwlocks(const char* lock);

/// Writes the line if USHER_VERBOSE asks for it, and if the program does not run in secure mode.
void say_selection_if_verbose();

}  // namespace usher::preload
