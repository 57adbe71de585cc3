// SHA-256 (FIPS 180-4), for the identity of a machine's values. It is no protection: the simulator hashes texts of at
// most a mebibyte that it has parsed before.
#pragma once

#include <string>
#include <string_view>

namespace usher::sim {

/// The digest in 64 hexadecimal digits.
std::string sha256(std::string_view text);

}  // namespace usher::sim
