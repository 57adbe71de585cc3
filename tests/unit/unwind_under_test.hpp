// Functions that are in one shared object with watch/recorder/unwind.cpp, as those of libusher.so are.
#pragma once

/// Calls f(argument).
void through_the_library(void (*f)(void*), void* argument);
