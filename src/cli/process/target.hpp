// The program to be started: which file it is, and whether Usher's library will load into it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/elf/elf.hpp"

namespace usher::cli {

/// The file that execvp would start: `command` itself if it has a slash in it, else the first in PATH.
std::optional<std::string> find_program(const std::string& command);

/// The same, but whether it can be executed or not.
std::optional<std::string> find_file(const std::string& command);

/// Why the library will not load into the program, or not work there: a sentence each.
std::vector<std::string> hindrances(const std::string& program, const elf_target& library);

/// The same, with another name for the program.
std::vector<std::string> hindrances(const std::string& program, const std::string& called, const elf_target& library);

/// The missing file that keeps an existing program from starting: its loader, or the interpreter of a script.
std::optional<std::string> missing_interpreter(const std::string& program);

}  // namespace usher::cli
