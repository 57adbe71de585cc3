// The program to be started: its file, and whether Usher's library will be loaded into it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "support/elf/elf.hpp"

namespace usher::support {

/// The file that execvp would start: `command` itself if it has a slash in it, else the first in PATH.
std::optional<std::string> find_program(const std::string& command);

/// The same as find_program(), but the file need not be executable.
std::optional<std::string> find_file(const std::string& command);

/// The reasons why the library will not be loaded into the program or will not work there, one sentence each.
std::vector<std::string> hindrances(const std::string& program, const elf_target& library);

/// The same as above; the sentences call the program `called`.
std::vector<std::string> hindrances(const std::string& program, const std::string& called, const elf_target& library);

/// The missing file that keeps an existing program from starting: its loader, or the interpreter of a script.
std::optional<std::string> missing_interpreter(const std::string& program);

}  // namespace usher::support
