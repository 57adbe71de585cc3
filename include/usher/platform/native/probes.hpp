// Probes for tracers (USDT) at the places where threads sleep and wake. Only libusher.so has them, because it is built
// with USHER_WITH_PROBES. Elsewhere they are empty, and nothing is included.
#pragma once

#include "usher/core/cxx20.hpp"

#if defined(USHER_WITH_PROBES)
#include <sys/sdt.h>
#define USHER_PROBE1(name, a) DTRACE_PROBE1(usher, name, a)
#define USHER_PROBE2(name, a, b) DTRACE_PROBE2(usher, name, a, b)
#define USHER_PROBE3(name, a, b, c) DTRACE_PROBE3(usher, name, a, b, c)
#else
#define USHER_PROBE1(name, a) static_cast<void>(0)
#define USHER_PROBE2(name, a, b) static_cast<void>(0)
#define USHER_PROBE3(name, a, b, c) static_cast<void>(0)
#endif
