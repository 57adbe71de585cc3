// A library to be preloaded: a simple heap behind one pthread mutex, as many allocators have. The loader itself
// allocates from this heap before any constructor runs. If a lock call allocates, it enters the allocator again, and
// the allocator reports this.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

long lock_rounds_of_allocator(void);
void* memalign(size_t alignment, size_t size);

static pthread_mutex_t heap_mutex = PTHREAD_MUTEX_INITIALIZER;
static char* heap;
static size_t used;
static long rounds;
static __thread int inside __attribute__((tls_model("initial-exec")));

enum { heap_size = 256 << 20 };

struct header {
  size_t size;
  size_t padding;
};

static struct header* free_lists[64];

long lock_rounds_of_allocator(void) {
  return __atomic_load_n(&rounds, __ATOMIC_RELAXED);
}

static void enter(void) {
  if (inside++) {
    static const char message[] = "entered the allocator from the allocator's own lock\n";
    ssize_t ignored = write(2, message, sizeof message - 1);
    (void)ignored;
    _exit(99);
  }
  if (pthread_mutex_lock(&heap_mutex) != 0) _exit(98);
  ++rounds;
}

static void leave(void) {
  if (pthread_mutex_unlock(&heap_mutex) != 0) _exit(97);
  --inside;
}

static int list_of(size_t size) {
  const size_t steps = (size + 15) / 16;
  return steps < 64 ? (int)steps : 0;
}

static void* take(size_t alignment, size_t size) {
  enter();
  if (!heap) {
    heap = mmap(NULL, heap_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (heap == MAP_FAILED) _exit(96);
  }
  const int list = alignment <= 16 ? list_of(size) : 0;
  struct header* block = list > 0 ? free_lists[list] : NULL;
  if (block) {
    memcpy(&free_lists[list], (void*)(block + 1), sizeof(struct header*));
  } else {
    size_t at = used + sizeof *block;
    at = (at + alignment - 1) / alignment * alignment;
    used = at + (size + 15) / 16 * 16;
    if (used > heap_size) _exit(95);
    block = (struct header*)(void*)(heap + at) - 1;
  }
  block->size = size;
  leave();
  return block + 1;
}

void* malloc(size_t size) {
  return take(16, size);
}

void free(void* pointer) {
  if (!pointer) return;
  struct header* block = (struct header*)pointer - 1;
  const int list = list_of(block->size);
  if (list == 0) return;  // blocks of this list are never reused
  enter();
  memcpy((void*)(block + 1), &free_lists[list], sizeof(struct header*));
  free_lists[list] = block;
  leave();
}

void* calloc(size_t number, size_t size) {
  void* block = malloc(number * size);
  // The pointer is volatile because otherwise the compiler replaces malloc and memset by calloc, so that calloc would
  // call itself.
  void* (*volatile fill)(void*, int, size_t) = memset;
  return fill(block, 0, number * size);
}

void* realloc(void* pointer, size_t size) {
  if (!pointer) return malloc(size);
  const size_t old = ((struct header*)pointer - 1)->size;
  void* block = malloc(size);
  memcpy(block, pointer, old < size ? old : size);
  free(pointer);
  return block;
}

void* memalign(size_t alignment, size_t size) {
  return take(alignment < 16 ? 16 : alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}
int posix_memalign(void** block, size_t alignment, size_t size) {
  *block = memalign(alignment, size);
  return 0;
}

// As in other allocators, the handlers of fork() hold the mutex during the fork, so that the heap is consistent in the
// child.
static void before_fork(void) {
  enter();
}
static void after_fork(void) {
  leave();
}
__attribute__((constructor)) static void register_handlers(void) {
  pthread_atfork(before_fork, after_fork, after_fork);
}
