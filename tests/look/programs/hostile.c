/* A process that is hostile to whoever looks at it: `hostile SEED LOG FOLDER`. Its threads lock, unmap and remap the
 * pages with the locks, write other threads' and other processes' ids into the owners, rename themselves, fork, end, and
 * the process executes itself anew.
 *
 * The locks have the words of glibc's mutexes and make its system calls, but the code is here: so LOG, a file that the
 * test reads, can tell exactly which owner a word may have named, and when: `names` is written before the word, and
 * `named` after it has another value. struct log and struct event are read by hostile.py. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { capacity = 1 << 19, page_size = 4096, slots = 6, lockers = 6, most_lives = 8 };
enum { names = 1, named = 2, begins = 3, ends = 4, executes = 5 };

struct event {
  uint64_t ns, address;
  uint32_t tid, named;
  uint32_t what, pid;
};

struct log {
  uint64_t magic, capacity;
  _Atomic uint64_t count;
  uint64_t unused[5];
  struct event events[capacity];
};

struct words {
  _Atomic uint32_t lock, count, owner, users, kind, spins;
};

static struct log* log_;
static struct words* slot[slots];
static int files[slots]; /* that a slot's page is mapped from; -1: none */
static char **self, *seed_text;
static _Atomic uint32_t victims[lockers]; /* ids of the process's own threads */
static __thread uint64_t state;           /* of random_below; never 0 */
static uint64_t seed;
static __thread sigjmp_buf on_fault;
static __thread volatile sig_atomic_t may_fault;

static uint32_t id(void) {
  return (uint32_t)syscall(SYS_gettid);
}

static uint32_t random_below(uint32_t n) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)(state >> 32) % n;
}

static void sleep_us(uint32_t us) {
  const struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};
  nanosleep(&t, NULL);
}

static void note(uint32_t what, const void* address, uint32_t who) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  const uint64_t i = log_->count++;
  if (i >= capacity) _exit(0);
  struct event* e = &log_->events[i];
  e->ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
  e->address = (uintptr_t)address;
  e->tid = id();
  e->named = who;
  e->pid = (uint32_t)getpid();
  __atomic_store_n(&e->what, what, __ATOMIC_RELEASE);
}

static void faulted(int number) {
  if (!may_fault) {
    signal(number, SIG_DFL);
    return;
  }
  may_fault = 0;
  siglongjmp(on_fault, 1);
}

/* ---- locks with the words of glibc's ---- */
static long wait_word(_Atomic uint32_t* word, uint32_t value, uint32_t us) {
  const struct timespec t = {.tv_nsec = (long)us * 1000};
  return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &t, NULL, 0);
}

static int take(struct words* w) {
  uint32_t free = 0;
  if (!atomic_compare_exchange_strong(&w->lock, &free, 1)) {
    for (int i = 0; i < 8; i++) {
      if (atomic_exchange(&w->lock, 2) == 0) break;
      wait_word(&w->lock, 2, 1000 + random_below(200000));
      if (i == 7) return 0;
    }
  }
  note(names, w, id());
  w->owner = id();
  w->users++;
  return 1;
}

