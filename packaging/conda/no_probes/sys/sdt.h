/* In place of SystemTap's header, which conda-forge does not have: libusher.so gets no probes for tracers. */
#define DTRACE_PROBE1(provider, name, a) ((void)(a))
#define DTRACE_PROBE2(provider, name, a, b) ((void)(a), (void)(b))
#define DTRACE_PROBE3(provider, name, a, b, c) ((void)(a), (void)(b), (void)(c))
