// Runs the program once under `usher stat`, for a verdict on the mutexes that threads wait for.
#pragma once

#include <string>

#include "tool/trial/runner.hpp"

namespace usher::tool::trial {

/// Whether usher_stat was built and is found near this program.
bool has_stat();

/// The verdict of `usher stat` on a run: a sentence without a full stop; empty if there is none. Throws as runner does.
std::string stat_verdict(runner& r);

}  // namespace usher::tool::trial
