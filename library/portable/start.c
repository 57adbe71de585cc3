/* Lets programs that are linked with the start files of glibc 2.34 and later run with older ones, too.
 *
 * Since 2.34 the start file passes no function that runs the program's constructors, because __libc_start_main() runs
 * them itself; before, it called the function that it was given. The version of __libc_start_main() that older
 * programs use accepts such a function in all releases. */
#include <stddef.h>

typedef int main_function(int, char**, char**);
typedef void start_function(int, char**, char**);

extern int start_main(main_function*, int, char**, start_function*, void (*)(void), void (*)(void), void*);
#if defined(__x86_64__)
__asm__(".symver start_main, __libc_start_main@GLIBC_2.2.5");
#else
__asm__(".symver start_main, __libc_start_main@GLIBC_2.17");
#endif

/* Defined by the linker and by crti.o. */
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
