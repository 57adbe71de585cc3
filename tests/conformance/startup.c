// Tests mutexes before and after main(). The constructor of a preloaded library runs after all other constructors, and
// its destructor before most others. So the library must work before its constructor and after its destructor.
#include "kinds.h"

#include <dlfcn.h>

#include "startup_library.h"

static struct early_report preinit_report, first_report, ordinary_report;
static int* destructor_result;

// Runs before the constructor of any library. It starts no thread and does not call use_everything(), because calls in
// the test library may not be bound yet.
static void before_everything(void) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  int wrong = 0;
  wrong |= pthread_mutex_lock(&mutex);
  wrong |= pthread_mutex_trylock(&mutex) != EBUSY;
  wrong |= pthread_mutex_unlock(&mutex);
  wrong |= pthread_mutex_lock(&recursive);
  wrong |= pthread_mutex_lock(&recursive);
  wrong |= pthread_mutex_unlock(&recursive);
  wrong |= pthread_mutex_unlock(&recursive);
  wrong |= pthread_mutex_unlock(&recursive) != EPERM;
  preinit_report.first_code = wrong;
  ++preinit_report.runs;
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = before_everything;

__attribute__((constructor(101))) static void first_constructor(void) {
  use_everything(&first_report);
}
__attribute__((constructor)) static void ordinary_constructor(void) {
  use_everything(&ordinary_report);
}

__attribute__((destructor)) static void program_destructor(void) {
  if (!destructor_result) return;
  struct early_report report = {0, 0, 0};
  use_everything(&report);
  *destructor_result = report.runs == 1 && report.first_code == 0;
}

static void check_report(const char* name, const struct early_report* report) {
  note("%s, first wrong answer at line %d", name, report->line);
  CHECK_NUMBER(report->runs, 1);
  CHECK_CODE(report->first_code, 0);
}

CASE(locks_in_preinit_array) {
  check_report("preinit", &preinit_report);
}
CASE(locks_in_library_constructor) {
  check_report("library", &library_report);
}
CASE(locks_in_first_constructor) {
  check_report("priority 101", &first_report);
}
CASE(locks_in_constructor) {
  check_report("constructor", &ordinary_report);
}

CASE(locked_by_constructor_released_by_main) {
  CHECK_CODE(elsewhere(thread_trylock, &locked_by_constructor), EBUSY);
  pthread_t waiter = start_thread(thread_lock_unlock, &locked_by_constructor);
  await_sleepers(1);
  CHECK_OK(pthread_mutex_unlock(&locked_by_constructor));
  CHECK_OK((int)(intptr_t)join_thread(waiter));
  CHECK_OK(try_elsewhere(&locked_by_constructor));
}

// -- after main --

struct ending {
  int destructor, library_destructor, handler, quick_handler, running;
};
static struct ending* ending;

static void at_the_end(void) {
  struct early_report report = {0, 0, 0};
  use_everything(&report);
  ending->handler = report.runs == 1 && report.first_code == 0;
}

static void at_the_quick_end(void) {
  struct early_report report = {0, 0, 0};
  use_everything(&report);
  ending->quick_handler = report.runs == 1 && report.first_code == 0;
}

struct crowd {
  pthread_mutex_t mutex;
  long count;
};

static void* never_stop(void* argument) {
  struct crowd* crowd = argument;
  for (;;) {
    CHECK_OK(pthread_mutex_lock(&crowd->mutex));
    linger(++crowd->count);
    CHECK_OK(pthread_mutex_unlock(&crowd->mutex));
  }
  return NULL;
}

static void end(void (*leave)(int), bool with_threads) {
  static struct crowd crowd = {PTHREAD_MUTEX_INITIALIZER, 0};
  ending = shared_page();
  const pid_t child = fork();
  if (child == 0) {
    be_a_child();
    destructor_result = &ending->destructor;
    library_destructor_result = &ending->library_destructor;
    if (atexit(at_the_end) != 0 || at_quick_exit(at_the_quick_end) != 0) _exit(2);
    if (with_threads)
      for (int i = 0; i < 3; ++i) start_thread(never_stop, &crowd);
    leave(17);
  }
  CHECK_CHILD(child, 17);
}

CASE(locks_in_exit_handlers) {
  end(exit, false);
  CHECK_NUMBER(ending->handler, 1);
  CHECK_NUMBER(ending->destructor, 1);
  CHECK_NUMBER(ending->library_destructor, 1);
}

CASE(locks_in_exit_handlers_among_threads) {
  for (int round = 0; round < 5; ++round) {
    end(exit, true);
    CHECK_NUMBER(ending->handler, 1);
    CHECK_NUMBER(ending->destructor, 1);
    CHECK_NUMBER(ending->library_destructor, 1);
  }
}

CASE(locks_in_quick_exit_handlers) {
  end(quick_exit, true);
  CHECK_NUMBER(ending->quick_handler, 1);
  CHECK_NUMBER(ending->handler, 0);
}

// The first thread leaves by pthread_exit() and the others go on. The last one ends the process, which runs the exit
// handlers. Here the handlers start no thread, because the C library would mistake the end of that thread for the end
// of the last thread.
static void lock_at_the_end(void) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  int wrong = 0;
  for (int i = 0; i < 100; ++i) {
    wrong |= pthread_mutex_lock(&mutex);
    wrong |= pthread_mutex_trylock(&mutex) != EBUSY;
    wrong |= pthread_mutex_unlock(&mutex);
  }
  ending->handler = wrong == 0;
}

static void* outlive_main(void* argument) {
  const pthread_t* main_thread = argument;
  CHECK_OK(pthread_join(*main_thread, NULL));
  struct early_report report = {0, 0, 0};
  use_everything(&report);
  ending->running = report.runs == 1 && report.first_code == 0;
  return NULL;
}

static void leave_by_pthread_exit(int status) {
  (void)status;
  static pthread_t self;
  self = pthread_self();
  pthread_attr_t attribute;
  CHECK_OK(pthread_attr_init(&attribute));
  pthread_t thread;
  CHECK_OK(pthread_create(&thread, &attribute, outlive_main, &self));
  pthread_exit(NULL);
}

CASE(main_thread_leaves_first) {
  ending = shared_page();
  const pid_t child = fork();
  if (child == 0) {
    be_a_child();
    if (atexit(lock_at_the_end) != 0) _exit(2);
    leave_by_pthread_exit(0);
  }
  CHECK_CHILD(child, 0);
  CHECK_NUMBER(ending->running, 1);
  CHECK_NUMBER(ending->handler, 1);
}

// -- loaded later --

// Loads and unloads the C library's math library while other threads lock, because dlopen() and dlclose() take locks of
// the loader. A second copy of libusher.so in another namespace is not tested here.
static void* load_and_unload(void* argument) {
  struct crowd* crowd = argument;
  for (int i = 0; i < 30; ++i) {
    void* library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    CHECK_OK(pthread_mutex_lock(&crowd->mutex));
    linger(++crowd->count);
    CHECK(dlsym(library, "cos") != NULL);
    CHECK_OK(pthread_mutex_unlock(&crowd->mutex));
    CHECK(dlclose(library) == 0);
  }
  return NULL;
}

CASE(dlopen_among_lockers) {
  static struct crowd crowd = {PTHREAD_MUTEX_INITIALIZER, 0};
  run_threads(4, load_and_unload, &crowd, 0);
  CHECK_NUMBER(crowd.count, 120);
}
