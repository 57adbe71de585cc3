// Uses the catalogue and the C interface from C++.
#include <cstdio>

#include <usher/usher.h>
#include <usher/catalog.hpp>

int main() {
  const usher::lock_table* twa = usher::find_lock("twa");
  if (twa == nullptr || !twa->traits->fifo) return 1;
  usher_mutex_t m = USHER_MUTEX_INITIALIZER;
  if (usher_mutex_init(&m, "no such lock") == 0 || usher_mutex_init(&m, "twa") != 0) return 2;
  if (usher_mutex_lock(&m) != 0 || usher_mutex_trylock(&m) == 0 || usher_mutex_unlock(&m) != 0) return 3;
  std::printf("%zu locks\n", usher::catalog().size());
  return 0;
}
