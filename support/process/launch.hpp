// The steps of all subcommands that start a program under a lock: select the lock, warn of hindrances, execute the program.
#pragma once

#include <string>
#include <string_view>

#include "support/elf/elf.hpp"
#include "usher/catalog.hpp"

namespace usher::support {

/// Returns the lock of --lock, if `given`; otherwise that of USHER_LOCK, if set; otherwise `otherwise`. Null after an
/// error message.
const lock_table* choose_lock(bool given, const std::string& name, std::string_view otherwise);

/// Warns if the lock's waiters may take so much CPU time that other threads make no progress.
void warn_of_waiting(const lock_table& lock);

/// Warns if the library will not be loaded into the command or will not work there.
void warn_of_hindrances(const char* command, const elf_target& library);

/// Executes the command in this process. Returns only on failure: the exit status, after an error message.
int become_command(char** command);

}  // namespace usher::support
