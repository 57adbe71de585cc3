// A shared object that uses mutexes before and after main: see startup.c.
#ifndef USHER_TESTS_STARTUP_LIBRARY_H
#define USHER_TESTS_STARTUP_LIBRARY_H

#include <pthread.h>

struct early_report {
  int runs;        ///< constructors that got to their ends
  int first_code;  ///< the first answer that was not as it should be, or 0
  int line;
};

/// What one constructor does: every call, on every kind, and a thread. The program does the same with it.
void use_everything(struct early_report* report);

extern struct early_report library_report;
/// Locked by the library's constructor, released by the program.
extern pthread_mutex_t locked_by_constructor;
/// Where the library's destructor reports to, when not null: 1 when all was well.
extern int* library_destructor_result;

#endif
