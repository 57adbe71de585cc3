// Functions in one shared object with watch/recorder/unwind.cpp, like the functions of libusher.so.
#pragma once

/// Calls f(argument).
void through_the_library(void (*f)(void*), void* argument);
