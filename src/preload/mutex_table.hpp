// The pthread mutex operations of one lock: what the exported functions jump to.
#pragma once

#include <pthread.h>
#include <time.h>

namespace usher::preload {

struct mutex_table {
  const char* name;
  bool passes_through;            ///< the C library's locks: nothing is ours
  int (*lock)(pthread_mutex_t*);  ///< null in the table of what is no lock: it is refused
  int (*trylock)(pthread_mutex_t*);
  int (*unlock)(pthread_mutex_t*);
  /// The clock has been checked.
  int (*clocklock)(pthread_mutex_t*, clockid_t, const timespec*);
};

}  // namespace usher::preload
