// Probes for tracers (USDT): an instruction that does nothing and a note in the ELF file each. docs/stat.md lists them.
#pragma once

#include <sys/sdt.h>

#define USHER_PROBE1(name, a) DTRACE_PROBE1(usher, name, a)
#define USHER_PROBE2(name, a, b) DTRACE_PROBE2(usher, name, a, b)
#define USHER_PROBE3(name, a, b, c) DTRACE_PROBE3(usher, name, a, b, c)
