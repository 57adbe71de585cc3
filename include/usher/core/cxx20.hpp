// Included first by every header that includes no other of ours first, so that an older language is refused in one
// line, before any C++20. So every header also defines the release that it is of: USHER_VERSION.
#pragma once

#if __cplusplus <= 201703L
#error "Usher needs C++20: compile with -std=c++20 or later"
#endif

#include "usher/version.h"
