// Copies the executable mappings of the process into the record's file.
#pragma once

#include <cstdint>

#include "record/recorder.hpp"

namespace usher::preload {

/// Reads /proc/self/maps into the file, unless the mapping of this address is there already or the address lies in no
/// module. Takes at most 2 % of the time: a reading that is not allowed yet is left to a later call.
void record_mapping_of(recorder& r, const recorded_thread& me, std::uint64_t address);

/// For the child of a fork: copies its parent's mappings in the file, so that no file is opened. False: the parent had
/// none.
bool inherit_modules(recorder& r, std::uint32_t parent, std::uint32_t child);

}  // namespace usher::preload
