// One run under `usher stat`, for what it says of the mutexes that threads wait for.
#pragma once

#include <string>

#include "cli/trial/runner.hpp"

namespace usher::cli::trial {

/// Whether it was built, and is where this program finds it.
bool has_stat();

/// Its verdict on a run, a sentence without a full stop; empty where there is none. Throws as runner does.
std::string stat_verdict(runner& r);

}  // namespace usher::cli::trial