static void release(struct words* w) {
  w->users--;
  w->owner = 0;
  note(named, w, id());
  if (atomic_exchange(&w->lock, 0) == 2) syscall(SYS_futex, &w->lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* The page was away: its words may still name `who` when it is back. */
static void stop_naming(struct words* w, uint32_t who) {
  while (sigsetjmp(on_fault, 1) != 0) sleep_us(1000);
  may_fault = 1;
  uint32_t owner = who, lock = who | FUTEX_WAITERS;
  atomic_compare_exchange_strong(&w->owner, &owner, 0);
  atomic_compare_exchange_strong(&w->lock, &lock, 0);
  may_fault = 0;
  note(named, w, who);
}

static uint32_t hold_us(void) {
  return random_below(8) == 0 ? 50000 + random_below(700000) : random_below(4000);
}

static void lock_once(void) {
  struct words* volatile w = slot[random_below(slots)];
  volatile int is_named = 0;
  if (sigsetjmp(on_fault, 1) == 0) {
    may_fault = 1;
    is_named = 1; /* take() may fault after it has written */
    if (take(w)) {
      sleep_us(hold_us());
      release(w);
    }
    is_named = 0;
    may_fault = 0;
  }
  if (is_named) stop_naming(w, id());
}

static void* locks(void* of) {
  const long me = (long)of;
  state = seed + (uint64_t)me * 0x9e3779b97f4a7c15;
  note(begins, NULL, id());
  victims[me] = id();
  for (;;) {
    lock_once();
    if (random_below(3) == 0) sleep_us(random_below(2000));
  }
  return NULL;
}

/* ---- the hostile threads ---- */
static uint32_t forged_owner(void) {
  switch (random_below(8)) {
    case 0:
      return 1;
    case 1:
      return (uint32_t)getppid();
    case 2:
      return (uint32_t)getpid();
    case 3:
      return random_below(1 << 22);
    case 4:
      return 0xffffffff - random_below(3);
    default:
      return victims[random_below(lockers)];
  }
}

/* Names another thread or process as the owner for a while, also in words that look like another kind of mutex. */
static void forge_once(void) {
  static const uint32_t kinds[] = {0, 1, 2, 3, 0x10, 0x20, 0x80, 0x90, 0x7f, 0xffffffff};
  struct words* volatile w = slot[random_below(slots)];
  volatile uint32_t owner = forged_owner();
  if (sigsetjmp(on_fault, 1) == 0) {
    may_fault = 1;
    note(names, w, owner);
    note(names, w, owner & FUTEX_TID_MASK);
    w->owner = owner;
    if (random_below(4) == 0) w->kind = kinds[random_below(sizeof kinds / sizeof *kinds)];
    if (random_below(8) == 0) w->lock = owner | FUTEX_WAITERS;
    sleep_us(random_below(60000));
    w->kind = 0;
    w->owner = 0;
    uint32_t still = owner | FUTEX_WAITERS;
    atomic_compare_exchange_strong(&w->lock, &still, 0);
  }
  may_fault = 0;
  stop_naming(w, owner);
  note(named, w, owner & FUTEX_TID_MASK);
}

static void map_again(int i) {
  if (files[i] >= 0)
    mmap(slot[i], page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, files[i], 0);
  else
    mmap(slot[i], page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void unmap_once(void) {
  const int i = (int)random_below(slots);
  void* page = slot[i];
  switch (random_below(4)) {
    case 0:
      munmap(page, page_size);
      sleep_us(random_below(3000));
      break;
    case 1:
      mprotect(page, page_size, PROT_NONE);
      sleep_us(random_below(3000));
      mprotect(page, page_size, PROT_READ | PROT_WRITE);
      return;
    case 2:
      madvise(page, page_size, MADV_DONTNEED);
      return;
    default: { /* moved away: the sleepers' words are elsewhere */
      void* other = mmap(NULL, page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (other != MAP_FAILED && mremap(page, page_size, page_size, MREMAP_MAYMOVE | MREMAP_FIXED, other) == other) {
        sleep_us(random_below(3000));
        munmap(other, page_size);
      }
    }
  }
  map_again(i);
}

static const char* const hostile_names[] = {
    "\x1b[2J\x1b[31mred",
    "\x1b]0;title\a",
    "<script>x</script",
    "</td><img src=x",
    "\xe2\x80\xae"
    "desrever",
    "\r\nroot: owned",
    "\xff\xfe\x80",
    "\"}],\"a\":[{\"",
    "a\tb\bc\x7f",
    "%s%n%1000000d",
    "\xe2\x80\x8b\xe2\x80\x8f",
    "",
    "(x) R 1 1 1 1",
    "{0:{1}}",
    "\xc2\x9b"
    "31m",
};
enum { name_count = sizeof hostile_names / sizeof *hostile_names };

static void* ends_soon(void* nothing) {
  state = (uintptr_t)&nothing ^ id() ^ 0x9e3779b97f4a7c15;
  note(begins, NULL, id());
  prctl(PR_SET_NAME, hostile_names[random_below(name_count)]);
  lock_once();
  note(ends, NULL, id());
  return NULL;
}

static void fork_once(void) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(5);
    syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = (long)random_below(30000000)}, NULL);
    _exit(0);
  }
  if (child > 0) waitpid(child, NULL, 0);
}

static void start_one_that_ends(void) {
  pthread_t thread;
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  pthread_create(&thread, &detached, ends_soon, NULL);
}

static void* troubles(void* of) {
  state = seed + (uintptr_t)of;
  note(begins, NULL, id());
  for (;;) {
    switch (random_below(7)) {
      case 0:
      case 1:
        forge_once();
        break;
      case 2:
      case 3:
        unmap_once();
        break;
      case 4:
        prctl(PR_SET_NAME, hostile_names[random_below(name_count)]);
        break;
      case 5:
        fork_once();
        break;
      default:
        start_one_that_ends();
    }
    sleep_us(random_below(20000));
  }
  return NULL;
}

/* ---- names of files, and the command line ---- */

/* A file below folders whose names are hostile, too; `depth` folders of 250 bytes. The memory of a slot is mapped from
 * it, executable now and then: so it counts as a module. */
static int file_with_hostile_name(const char* folder, int depth) {
  const int back = open(".", O_RDONLY | O_DIRECTORY);
  if (back < 0 || chdir(folder) != 0) return -1;
  for (int i = 0; i < depth; i++) {
    char name[251];
    memset(name, 'x', 250);
    name[250] = 0;
    memcpy(name, "\x1b[31m<b>\xe2\x80\xae\n", 12);
    mkdir(name, 0700);
    if (chdir(name) != 0) break;
  }
  const int file =
      open("lib\x1b]0;x\a\xff<i>\xe2\x80\xae.so (deleted)\nffff-0 rwxp", O_RDWR | O_CREAT | O_CLOEXEC, 0700);
  if (file >= 0 && ftruncate(file, page_size) != 0) abort();
  if (fchdir(back) != 0) abort();
  close(back);
  return file;
}

static void make_slots(const char* folder) {
  for (int i = 0; i < slots; i++) {
    files[i] = i == 0 ? file_with_hostile_name(folder, 1) : i == 1 ? file_with_hostile_name(folder, 40) : -1;
    slot[i] =
        mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | (files[i] < 0 ? MAP_ANONYMOUS : 0), files[i], 0);
    if (slot[i] == MAP_FAILED) abort();
    if (files[i] >= 0) mmap(NULL, page_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, files[i], 0);
  }
}

