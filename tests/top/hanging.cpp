// Threads that wait for what the argument names, for ever: the targets of test_top.py. The program says "ready" when all
// of its threads are about to wait; whether they do is for the test to see.
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

pthread_mutex_t first_mutex = PTHREAD_MUTEX_INITIALIZER, second_mutex = PTHREAD_MUTEX_INITIALIZER, typed_mutex;
pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
pthread_barrier_t barrier;
pthread_once_t once = PTHREAD_ONCE_INIT;
sem_t semaphore;
int pipe_ends[2];

namespace {

std::vector<std::thread> threads;

void begin(const char* name, const std::function<void()>& work) {
  threads.emplace_back([=] {
    prctl(PR_SET_NAME, name);
    work();
  });
}

[[gnu::noinline]] void hold_for_ever() {
  for (;;) pause();
}

/// A thread holds the mutex, and then another wants it.
void hold_and_want(pthread_mutex_t* m) {
  pthread_barrier_init(&barrier, nullptr, 2);
  begin("holder", [=] {
    pthread_mutex_lock(m);
    pthread_barrier_wait(&barrier);
    hold_for_ever();
  });
  begin("waiter", [=] {
    pthread_barrier_wait(&barrier);
    pthread_mutex_lock(m);
  });
}

void typed(int type, bool is_robust, int protocol, bool is_shared) {
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_settype(&a, type);
  if (is_robust) pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
  pthread_mutexattr_setprotocol(&a, protocol);
  if (is_shared) pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&typed_mutex, &a);
  hold_and_want(&typed_mutex);
}

void deadlock() {
  pthread_barrier_init(&barrier, nullptr, 2);
  const auto both = [](pthread_mutex_t* a, pthread_mutex_t* b) {
    pthread_mutex_lock(a);
    pthread_barrier_wait(&barrier);
    pthread_mutex_lock(b);
  };
  begin("left", [=] { both(&first_mutex, &second_mutex); });
  begin("right", [=] { both(&second_mutex, &first_mutex); });
}

/// last waits for middle, which waits for first, which reads from a pipe.
void chain() {
  pthread_barrier_init(&barrier, nullptr, 3);
  if (pipe(pipe_ends) != 0) abort();
  begin("in-pipe", [] {
    pthread_mutex_lock(&first_mutex);
    pthread_barrier_wait(&barrier);
    char byte;
    if (read(pipe_ends[0], &byte, 1) < 0) abort();
  });
  begin("middle", [] {
    pthread_mutex_lock(&second_mutex);
    pthread_barrier_wait(&barrier);
    pthread_mutex_lock(&first_mutex);
  });
  begin("last", [] {
    pthread_barrier_wait(&barrier);
    pthread_mutex_lock(&second_mutex);
  });
}

void rwlock_held(bool to_write, bool is_wanted_to_write) {
  pthread_barrier_init(&barrier, nullptr, 2);
  begin("holder", [=] {
    to_write ? pthread_rwlock_wrlock(&rwlock) : pthread_rwlock_rdlock(&rwlock);
    pthread_barrier_wait(&barrier);
    hold_for_ever();
  });
  begin("waiter", [=] {
    pthread_barrier_wait(&barrier);
    is_wanted_to_write ? pthread_rwlock_wrlock(&rwlock) : pthread_rwlock_rdlock(&rwlock);
  });
}

/// A futex directly behind a page whose reader waits for ever.
void block_readers() {
  const long file = syscall(SYS_userfaultfd, O_CLOEXEC);
  uffdio_api version{};
  version.api = UFFD_API;
  auto* const pages =
      static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  uffdio_register range{};
  range.range = {reinterpret_cast<std::uintptr_t>(pages), 4096};
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (file < 0 || ioctl(static_cast<int>(file), UFFDIO_API, &version) != 0 ||
      ioctl(static_cast<int>(file), UFFDIO_REGISTER, &range) != 0) {
    puts("no right");
    exit(0);
  }
  pages[4096] = 0;
  begin("waiter", [pages] {
    for (;;) syscall(SYS_futex, pages + 4096, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
  });
}

/// The other process of a shared mutex holds it. `names_stranger`: its word names the parent process, which does not map
/// it, as after the end of the holder.
void shared_with_child(bool names_stranger) {
  auto* const m =
      static_cast<pthread_mutex_t*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(m, &a);
  int said[2];
  char byte = 0;
  if (pipe(said) != 0) abort();
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_mutex_lock(m);
    if (write(said[1], &byte, 1) != 1) abort();
    hold_for_ever();
  }
  if (read(said[0], &byte, 1) != 1) abort();
  if (names_stranger) m->__data.__owner = getppid();
  begin("waiter", [m] { pthread_mutex_lock(m); });
}

