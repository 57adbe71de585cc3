// Durations as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace usher::support {

/// The seconds of "2m", "90s", "1h30m", "1.5h", or a plain number. Nullopt for other texts and for durations that are
/// not above 0.
std::optional<double> duration_of(std::string_view text);

/// A duration in at most two units: "0.35 s", "1.9 s", "45 s", "2 min", "1 min 30 s", "1 h 5 min".
std::string duration_text(double seconds);

/// A duration in the syntax of options, rounded up: "90s", whole minutes from 2 minutes on, "3h5m".
std::string duration_option(double seconds);

}  // namespace usher::support
