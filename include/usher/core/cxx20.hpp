// Included first by every header that includes no other of ours first: an older language is refused in one line, before
// anything of C++20 is met. And every header says so of which release it is: USHER_VERSION.
#pragma once

#if __cplusplus <= 201703L
#error "Usher needs C++20: compile with -std=c++20 or later"
#endif

#include "usher/version.h"
