// What lies in one shared object with src/record/unwind.cpp, as libusher.so's functions do.
#pragma once

/// Calls f(argument).
void through_the_library(void (*f)(void*), void* argument);
