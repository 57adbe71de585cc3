// The list of the soak's threads, which the watchdog reads.
#pragma once

#include "soak.hpp"

namespace soak {

constexpr int watch_places = 1024;
extern watched watch_list[watch_places];
void print_watched(std::int64_t at);

}  // namespace soak
