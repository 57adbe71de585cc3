/* Waits below code that the program made at run time, as just-in-time compilers do: no unwind tables, no symbol, a frame
 * pointer. The stack is above_generated -> the made code -> below_generated -> pthread_mutex_lock. */
#include "ready.h"

#include <sys/mman.h>

#define kept __attribute__((noinline))

typedef void* function(void*);
typedef void* calling(function*, void*);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static calling* made;

#if defined(__x86_64__)
static const unsigned char code[] = {
    0x55,             /* push %rbp */
    0x48, 0x89, 0xe5, /* mov  %rsp, %rbp */
    0x48, 0x89, 0xf8, /* mov  %rdi, %rax */
    0x48, 0x89, 0xf7, /* mov  %rsi, %rdi */
    0xff, 0xd0,       /* call *%rax */
    0x5d,             /* pop  %rbp */
    0xc3,             /* ret */
};
#elif defined(__aarch64__)
static const uint32_t code[] = {
    0xa9bf7bfd, /* stp x29, x30, [sp, #-16]! */
    0x910003fd, /* mov x29, sp */
    0xaa0003e9, /* mov x9, x0 */
    0xaa0103e0, /* mov x0, x1 */
    0xd63f0120, /* blr x9 */
    0xa8c17bfd, /* ldp x29, x30, [sp], #16 */
    0xd65f03c0, /* ret */
};
#else
#error "no code for this processor"
#endif

static kept void* below_generated(void* m) {
  pthread_mutex_lock(m);
  __asm__ volatile("" ::: "memory");
  return m;
}

static kept void* above_generated(void* m) {
  void* result = made(below_generated, m);
  __asm__ volatile("" ::: "memory");
  return result;
}

static kept void* holds_mutex(void* m) {
  pthread_mutex_lock(m);
  now_holds();
  sleep_for_ever();
  return m;
}

int main(void) {
  alarm(600);
  void* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) abort();
  memcpy(page, code, sizeof code);
  __builtin___clear_cache(page, (char*)page + sizeof code);
  if (mprotect(page, 4096, PROT_READ | PROT_EXEC) != 0) abort();
  memcpy(&made, &page, sizeof made);
  HOLDER(holds_mutex, &mutex);
  start("waiter", "below_generated above_generated", above_generated, &mutex);
  is_ready("generated", &mutex);
}
