// The executable mappings of the process, in the file that is recorded into.
#pragma once

#include <cstdint>

#include "preload/recorder.hpp"

namespace usher::preload {

/// Sees to it that the mapping with this address is in the file: reads /proc/self/maps if it is not, for at
/// most 2 % of the time.
void learn_modules(recorder& r, const recorded_thread& me, std::uint64_t address);

}  // namespace usher::preload
