// A shared object that uses mutexes before and after main, see startup.c.
#ifndef USHER_TESTS_STARTUP_LIBRARY_H
#define USHER_TESTS_STARTUP_LIBRARY_H

#include <pthread.h>

struct early_report {
  int runs;        ///< number of constructors that ran to their ends
  int first_code;  ///< the first result that was not the expected one, or 0
  int line;
};

/// The work of a constructor: makes every call on every kind of mutex, and starts a thread. The program calls this
/// function, too.
void use_everything(struct early_report* report);

extern struct early_report library_report;
/// The library's constructor locks this mutex, and the program unlocks it.
extern pthread_mutex_t locked_by_constructor;
/// The library's destructor stores 1 here if all results were right, unless the pointer is null.
extern int* library_destructor_result;

#endif