void lost_wake_up() {
  // The word says that nobody holds the mutex, and nobody will wake the thread.
  hold_and_want(&first_mutex);
  begin("thief", [] {
    usleep(300000);
    __atomic_store_n(&first_mutex.__data.__lock, 0, __ATOMIC_SEQ_CST);
    first_mutex.__data.__owner = 0;
    first_mutex.__data.__nusers = 0;
    hold_for_ever();
  });
}

[[gnu::noinline]] void inner_of_once() {
  hold_for_ever();
}

void start(const std::string& what) {
  if (what == "mutex") hold_and_want(&first_mutex);
  if (what == "recursive") typed(PTHREAD_MUTEX_RECURSIVE, false, PTHREAD_PRIO_NONE, false);
  if (what == "errorcheck") typed(PTHREAD_MUTEX_ERRORCHECK, false, PTHREAD_PRIO_NONE, false);
  if (what == "adaptive") typed(PTHREAD_MUTEX_ADAPTIVE_NP, false, PTHREAD_PRIO_NONE, false);
  if (what == "robust") typed(PTHREAD_MUTEX_NORMAL, true, PTHREAD_PRIO_NONE, false);
  if (what == "pi") typed(PTHREAD_MUTEX_NORMAL, false, PTHREAD_PRIO_INHERIT, false);
  if (what == "shared") typed(PTHREAD_MUTEX_NORMAL, false, PTHREAD_PRIO_NONE, true);
  if (what == "blocks-readers") block_readers();
  if (what == "shared-child") shared_with_child(false);
  if (what == "shared-stranger") shared_with_child(true);
  if (what == "deadlock") deadlock();
  if (what == "chain") chain();
  if (what == "lost") lost_wake_up();
  if (what == "self") begin("alone", [] { pthread_mutex_lock(&first_mutex), pthread_mutex_lock(&first_mutex); });
  if (what == "rwlock-read") rwlock_held(true, false);
  if (what == "rwlock-write") rwlock_held(false, true);
  if (what == "condition")
    begin("waiter", [] {
      pthread_mutex_lock(&first_mutex);
      for (;;) pthread_cond_wait(&condition, &first_mutex);
    });
  if (what == "semaphore") {
    sem_init(&semaphore, 0, 0);
    begin("waiter", [] { sem_wait(&semaphore); });
  }
  if (what == "barrier") {
    pthread_barrier_init(&barrier, nullptr, 2);
    begin("waiter", [] { pthread_barrier_wait(&barrier); });
  }
  if (what == "join")
    begin("waiter", [] {
      pthread_t other;
      pthread_create(
          &other, nullptr,
          [](void*) -> void* {
            prctl(PR_SET_NAME, "joined");
            hold_for_ever();
            return nullptr;
          },
          nullptr);
      pthread_join(other, nullptr);
    });
  if (what == "once")
    for (const char* name : {"initialiser", "waiter"}) {
      begin(name, [] { pthread_once(&once, inner_of_once); });
      usleep(200000);
    }
  if (what == "pipe") {
    if (pipe(pipe_ends) != 0) abort();
    begin("waiter", [] {
      char byte;
      (void)!read(pipe_ends[0], &byte, 1);
    });
  }
  if (what == "flock") {
    std::FILE* const f = std::tmpfile();
    const std::string path = "/proc/self/fd/" + std::to_string(fileno(f));
    const int other = open(path.c_str(), O_RDWR);
    flock(fileno(f), LOCK_EX);
    begin("waiter", [other] { flock(other, LOCK_EX); });
  }
}

}  // namespace

int main(int, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  start(argv[1]);
  if (threads.empty()) return 2;
  std::puts("ready");
  std::fflush(stdout);
  hold_for_ever();
}
