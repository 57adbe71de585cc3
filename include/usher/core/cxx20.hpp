// Every header includes this one first, directly or through another header of Usher, so that a compiler for an older
// language reports one line, before any C++20. So every header also defines its release: USHER_VERSION.
#pragma once

#if __cplusplus <= 201703L
#error "Usher needs C++20: compile with -std=c++20 or later"
#endif

#include "usher/version.h"
