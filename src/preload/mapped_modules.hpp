// The executable mappings of the process, in the file that is recorded into.
#pragma once

#include <cstdint>

#include "preload/recorder.hpp"

namespace usher::preload {

/// Sees to it that the mapping with this address is in the file: reads /proc/self/maps if it is not, for at
/// most 2 % of the time.
/// Nothing is opened for what lies in no module.
void record_mapping_of(recorder& r, const recorded_thread& me, std::uint64_t address);

/// A child of a fork has its parent's mappings: no file is opened for them. False: the parent had none.
bool inherit_modules(recorder& r, std::uint32_t parent, std::uint32_t child);

}  // namespace usher::preload
