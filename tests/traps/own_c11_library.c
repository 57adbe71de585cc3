// A library with C11's names for types of its own, as tinycthread has: a mutex of one word, and other results.
#include <stdatomic.h>

enum { own_success = 1, own_busy = 3 };

int mtx_lock(void* mutex);
int mtx_trylock(void* mutex);
int mtx_unlock(void* mutex);
int own_library_works(void);

int mtx_trylock(void* mutex) {
  return atomic_exchange((atomic_char*)mutex, 1) == 0 ? own_success : own_busy;
}
int mtx_lock(void* mutex) {
  while (mtx_trylock(mutex) != own_success) {
  }
  return own_success;
}
int mtx_unlock(void* mutex) {
  atomic_store((atomic_char*)mutex, 0);
  return own_success;
}

/// Uses a mutex by the dynamic linker's bindings of the three names.
int own_library_works(void) {
  char memory[] = {0x55, 0, 0x55};
  return mtx_lock(&memory[1]) == own_success && mtx_trylock(&memory[1]) == own_busy && memory[1] == 1 &&
         mtx_unlock(&memory[1]) == own_success && memory[0] == 0x55 && memory[1] == 0 && memory[2] == 0x55;
}
