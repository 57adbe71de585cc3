// A library to be preloaded: the C library's allocator, with a counter of a thread's allocations. count_allocations()
// starts and stops the counter.
#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* block, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void* block);

void count_allocations(int on);
long allocations_counted(void);
void* memalign(size_t alignment, size_t size);

// This thread-local variable is accessed without a function call. It is set only in the thread whose lock calls are
// tested, so that allocations of other threads, for example to create threads, are not counted.
static __thread int counting __attribute__((tls_model("initial-exec")));
static long counted;

void count_allocations(int on) {
  counting = on;
}
long allocations_counted(void) {
  return __atomic_load_n(&counted, __ATOMIC_RELAXED);
}

static void count(void) {
  if (counting) __atomic_add_fetch(&counted, 1, __ATOMIC_RELAXED);
}

void* malloc(size_t size) {
  count();
  return __libc_malloc(size);
}
void* calloc(size_t number, size_t size) {
  count();
  return __libc_calloc(number, size);
}
void* realloc(void* block, size_t size) {
  count();
  return __libc_realloc(block, size);
}
void free(void* block) {
  count();
  __libc_free(block);
}
void* memalign(size_t alignment, size_t size) {
  count();
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}
int posix_memalign(void** block, size_t alignment, size_t size) {
  *block = memalign(alignment, size);
  return *block ? 0 : 12;  // ENOMEM; errno is unchanged
}
