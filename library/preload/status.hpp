// Reports the selection in the library's status record and, if USHER_VERBOSE=1, by a line on stderr.
#pragma once

#include "library/preload/status_record.hpp"

namespace usher::preload {

/// Stores the selection in the status record. `lock` is the name of the lock in use. Several threads may call this,
/// with the same arguments.
void note_selection(outcome what, const char* lock);

/// Stores the name of the read-write lock in use; null: the C library's. Several threads may call this, too.
void note_rwlocks(const char* lock);

/// Writes the line if USHER_VERBOSE is neither empty nor "0", and the program does not run in secure mode (AT_SECURE).
void say_selection_if_verbose();

}  // namespace usher::preload
