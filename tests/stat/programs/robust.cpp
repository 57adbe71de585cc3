// Cases that a recording must survive: large numbers of objects, threads and processes, all ways in which a program can
// end, signal handlers, cancellation.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "planted.hpp"

namespace planted {

namespace {
pthread_mutex_t shared_mutex = PTHREAD_MUTEX_INITIALIZER;
tally shared_figures("shared_mutex"), made_figures("made");

[[gnu::noinline]] void contend(int threads, int rounds, std::int64_t hold) {
  in_threads(threads, [=](int) {
    for (int i = 0; i < rounds; ++i) {
      const auto called = now();
      pthread_mutex_lock(&shared_mutex);  // mark: shared waits
      const auto returned = now();
      busy(hold);
      const auto released = now();
      pthread_mutex_unlock(&shared_mutex);  // mark: shared released
      shared_figures.round(called, returned, released);
      busy(50 * us);
    }
  });
}
}  // namespace

// -- numbers --

/// Makes and destroys 10^5 mutexes, of which some dozens exist at a time. Then threads contend for one more mutex.
void made_and_destroyed() {
  constexpr int at_once = 50, rounds = 1000;
  in_threads(2, [](int) {
    for (int i = 0; i < rounds; ++i) {
      std::vector<pthread_mutex_t> some(at_once);
      for (auto& one : some) pthread_mutex_init(&one, nullptr);  // mark: made
      for (auto& one : some) {
        pthread_mutex_lock(&one);
        pthread_mutex_unlock(&one);
      }
      for (auto& one : some) pthread_mutex_destroy(&one);
    }
  });
  made_figures.say("objects", 2 * at_once * rounds);
  contend(3, 20, 1 * ms);
}

/// Locks 10^5 mutexes that exist on the heap at the same time, without init or destroy.
void many_at_once() {
  constexpr std::size_t all = 100000;
  contend(3, 20, 1 * ms);
  {
    std::vector<std::mutex> many(all);
    for (auto& one : many) std::lock_guard{one};  // mark: many
  }
  made_figures.say("objects", all);
}

/// First 10^5 mutexes are locked, which continue to exist. Then threads contend for another mutex.
void hot_after_many() {
  constexpr std::size_t all = 100000;
  std::vector<std::mutex> many(all);
  for (auto& one : many) std::lock_guard{one};
  in_threads(3, [&](int) {
    for (int i = 0; i < 60; ++i) {
      std::lock_guard lock{many.back()};
      busy(1 * ms);
    }
  });
}

/// A thousand threads live at the same time.
void thousand_threads() {
  constexpr int threads = 1000;
  struct everything {
    pthread_barrier_t all;
  } the{};
  pthread_barrier_init(&the.all, nullptr, threads);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 << 10);
  std::vector<pthread_t> ids(threads);
  for (auto& id : ids) {
    const auto body = [](void* all) -> void* {
      pthread_barrier_wait(static_cast<pthread_barrier_t*>(all));
      for (int i = 0; i < 5; ++i) {
        const auto called = now();
        pthread_mutex_lock(&shared_mutex);  // mark: a thousand wait
        const auto returned = now();
        busy(10 * us);
        if (i == 0) sched_yield();  // so that other threads find it held, even on one CPU
        const auto released = now();
        pthread_mutex_unlock(&shared_mutex);
        shared_figures.round(called, returned, released);
      }
      return nullptr;
    };
    if (pthread_create(&id, &small, body, &the.all) != 0) std::abort();
  }
  for (const auto id : ids) pthread_join(id, nullptr);
  shared_figures.say("threads", threads);
}

// -- processes --

/// After a fork, threads of the child contend for the child's copy of a mutex. Threads of the parent contend for the
/// original before the fork and after the child's end.
void forked() {
  contend(2, 20, 1 * ms);
  if (const pid_t child = fork(); child == 0) {
    contend(3, 30, 1 * ms);
    contend(3, 0, 0);
    _exit(0);
  } else {
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) std::abort();
  }
  contend(2, 20, 1 * ms);
  shared_figures.say("childs", 90);
}

/// The program executes itself again until `argument` programs have run in this process. Each makes a few lock calls;
/// in the last one threads contend.
void chain() {
  for (int i = 0; i < 10; ++i) {
    pthread_mutex_lock(&shared_mutex);
    pthread_mutex_unlock(&shared_mutex);
  }
  if (argument > 1) {
    execl(program, program, "chain", std::to_string(argument - 1).c_str(), nullptr);
    std::abort();
  }
  contend(3, 20, 1 * ms);
}

/// Forks `argument` short-lived processes, one after the other.
void processes() {
  for (int i = 0; i < argument; ++i) {
    const pid_t child = fork();
    if (child == 0) execl(program, program, "tries", nullptr);
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) std::abort();
  }
  contend(3, 20, 1 * ms);
}

// -- sandboxes --

