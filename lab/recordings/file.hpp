/// Reads and writes recordings as files. docs/predict.md describes the layout.
///
/// The attacker is the author of a file that another user reads. Each length, index and number is compared with its
/// limit before it is used, and largest_file and most_events bound the memory that a file takes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "lab/recordings/recording.hpp"

namespace usher::recording {

inline constexpr std::size_t largest_file = std::size_t{64} << 20;  // bytes; chosen
inline constexpr std::size_t most_events = std::size_t{8} << 20;    // in all windows together; chosen

/// Throws std::runtime_error with a message of one line that names the file and the defect.
recording read_recording(const std::filesystem::path& file);
/// Writes the file; an existing file of that name is replaced only when the new one is complete. Throws
/// std::runtime_error.
void write_recording(const recording& r, const std::filesystem::path& file);

/// Returns the recording in the file's format.
std::string encoded(const recording& r);
/// The inverse of encoded(). Throws std::runtime_error with a message of one line that names the defect.
recording decoded(std::string_view content);

}  // namespace usher::recording
