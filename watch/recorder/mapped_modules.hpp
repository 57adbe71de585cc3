// Registers modules of the process in the record's file.
#pragma once

#include <cstdint>

#include "watch/recorder/loaded_module.hpp"
#include "watch/recorder/recorder.hpp"

namespace usher::recorder {

/// The number of a module (contract::module_of) in the file. A module gets a slot at its first use; 0 if there is no
/// room. The module must not be unloaded during the call.
std::uint32_t number_of(recorder& r, const recorded_thread& me, const loaded_module& m);

/// Reads the name and path of the program. To be called only at its start, since it opens a file.
void describe_program(recorder& r);

}  // namespace usher::recorder
