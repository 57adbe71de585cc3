/* Lets a program that is linked with the start files of glibc 2.34 or later also run on an older glibc.
 *
 * The old version of __libc_start_main() takes a function that runs the program's constructors. The start file of 2.34
 * passes null instead, because the new version runs them itself. All releases still export the old version: this file
 * calls it, and passes such a function. */
#include <stddef.h>

typedef int main_function(int, char**, char**);
typedef void start_function(int, char**, char**);

extern int start_main(main_function*, int, char**, start_function*, void (*)(void), void (*)(void), void*);
#if defined(__x86_64__)
__asm__(".symver start_main, __libc_start_main@GLIBC_2.2.5");
#else
__asm__(".symver start_main, __libc_start_main@GLIBC_2.17");
#endif

/* The linker defines the first two, crti.o defines _init(). */
extern start_function* __init_array_start[];
extern start_function* __init_array_end[];
extern void _init(void);

static void run_constructors(int argc, char** argv, char** environment) {
  _init();
  const size_t n = (size_t)(__init_array_end - __init_array_start);
  for (size_t i = 0; i < n; i++) __init_array_start[i](argc, argv, environment);
}

int __libc_start_main(main_function* program, int argc, char** argv, start_function* init, void (*fini)(void),
                      void (*loader_fini)(void), void* stack_end);

int __libc_start_main(main_function* program, int argc, char** argv, start_function* init, void (*fini)(void),
                      void (*loader_fini)(void), void* stack_end) {
  return start_main(program, argc, argv, init != NULL ? init : run_constructors, fini, loader_fini, stack_end);
}
