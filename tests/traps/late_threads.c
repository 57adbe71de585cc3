// A program without threads that loads a library with threads by dlopen(). Before glibc 2.34 the library brings
// libpthread.so.0, and libusher.so must find its functions although they were missing at the start.
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char** arguments) {
  void* const library = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  const char* (*failure)(void) = NULL;
  if (library != NULL) *(void**)&failure = dlsym(library, "failure");  // as POSIX shows it
  const char* const failed = failure == NULL ? dlerror() : failure();
  if (failed != NULL) return printf("FAIL late_threads: %s\n", failed), 1;
  puts("ok");
  return 0;
}
