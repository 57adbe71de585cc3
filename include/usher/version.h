/* The release that these headers are of: the one place where it is written. CMake, the packages and the command read it here. */
#ifndef USHER_VERSION_H
#define USHER_VERSION_H

#define USHER_VERSION "0.2.0"
#define USHER_VERSION_MAJOR 0
#define USHER_VERSION_MINOR 2
#define USHER_VERSION_PATCH 0

#endif
