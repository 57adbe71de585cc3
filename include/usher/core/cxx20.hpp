// Every header includes this one first, directly or through another header of Usher. So a compiler that is set to an
// older version of C++ reports one error before it reads any C++20. Every header also defines USHER_VERSION, the
// release.
#pragma once

#if __cplusplus <= 201703L
#error "Usher needs C++20: compile with -std=c++20 or later"
#endif

#include "usher/version.h"
