// Trap: a library defines functions with the names of C11's, and calls them through the dynamic linker. These calls
// must reach the library's own functions.
#include "cases.h"

int own_library_works(void);
int mtx_lock(void* mutex);

CASE(of_a_library) {
  CHECK(own_library_works());
}
CASE(called_by_the_program) {
  char mutex = 0;
  CHECK(mtx_lock(&mutex) == 1);
  CHECK(mutex == 1);
}
