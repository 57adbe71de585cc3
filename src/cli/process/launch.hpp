// What all subcommands do that start a program under a lock: choose the lock, warn of what will not work, become the program.
#pragma once

#include <string>
#include <string_view>

#include "cli/elf/elf.hpp"
#include "usher/catalog.hpp"

namespace usher::cli {

/// The lock of --lock, if `given`; else that of USHER_LOCK, if set; else `otherwise`. Null after a complaint.
const lock_table* choose_lock(bool given, const std::string& name, std::string_view otherwise);

/// Where the lock's waiters may load the CPUs so much that others get nowhere.
void warn_of_waiting(const lock_table& lock);

/// Why the library will not load into the command, or not work there.
void warn_of_hindrances(const char* command, const elf_target& library);

/// Becomes the command. Returns only if that fails: the exit status, after a complaint.
int become_command(char** command);

}  // namespace usher::cli
