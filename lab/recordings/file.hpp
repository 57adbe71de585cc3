/// The file of a recording. docs/predict.md describes its layout.
///
/// The attacker is the author of a file that somebody else reads: each length, index and number is compared with its
/// limit before it is used, and the memory that a file takes is bounded by largest_file and most_events.

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

/// Throws std::runtime_error, with one line that names the file and the defect.
recording read_recording(const std::filesystem::path& file);
/// Throws std::runtime_error. The file replaces one of that name when it is complete.
void write_recording(const recording& r, const std::filesystem::path& file);

/// The content of the file.
std::string encoded(const recording& r);
/// The inverse. Throws std::runtime_error, with one line that names the defect.
recording decoded(std::string_view content);

}  // namespace usher::recording
