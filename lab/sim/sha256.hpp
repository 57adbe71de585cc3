// SHA-256 (FIPS 180-4), to identify a machine by its values. It has no security purpose: the simulator hashes only
// texts of at most a mebibyte that it has parsed before.
#pragma once

#include <string>
#include <string_view>

namespace usher::sim {

/// The digest in 64 hexadecimal digits.
std::string sha256(std::string_view text);

}  // namespace usher::sim
