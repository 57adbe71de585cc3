// A library that uses C11's names for types and functions of its own, as tinycthread does. Its mutex has one word, and
// its functions have other results than C11's.
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

/// Locks and unlocks a mutex by calls of this library's functions through the dynamic linker.
int own_library_works(void) {
  char memory[] = {0x55, 0, 0x55};
  return mtx_lock(&memory[1]) == own_success && mtx_trylock(&memory[1]) == own_busy && memory[1] == 1 &&
         mtx_unlock(&memory[1]) == own_success && memory[0] == 0x55 && memory[1] == 0 && memory[2] == 0x55;
}