namespace {
/// Installs a seccomp filter that kills the process if it opens a file, or reads or writes a process's memory by a
/// system call.
void enter_sandbox() {
  sock_filter filter[16];
  unsigned short n = 0;
  filter[n++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (const unsigned call : {SYS_openat, SYS_openat2, SYS_readlinkat, SYS_memfd_create, SYS_process_vm_readv,
                              SYS_process_vm_writev, SYS_getcwd}) {
    filter[n++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    filter[n++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  }
  filter[n++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_fprog all{n, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) != 0)
    std::abort();
}
}  // namespace

/// The process makes its first lock call after it has entered the sandbox.
void sandboxed() {
  enter_sandbox();
  contend(3, 20, 1 * ms);
}

// -- ends --

void aborts() {
  contend(3, 20, 1 * ms);
  print();
  std::abort();
}

void killed() {
  contend(3, 20, 1 * ms);
  print();
  raise(SIGKILL);
}

// -- signal handlers --

namespace {
sem_t posted;
tally posted_figures("posted");
volatile std::sig_atomic_t posts = 0;

void post(int) {
  posts = posts + 1;
  sem_post(&posted);
}
}  // namespace

/// A signal handler posts a semaphore while the thread that it interrupts makes lock calls. Another thread takes all
/// credits.
void handler_posts() {
  sem_init(&posted, 0, 0);
  struct sigaction action {};
  action.sa_handler = post;
  sigaction(SIGALRM, &action, nullptr);
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarms, nullptr);
  const itimerval each{{0, 1000}, {0, 1000}}, never{};
  std::atomic<long> all{-1};
  in_threads(3, [&](int self) {
    if (self == 0) {  // signals interrupt only this thread
      pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
      setitimer(ITIMER_REAL, &each, nullptr);
      for (const std::int64_t end = now() + 200 * ms; now() < end;) {
        pthread_mutex_lock(&shared_mutex);
        pthread_mutex_unlock(&shared_mutex);
      }
      setitimer(ITIMER_REAL, &never, nullptr);
      pthread_sigmask(SIG_BLOCK, &alarms, nullptr);
      all = posts + 1;
      sem_post(&posted);
    } else if (self == 1) {
      while (all < 0) {
        pthread_mutex_lock(&shared_mutex);
        pthread_mutex_unlock(&shared_mutex);
      }
    } else {
      for (long taken = 0; taken != all; ++taken)
        while (sem_wait(&posted) != 0) {  // mark: for the handler
        }
    }
  });
  posted_figures.say("posts", static_cast<std::uint64_t>(all));
}

namespace {
sem_t between;
tally between_figures("between");

void fork_here(int) {
  const int saved = errno;
  if (const pid_t child = fork(); child > 0) waitpid(child, nullptr, 0);
  // Parent and child return from the handler into the interrupted wait.
  errno = saved;
}
}  // namespace

/// A signal handler forks while its thread waits for a lock. Parent and child must both return from this wait.
void handler_forks() {
  constexpr int rounds = 10;
  struct sigaction action {};
  action.sa_handler = fork_here;
  sigaction(SIGUSR1, &action, nullptr);
  sem_init(&between, 0, 0);
  for (int i = 0; i < rounds; ++i) {
    std::atomic<pid_t> waiter{0};
    const pid_t parent = getpid();
    in_threads(2, [&](int self) {
      if (self == 0) {
        waiter = thread_id();
        const int result = sem_wait(&between);  // mark: forks in between
        if (getpid() != parent) _exit(0);
        while (result != 0 && sem_wait(&between) != 0) {
        }
      } else {
        await_asleep(waiter);
        syscall(SYS_tgkill, parent, waiter.load(), SIGUSR1);
        sleep_for(2 * ms);  // the handler forks meanwhile, and usually the child ends
        sem_post(&between);
      }
    });
  }
  between_figures.say("posts", rounds);
}

// -- cancellation --

namespace {
pthread_mutex_t cancel_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t never_signalled = PTHREAD_COND_INITIALIZER;
sem_t never_posted;
tally never_figures("never");
std::atomic<pid_t> cancel_thread{0};

void* wait_for_ever(void* on_semaphore) {
  if (on_semaphore) {
    cancel_thread = thread_id();
    sem_wait(&never_posted);  // mark: for ever
  } else {
    pthread_mutex_lock(&cancel_mutex);
    pthread_cleanup_push([](void* mutex) { pthread_mutex_unlock(static_cast<pthread_mutex_t*>(mutex)); },
                         &cancel_mutex);
    cancel_thread = thread_id();
    pthread_cond_wait(&never_signalled, &cancel_mutex);
    pthread_cleanup_pop(1);
  }
  return nullptr;
}
}  // namespace

/// Cancels threads while they wait; the mutex and the semaphore must still work.
void cancelled() {
  constexpr int rounds = 20;
  sem_init(&never_posted, 0, 0);
  for (int i = 0; i < 2 * rounds; ++i) {
    pthread_t thread{};
    cancel_thread = 0;
    if (pthread_create(&thread, nullptr, wait_for_ever, i % 2 == 0 ? &never_posted : nullptr) != 0) std::abort();
    await_asleep(cancel_thread);
    pthread_cancel(thread);
    void* result = nullptr;
    pthread_join(thread, &result);
    if (result != PTHREAD_CANCELED) std::abort();
  }
  sem_post(&never_posted);
  if (sem_wait(&never_posted) != 0) std::abort();
  contend(3, 20, 1 * ms);
  pthread_mutex_lock(&cancel_mutex);
  pthread_mutex_unlock(&cancel_mutex);
  never_figures.say("waits", rounds);
  never_figures.say("cancel_mutex", rounds + 1);
}

void nothing() {
  made_figures.say("objects", 0);
}

}  // namespace planted
