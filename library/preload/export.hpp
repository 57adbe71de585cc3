// USHER_EXPORT marks the functions that libusher.so exports.
#pragma once

#define USHER_EXPORT extern "C" [[gnu::visibility("default")]]
