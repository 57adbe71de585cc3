// Registers modules of the process in the record's file.
#pragma once

#include <cstdint>

#include "watch/recorder/loaded_module.hpp"
#include "watch/recorder/recorder.hpp"

namespace usher::recorder {

/// The number of a module in the file (contract::module_of). At its first use the module gets a slot; 0 if the table is
/// full. The module must not be unloaded during the call.
std::uint32_t number_of(recorder& r, const recorded_thread& me, const loaded_module& m);

/// Reads the name and path of the program. Only called at its start, since it opens a file.
void describe_program(recorder& r);

}  // namespace usher::recorder