static void execute_again(void) {
  static char long_name[10001];
  for (int i = 0; i < 10000; i++) long_name[i] = "\x1b[1m<u>\n\xe2\x80\xae"[i % 11];
  char seed[32];
  snprintf(seed, sizeof seed, "%llu", strtoull(seed_text, NULL, 10) + 1000003);
  execl("/proc/self/exe", long_name, seed, self[2], self[3], (char*)NULL);
  _exit(1);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  self = argv;
  seed_text = argv[1];
  if (!getenv("HOSTILE_LIFE")) alarm(60); /* an alarm goes on after exec */
  const int life = getenv("HOSTILE_LIFE") ? atoi(getenv("HOSTILE_LIFE")) : 0;
  char next[16];
  snprintf(next, sizeof next, "%d", life + 1);
  setenv("HOSTILE_LIFE", next, 1);
  const int file = open(argv[2], O_RDWR | O_CLOEXEC);
  if (file < 0 || ftruncate(file, sizeof(struct log)) != 0) return 2;
  log_ = mmap(NULL, sizeof *log_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (log_ == MAP_FAILED) return 2;
  log_->capacity = capacity;
  log_->magic = 0x656c6974736f68;
  const struct sigaction on_fault_do = {.sa_handler = faulted, .sa_flags = SA_NODEFER};
  sigaction(SIGSEGV, &on_fault_do, NULL);
  sigaction(SIGBUS, &on_fault_do, NULL);
  state = seed = strtoull(seed_text, NULL, 10) * 0x9e3779b97f4a7c15 + 1;
  if (life != 0) note(executes, NULL, 0); /* until now the old threads ran */
  note(begins, NULL, id());
  make_slots(argv[3]);
  pthread_t thread;
  for (long i = 0; i < lockers; i++) pthread_create(&thread, NULL, locks, (void*)i);
  for (int i = 0; i < 2; i++) pthread_create(&thread, NULL, troubles, (void*)(uintptr_t)(77777 + i));
  puts("ready");
  fflush(stdout);
  sleep_us(200000 + random_below(3000000));
  if (life < most_lives) execute_again();
  return 0;
}
