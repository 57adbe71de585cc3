// What a program sees of the library: these functions and nothing else.
#pragma once

#define USHER_EXPORT extern "C" [[gnu::visibility("default")]]
