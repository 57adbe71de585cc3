// Implements the threads of the soak, the watchdog's list of them, failures, time, and the objects that check
// themselves.
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "soak.hpp"
#include "watchdog.hpp"

namespace soak {

const char* const operation_names[operations] = {"mutex",  "timed-out", "cond",        "signal",      "sem",
                                                 "post",   "item",      "cancel",      "short-lived", "fork",
                                                 "thread", "eintr",     "handler-post"};
const char* const kind_names[4] = {"normal", "recursive", "error-checking", "adaptive"};
std::atomic<long> totals[operations];
settings set;
std::atomic<bool> stopping{false};
std::atomic<int> in_child{0};
watched watch_list[watch_places];

namespace {
std::atomic<int> names{0};
std::atomic<bool> failed{false};
}  // namespace

// ---- threads ---------------------------------------------------------------------------------------------------------

self::self(std::uint64_t seed) : random(seed), name(names.fetch_add(1) + 1), seen(nullptr) {
  for (int i = 0; seen == nullptr; i = (i + 1) % watch_places) {
    int nobody = 0;
    if (watch_list[i].tid.load() == 0 && watch_list[i].tid.compare_exchange_strong(nobody, kernel_thread_id()))
      seen = &watch_list[i];
  }
}

self::~self() {
  for (int i = 0; i < operations; ++i) totals[i].fetch_add(counts_[i], std::memory_order_relaxed);
  seen->what.store(nullptr);
  seen->tid.store(0);
}

waiting::waiting(self& me, const char* what, const void* object, int size, strictness s) : me_(me) {
  watched& w = *me.seen;
  w.object.store(object, std::memory_order_relaxed);
  w.object_size.store(size, std::memory_order_relaxed);
  w.strict.store(s == strict, std::memory_order_relaxed);
  w.since.store(now(), std::memory_order_relaxed);
  w.what.store(what, std::memory_order_release);
}

waiting::~waiting() {
  me_.seen->what.store(nullptr, std::memory_order_release);
}

int kernel_thread_id() {
  return static_cast<int>(syscall(SYS_gettid));
}

void signal_thread(int tid, int signal) {
  syscall(SYS_tgkill, getpid(), tid, signal);
}

bool asleep(int tid) {
  char name[64], text[512];
  snprintf(name, sizeof name, "/proc/self/task/%d/stat", tid);
  const int file = open(name, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return false;
  text[length] = '\0';
  const char* end = strrchr(text, ')');
  return end != nullptr && end[1] == ' ' && end[2] == 'S';
}

pthread_t start_thread(void* (*body)(void*), void* argument) {
  pthread_attr_t attributes;
  MUST(pthread_attr_init(&attributes));
  MUST(pthread_attr_setstacksize(&attributes, 256 * 1024));
  pthread_t thread;
  MUST(pthread_create(&thread, &attributes, body, argument));
  MUST(pthread_attr_destroy(&attributes));
  return thread;
}

void* team::run(void* argument) {
  member* m = static_cast<member*>(argument);
  self me(m->seed);
  me.count(op_thread);
  m->tid.store(kernel_thread_id());
  m->work(me);  // a cancellation may unwind it
  m->returned = true;
  return nullptr;
}

void team::start(body work) {
  auto m = std::make_unique<member>();
  m->work = std::move(work);
  m->seed = owner_.random.next();
  member* const p = m.get();
  members_.push_back(std::move(m));
  p->thread = start_thread(run, p);
}

void team::cancel(int i) {
  MUST(pthread_cancel(members_[i]->thread));
}

bool team::join(int i) {
  member& m = *members_[i];
  if (!m.joined) {
    // the helper itself waits under an entry of its own
    waiting w(owner_, "pthread_join of a helper", &m.thread, loose);
    void* result = nullptr;
    MUST(pthread_join(m.thread, &result));
    m.joined = true;
    REQUIRE(m.returned || result == PTHREAD_CANCELED, "a helper that did not return was joined as not cancelled");
  }
  return !m.returned;
}

void team::join_all() {
  for (int i = 0; i < size(); ++i) join(i);
}

void forget_other_threads(self& me) {
  for (watched& w : watch_list) {
    if (&w == me.seen) continue;
    w.what.store(nullptr);
    w.tid.store(0);
  }
  me.seen->tid.store(kernel_thread_id());
}

// ---- failing ---------------------------------------------------------------------------------------------------------

const char* code_name(int code) {
  const char* name = code == 0 ? "success" : strerrorname_np(code);
  return name != nullptr ? name : "an unknown code";
}

void print_watched(std::int64_t at) {
  for (const watched& w : watch_list) {
    const int tid = w.tid.load();
    if (tid == 0) continue;
    const char* what = w.what.load(std::memory_order_acquire);
    if (what == nullptr) {
      dprintf(2, "  thread %d runs (%s)\n", tid, asleep(tid) ? "asleep" : "awake");
      continue;
    }
    const void* object = w.object.load();
    const int size = w.object_size.load();
    dprintf(2, "  thread %d (%s) since %.3f s: %s %p%s", tid, asleep(tid) ? "asleep" : "awake",
            static_cast<double>(at - w.since.load()) / static_cast<double>(second), what, object,
            w.strict.load() ? " (strict)" : "");
    // Reads the object of a wait by process_vm_readv(), which returns an error, without a fault, if the memory is
    // unmapped.
    std::uint32_t words[16] = {};
    iovec to = {words, sizeof words}, from = {const_cast<void*>(object), static_cast<std::size_t>(size)};
    if (size > 0 && size <= static_cast<int>(sizeof words) && process_vm_readv(getpid(), &to, 1, &from, 1, 0) == size) {
      dprintf(2, ", words");
      for (int i = 0; i < size / 4; ++i) dprintf(2, " %x", words[i]);
    }
    dprintf(2, "\n");
  }
}

void fail(const char* file, int line, const char* format, ...) {
  const std::int64_t at = now();
  if (failed.exchange(true)) {
    if (in_child.load() != 0) _exit(3);
    for (;;) nap(second);  // the first failure is reported by another thread
  }
  char text[600];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const char* name = strrchr(file, '/');
  dprintf(2, "FAILED (seed %llu%s, process %d, thread %d, %s:%d): %s\n", static_cast<unsigned long long>(set.seed),
          in_child.load() ? ", in a child" : "", getpid(), kernel_thread_id(), name ? name + 1 : file, line, text);
  print_watched(at);
  if (set.stay)
    for (;;) nap(second);  // the process stays for a debugger
  if (in_child.load() != 0) _exit(3);
  signal(SIGABRT, SIG_DFL);
  abort();
}

// ---- time ------------------------------------------------------------------------------------------------------------

std::int64_t now(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * second + t.tv_nsec;
}

timespec to_timespec(std::int64_t t) {
  return {static_cast<time_t>(t / second), static_cast<long>(t % second)};
}

std::int64_t some_deadline(self& me, clockid_t clock) {
  const int way = me.random.below(10);
  if (way == 0) return 0;  // long ago
  if (way == 1) return now(clock) - 1;
  if (way < 6) return now(clock) + me.random.below(200) * microsecond;
  if (way < 9) return now(clock) + me.random.below(5000) * microsecond;
  return now(clock) + me.random.below(50) * millisecond;
}

void spin_for(std::int64_t ns) {
  const std::int64_t end = now() + ns;
  while (now() < end) {
  }
}

void nap(std::int64_t ns) {
  const timespec t = to_timespec(ns);
  nanosleep(&t, nullptr);
}

// ---- objects ---------------------------------------------------------------------------------------------------------

namespace {
constexpr std::size_t page_size = 4096;
constexpr unsigned char rubbish = 0x5a;
}  // namespace

page::page(random_source& random) : offset_(8 * random.below(500)), way_(random.below(3)) {
  void* p = mmap(nullptr, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(p != MAP_FAILED, "mmap: %s", code_name(errno));
  base_ = static_cast<unsigned char*>(p);
}

void page::vanish() {
  // Unmaps the page; or makes it inaccessible, so that its address is not used again; or overwrites it, so that a later
  // write can be detected.
  if (way_ == 0) {
    munmap(base_, page_size);
  } else if (way_ == 1) {
    mprotect(base_, page_size, PROT_NONE);
  } else {
    memset(base_, rubbish, page_size);
  }
  gone_ = true;
}

page::~page() {
  if (gone_ && way_ == 2)
    for (std::size_t i = 0; i < page_size; ++i)
      REQUIRE(base_[i] == rubbish, "byte %d of an object was written to after its end", static_cast<int>(i) - offset_);
  if (!gone_ || way_ != 0) munmap(base_, page_size);
}

void make_mutex(pthread_mutex_t* mutex, kind k, random_source& random) {
  static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
                              PTHREAD_MUTEX_ADAPTIVE_NP};
  static const pthread_mutex_t initialisers[] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
                                                 PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP,
                                                 PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP};
  const int way = random.below(3);
  if (way == 0) {
    memcpy(mutex, &initialisers[static_cast<int>(k)], sizeof *mutex);
  } else if (way == 1 && k == kind::normal) {
    MUST(pthread_mutex_init(mutex, nullptr));
  } else {
    pthread_mutexattr_t attributes;
    MUST(pthread_mutexattr_init(&attributes));
    MUST(pthread_mutexattr_settype(&attributes, types[static_cast<int>(k)]));
    MUST(pthread_mutex_init(mutex, &attributes));
    MUST(pthread_mutexattr_destroy(&attributes));
  }
}

void make_cond(pthread_cond_t* cond, clockid_t clock, random_source& random) {
  static const pthread_cond_t initialiser = PTHREAD_COND_INITIALIZER;
  if (clock == CLOCK_REALTIME && random.percent(50)) {
    if (random.percent(50)) {
      memcpy(cond, &initialiser, sizeof *cond);
    } else {
      MUST(pthread_cond_init(cond, nullptr));
    }
    return;
  }
  pthread_condattr_t attributes;
  MUST(pthread_condattr_init(&attributes));
  MUST(pthread_condattr_setclock(&attributes, clock));
  MUST(pthread_cond_init(cond, &attributes));
  MUST(pthread_condattr_destroy(&attributes));
}

void guarded::make(random_source& random) {
  make(random, static_cast<kind>(random.below(4)));
}

void guarded::make(random_source& random, kind k) {
  mutex_.place(random);
  kind_ = k;
  make_mutex(mutex(), k, random);
}

void guarded::destroy() {
  MUST(pthread_mutex_destroy(mutex()));
}

void guarded::given(self& me) {
  entered_ = seen_ + 1;
  const int owner = owner_.exchange(0, std::memory_order_relaxed);
  REQUIRE(owner == me.name, "a %s mutex is held by thread %d, but thread %d is inside",
          kind_names[static_cast<int>(kind_)], me.name, owner);
}

void guarded::ours_again(self& me) {
  const int owner = owner_.exchange(me.name, std::memory_order_relaxed);
  REQUIRE(owner == 0, "a %s mutex admitted thread %d while thread %d is inside", kind_names[static_cast<int>(kind_)],
          me.name, owner);
  seen_ = entered_;
  expected_.fetch_add(1, std::memory_order_relaxed);
}

void guarded::check_count() const {
  REQUIRE(entered_ == expected_.load(), "a %s mutex was entered %ld times, but its counter is %ld",
          kind_names[static_cast<int>(kind_)], expected_.load(), entered_);
}

namespace {
void check_timed_out(clockid_t clock, std::int64_t deadline, const char* call) {
  const std::int64_t at = now(clock);
  REQUIRE(at >= deadline, "%s timed out %lld ns before its deadline", call, static_cast<long long>(deadline - at));
}
}  // namespace

bool guarded::try_enter(self& me) {
  pthread_mutex_t* const m = mutex();
  const int way = me.random.below(5);
  int code = 0;
  if (way <= 1) {
    code = pthread_mutex_trylock(m);
    REQUIRE(code == 0 || code == EBUSY, "pthread_mutex_trylock gave %s", code_name(code));
    if (code != 0) return false;
  } else {
    const clockid_t clock = way == 4 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    const std::int64_t deadline = some_deadline(me, clock);
    const timespec t = to_timespec(deadline);
    const char* call = way == 2 ? "pthread_mutex_timedlock" : "pthread_mutex_clocklock";
    waiting w(me, call, m, strict);
    code = way == 2 ? pthread_mutex_timedlock(m, &t) : pthread_mutex_clocklock(m, clock, &t);
    REQUIRE(code == 0 || code == ETIMEDOUT, "%s gave %s", call, code_name(code));
    if (code != 0) {
      check_timed_out(clock, deadline, call);
      me.count(op_timed_out);
      return false;
    }
  }
  me.count(op_mutex);
  ours_again(me);
  return true;
}

void guarded::enter(self& me, strictness s) {
  // One in eight acquisitions first tries another call, which may fail.
  if (me.random.below(8) == 0 && try_enter(me)) return;
  waiting w(me, "pthread_mutex_lock", mutex(), s);
  MUST(pthread_mutex_lock(mutex()));
  me.count(op_mutex);
  ours_again(me);
}

void guarded::leave(self& me) {
  given(me);
  MUST(pthread_mutex_unlock(mutex()));
}

bool wait_on(self& me, pthread_cond_t* cond, clockid_t clock, guarded& lock, patience_of_wait p, strictness s) {
  const bool with_deadline = p != patience_of_wait::endless;
  const bool by_clockwait = with_deadline && me.random.percent(50);
  const clockid_t deadline_clock = !by_clockwait ? clock : me.random.percent(50) ? CLOCK_MONOTONIC : CLOCK_REALTIME;
  const std::int64_t deadline =
      p == patience_of_wait::near ? some_deadline(me, deadline_clock) : now(deadline_clock) + far_off;
  const timespec t = to_timespec(deadline);
  const char* call = !with_deadline ? "pthread_cond_wait"
                     : by_clockwait ? "pthread_cond_clockwait"
                                    : "pthread_cond_timedwait";
  int code;
  lock.given(me);
  {
    waiting w(me, call, cond, s);
    if (!with_deadline) {
      code = pthread_cond_wait(cond, lock.mutex());
    } else if (by_clockwait) {
      code = pthread_cond_clockwait(cond, lock.mutex(), deadline_clock, &t);
    } else {
      code = pthread_cond_timedwait(cond, lock.mutex(), &t);
    }
  }
  lock.ours_again(me);
  me.count(op_cond);
  if (code == 0) return true;
  REQUIRE(with_deadline && code == ETIMEDOUT, "%s gave %s", call, code_name(code));
  check_timed_out(deadline_clock, deadline, call);
  return false;
}

bool take_unit(self& me, sem_t* sem, patience_of_wait p, strictness s) {
  const bool with_deadline = p != patience_of_wait::endless;
  const bool by_clockwait = with_deadline && me.random.percent(50);
  const clockid_t clock = by_clockwait && me.random.percent(50) ? CLOCK_MONOTONIC : CLOCK_REALTIME;
  const std::int64_t deadline = p == patience_of_wait::near ? some_deadline(me, clock) : now(clock) + far_off;
  const timespec t = to_timespec(deadline);
  const char* call = !with_deadline ? "sem_wait" : by_clockwait ? "sem_clockwait" : "sem_timedwait";
  waiting w(me, call, sem, s);
  for (;;) {
    const int result = !with_deadline ? sem_wait(sem)
                       : by_clockwait ? sem_clockwait(sem, clock, &t)
                                      : sem_timedwait(sem, &t);
    if (result == 0) break;
    const int code = errno;
    if (code == EINTR) {
      me.count(op_interrupted);
      continue;
    }
    REQUIRE(with_deadline && code == ETIMEDOUT, "%s gave %s", call, code_name(code));
    check_timed_out(clock, deadline, call);
    return false;
  }
  me.count(op_sem);
  return true;
}

}  // namespace soak
