// Durations as people write and read them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace usher::cli {

/// "2m", "90s", "1h30m", "1.5h", or plain seconds. Nothing else, and nothing that is not above 0.
std::optional<double> duration_of(std::string_view text);

/// To two units at most: "0.35 s", "1.9 s", "45 s", "2 min", "1 min 30 s", "1 h 5 min".
std::string duration_text(double seconds);

/// As an option takes it, rounded up: "90s", whole minutes from 2 minutes on, "3h5m".
std::string duration_option(double seconds);

}  // namespace usher::cli
