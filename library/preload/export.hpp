// Marks the functions that the library exports.
#pragma once

#define USHER_EXPORT extern "C" [[gnu::visibility("default")]]
