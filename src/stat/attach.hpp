// Switches the recording on in a process that runs under Usher: preload/attach.hpp says how.
#pragma once

#include <sys/types.h>

#include <string>

namespace usher::cli::stat {

/// Has a running process record into the file of that path, from its next calls on. All its threads are stopped for a moment,
/// as a debugger does. Empty: done; else why not, in a line without a full stop.
std::string attach(pid_t pid, const std::string& file_path);

}  // namespace usher::cli::stat
