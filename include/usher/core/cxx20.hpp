// Every header of Usher includes this one first, directly or through another header. So a compiler set to an older
// version of C++ reports one error before it reads any C++20. This header also gives every header USHER_VERSION.
#pragma once

#if __cplusplus <= 201703L
#error "Usher needs C++20: compile with -std=c++20 or later"
#endif

#include "usher/version.h"
