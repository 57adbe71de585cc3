// Words for the way in which a started program ended.
#pragma once

#include <string>

#include "support/process/process.hpp"

namespace usher::support {

/// The bytes that are read of a program's last output: enough for a line.
inline constexpr std::size_t most_read = 1 << 16;

/// "exit status 3", "died of signal 9 (Killed)".
std::string words_of(const ended& e);

/// Returns the last line of the program's error output or, if that is empty and `also_of_output`, of its output. This
/// line often gives the reason of a failure.
std::string last_words(const process& p, bool also_of_output);

/// The error, followed by a message that the program printed.
std::string with_words(const std::string& error, const std::string& message);

inline bool went_well(const ended& e) {
  return e.way == ended::how::exited && e.status == 0;
}

}  // namespace usher::support
