// Says that the library is there: in its status record, and with USHER_VERBOSE=1 in a line on stderr.
#pragma once

#include "preload/status_record.hpp"

namespace usher::preload {

/// `lock` is the one that is in use. Several threads may say so, all the same.
void note_selection(outcome what, const char* lock);

/// The line, if it is asked for, and the program has no other rights than its user.
void say_selection_if_verbose();

}  // namespace usher::preload
