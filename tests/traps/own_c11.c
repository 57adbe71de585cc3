// Trap: a library has functions with C11's names, and calls them by the dynamic linker. They must stay its own.
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
