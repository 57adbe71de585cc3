// Switches recording on in a process that runs under Usher. record/attach_point.hpp describes the protocol.
#pragma once

#include <sys/types.h>

#include <string>

namespace usher::cli::stat {

/// Makes a running process record into the file of that path, from its next calls on. All its threads are stopped for a moment, as by a
/// debugger. Empty on success; else an error message of one line without a full stop.
std::string attach(pid_t pid, const std::string& file_path);

}  // namespace usher::cli::stat
