// Finds the other files of Usher relative to this program, so that an installed tree may be moved.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/process/files.hpp"

namespace usher::support {

/// The tree in which this program is installed or was built: <tree>/bin/usher, <tree>/libexec/usher/usher_bench.
std::filesystem::path own_tree();

/// A library in this tree; an empty path if there is none.
std::filesystem::path library_near_us(const char* name);

/// A page of the documentation; an empty path if it is not installed.
std::filesystem::path document_near_us(const std::string& name);

/// An executable that is no command by itself: beside this program in a build, in a folder of its own in an installed tree. An empty
/// path if there is none.
std::filesystem::path helper_near_us(const char* name);

}  // namespace usher::support
