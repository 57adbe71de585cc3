/* The version of these headers. It is defined only here: CMake, the packages and the command `usher` read this file. */
#ifndef USHER_VERSION_H
#define USHER_VERSION_H

#define USHER_VERSION "0.3.0"
#define USHER_VERSION_MAJOR 0
#define USHER_VERSION_MINOR 3
#define USHER_VERSION_PATCH 0

#endif
