// Traps of loading: libusher.so is loaded by dlopen instead of LD_PRELOAD. Its thread-local storage has to fit into the
// space that the loader reserves for such libraries, and it must not be unloaded.
#include "library_in_use.h"

struct functions {
  void *lock, *trylock, *unlock;
};

static void* load(struct functions* functions, int flags) {
  const char* path = getenv("USHER_LIB");
  if (!path) skip_case("USHER_LIB is not set");
  void* library = dlopen(path, flags);
  if (!library) fail_case(__FILE__, __LINE__, "dlopen: %s", dlerror());
  functions->lock = dlsym(library, "pthread_mutex_lock");
  functions->trylock = dlsym(library, "pthread_mutex_trylock");
  functions->unlock = dlsym(library, "pthread_mutex_unlock");
  CHECK(lies_in_library(functions->lock));
  CHECK(lies_in_library(functions->trylock));
  CHECK(lies_in_library(functions->unlock));
  return library;
}

struct work {
  struct functions functions;
  pthread_mutex_t mutex;
  int inside;
  long count;
};

static void* work(void* argument) {
  struct work* work = argument;
  for (int i = 0; i < 500; ++i) {
    CHECK_OK(call_mutex_function(work->functions.lock, &work->mutex));
    CHECK(__atomic_exchange_n(&work->inside, 1, __ATOMIC_RELAXED) == 0);
    linger(++work->count);
    __atomic_store_n(&work->inside, 0, __ATOMIC_RELAXED);
    CHECK_OK(call_mutex_function(work->functions.unlock, &work->mutex));
  }
  return NULL;
}

struct way_to_load {
  const char* name;
  int flags;
};
static const struct way_to_load ways_to_load[] = {
    {"now", RTLD_NOW | RTLD_LOCAL}, {"lazy", RTLD_LAZY | RTLD_LOCAL}, {"global", RTLD_NOW | RTLD_GLOBAL}};

CASE_FOR(loaded_by_dlopen, struct way_to_load, way, ways_to_load) {
  static struct work all = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  void* library = load(&all.functions, way->flags);
  run_threads(4, work, &all, 0);
  CHECK_NUMBER(all.count, 4 * 500);
  CHECK_OK(call_mutex_function(all.functions.lock, &all.mutex));
  CHECK_CODE(call_mutex_function(all.functions.trylock, &all.mutex), EBUSY);
  CHECK_OK(call_mutex_function(all.functions.unlock, &all.mutex));
  // dlclose() must have no effect: threads still use the library.
  CHECK(dlclose(library) == 0);
  all.count = 0;
  run_threads(4, work, &all, 0);
  CHECK_NUMBER(all.count, 4 * 500);
  struct functions again;
  load(&again, way->flags);
  CHECK(again.lock == all.functions.lock);
}

static void* use_after_load(void* argument) {
  struct work* all = argument;
  all->inside = 0;
  return work(argument);
}

// The body of a thread that exists before the library is loaded. The loader laid out the thread's thread-local storage
// without that of the library.
static int loaded;
static void* wait_and_use(void* argument) {
  await_flag(&loaded, 1);
  return use_after_load(argument);
}

CASE(older_threads_use_it) {
  static struct work all = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  pthread_t thread = start_thread(wait_and_use, &all);
  load(&all.functions, RTLD_NOW);
  flag_set(&loaded, 1);
  join_thread(thread);
  CHECK_NUMBER(all.count, 500);
}
