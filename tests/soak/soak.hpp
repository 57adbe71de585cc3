// Declarations that the soak's parts share: random numbers, threads that a watchdog observes, mutexes that check
// exclusion.
//
// The soak is a plain pthread program that does not use Usher: it needs only the guarantees of POSIX.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace soak {

// ---- random numbers --------------------------------------------------------------------------------------------------

/// splitmix64: each seed gives a stream of numbers, which may be seeds of other streams.
class random_source {
 public:
  explicit random_source(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
  int between(int low, int high) { return low + below(high - low + 1); }
  bool percent(int p) { return below(100) < p; }

 private:
  std::uint64_t state_;
};

// ---- what is counted -------------------------------------------------------------------------------------------------

enum operation {
  op_mutex,        // mutexes acquired
  op_timed_out,    // timed mutex calls that timed out
  op_cond,         // waits that ended, for any reason
  op_signal,       // signals and broadcasts
  op_sem,          // units taken
  op_post,         // posts outside signal handlers
  op_item,         // items passed through a bounded queue
  op_cancel,       // waiters cancelled
  op_short_lived,  // objects whose memory was released at once
  op_fork,
  op_thread,
  op_interrupted,  // EINTR
  op_handler_post,
  operations
};
extern const char* const operation_names[operations];
extern std::atomic<long> totals[operations];

// ---- threads ---------------------------------------------------------------------------------------------------------

/// The watchdog's record of a thread. Records are reused, never freed.
struct watched {
  std::atomic<int> tid{0};  // the kernel's thread id; 0: none
  std::atomic<const char*> what{nullptr};
  std::atomic<const void*> object{nullptr};
  std::atomic<int> object_size{0};
  std::atomic<std::int64_t> since{0};
  std::atomic<bool> strict{false};
  std::atomic<long> progress{0};
};

/// Each thread constructs an object of this class when it begins. It contains the thread's random numbers and counts,
/// and its entry in the watchdog's list.
class self {
 public:
  explicit self(std::uint64_t seed);
  ~self();
  self(const self&) = delete;
  self& operator=(const self&) = delete;

  void count(operation what, long n = 1) { counts_[what] += n; }
  void made_progress() { seen->progress.fetch_add(1, std::memory_order_relaxed); }

  random_source random;
  const int name;  // unique among all threads of the run
  watched* seen;

 private:
  long counts_[operations] = {};
};

/// While an object of class `waiting` exists, the watchdog knows that the thread waits. `strict`: the wait must end
/// within the time of --patience, whatever other threads do. `loose`: a lock without fairness may delay the thread as
/// long as other threads use the lock.
enum strictness { loose, strict };
class waiting {
 public:
  template <class T>
  waiting(self& me, const char* what, const T* object, strictness s = loose)
      : waiting(me, what, object, sizeof(T), s) {}
  waiting(self& me, const char* what, const void* object, int size, strictness s);
  ~waiting();
  waiting(const waiting&) = delete;
  waiting& operator=(const waiting&) = delete;

 private:
  self& me_;
};

/// A group of threads for one purpose; all are joined at the end.
class team {
 public:
  using body = std::function<void(self&)>;
  explicit team(self& owner) : owner_(owner) {}
  ~team() { join_all(); }
  team(const team&) = delete;
  team& operator=(const team&) = delete;

  void start(body work);
  int size() const { return static_cast<int>(members_.size()); }
  pthread_t thread(int i) const { return members_[i]->thread; }
  int tid(int i) const { return members_[i]->tid.load(); }
  void cancel(int i);
  /// Returns whether a cancellation ended the thread's work. The result of pthread_join may not tell this: if a request
  /// arrives when the work has returned, glibc 2.36 is assumed to return PTHREAD_CANCELED (not reproduced).
  bool join(int i);
  void join_all();

 private:
  struct member {
    pthread_t thread{};
    body work;
    std::uint64_t seed = 0;
    std::atomic<int> tid{0};
    bool joined = false;
    bool returned = false;  // written by the thread, read after its join
  };
  static void* run(void* m);
  self& owner_;
  std::vector<std::unique_ptr<member>> members_;
};

/// Calls pthread_create with a small stack; an error fails the soak.
pthread_t start_thread(void* (*body)(void*), void* argument);
int kernel_thread_id();
void signal_thread(int tid, int signal);
/// Returns whether the kernel reports this thread of the process as sleeping.
bool asleep(int tid);

// ---- failing ---------------------------------------------------------------------------------------------------------

/// Prints the reason, every wait with its object, and the seed that repeats the run. Then aborts the program, or exits
/// with 3 in a forked child.
[[noreturn]] void fail(const char* file, int line, const char* format, ...) __attribute__((format(printf, 3, 4)));
#define FAIL(...) ::soak::fail(__FILE__, __LINE__, __VA_ARGS__)
#define REQUIRE(condition, ...)          \
  do {                                   \
    if (!(condition)) FAIL(__VA_ARGS__); \
  } while (0)
#define MUST(call)                                                               \
  do {                                                                           \
    const int must_code = (call);                                                \
    if (must_code != 0) FAIL("%s gave %s", #call, ::soak::code_name(must_code)); \
  } while (0)
const char* code_name(int code);

// ---- time ------------------------------------------------------------------------------------------------------------

constexpr std::int64_t microsecond = 1000, millisecond = 1000 * microsecond, second = 1000 * millisecond;
constexpr std::int64_t far_off =
    24 * 3600 * second;  // a far deadline; the test traps.clock_steps sets the clock by an hour
std::int64_t now(clockid_t clock = CLOCK_MONOTONIC);
timespec to_timespec(std::int64_t t);
/// Returns a deadline that is usually near and sometimes past.
std::int64_t some_deadline(self& me, clockid_t clock);
/// Spins for this time. Unlike sleep, this is no cancellation point.
void spin_for(std::int64_t ns);
/// Sleeps for a short time. This is a cancellation point.
void nap(std::int64_t ns);

// ---- objects ---------------------------------------------------------------------------------------------------------

/// Memory for a T, filled with arbitrary bytes. The address of the T is a random multiple of 8.
template <class T>
class placed {
 public:
  void place(random_source& random) {
    for (auto& b : room_) b = static_cast<unsigned char>(random.next());
    at_ = reinterpret_cast<T*>(room_ + 8 * random.below(8));
  }
  T* get() const { return at_; }

 private:
  alignas(64) unsigned char room_[sizeof(T) + 64];
  T* at_ = nullptr;
};

/// An object on a page of its own. When the object's life ends, the page is unmapped or overwritten.
class page {
 public:
  explicit page(random_source& random);
  ~page();
  page(const page&) = delete;
  page& operator=(const page&) = delete;
  template <class T>
  T* at() const {
    return reinterpret_cast<T*>(base_ + offset_);
  }
  /// Ends the object's life.
  void vanish();

 private:
  unsigned char* base_;
  int offset_, way_;
  bool gone_ = false;
};

enum class kind { normal, recursive, error_checking, adaptive };
extern const char* const kind_names[4];

/// Makes a mutex of this kind in one of several ways. The memory may have any content.
void make_mutex(pthread_mutex_t* mutex, kind k, random_source& random);
void make_cond(pthread_cond_t* cond, clockid_t clock, random_source& random);

/// A mutex that checks exclusion and counts its acquisitions.
class guarded {
 public:
  void make(random_source& random);
  void make(random_source& random, kind k);
  void destroy();

  /// Acquires the mutex by pthread_mutex_lock, sometimes after another call that may fail.
  void enter(self& me, strictness s = loose);
  bool try_enter(self& me);
  void leave(self& me);
  /// For waits on a condition variable and for clean-up handlers, in which the mutex is released and acquired without
  /// leave() and enter(). given(): this thread is about to release the mutex. ours_again(): this thread holds the mutex
  /// again.
  void given(self& me);
  void ours_again(self& me);

  pthread_mutex_t* mutex() const { return mutex_.get(); }
  kind which() const { return kind_; }
  /// Checks the number of acquisitions. Must be called while no thread is in the critical section.
  void check_count() const;

 private:
  placed<pthread_mutex_t> mutex_;
  kind kind_ = kind::normal;
  std::atomic<int> owner_{0};    // atomic, so that the fault of a broken lock is reported and is no undefined behaviour
  long entered_ = 0, seen_ = 0;  // plain on purpose: read in enter(), written in leave()
  std::atomic<long> expected_{0};
};

/// Calls pthread_cond_wait, timedwait or clockwait with the mutex of `lock`; the deadline, if any, is far or near.
/// Returns false if it timed out.
enum class patience_of_wait { endless, far, near };
bool wait_on(self& me, pthread_cond_t* cond, clockid_t clock, guarded& lock, patience_of_wait p, strictness s);
/// Calls sem_wait, timedwait or clockwait until it has taken a unit (returns true) or, for `near`, until the deadline
/// has passed (returns false).
bool take_unit(self& me, sem_t* sem, patience_of_wait p, strictness s);

// ---- the parts -------------------------------------------------------------------------------------------------------

struct settings {
  std::uint64_t seed = 0;
  double seconds = 10;
  int threads = 0;  // 0: another number in every round
  std::int64_t patience = 30 * second;
  /// Also tests two guarantees that glibc 2.36 does not keep. First, a child may use conditions on which threads of its
  /// parent waited at the fork. Second, a cancelled waiter does not consume the wake-up of a post.
  bool full = false;
  bool stay = false;     // does not end after a failure, so that a debugger can be attached
  unsigned parts = ~0u;  // the actions to use
};
extern settings set;
extern std::atomic<bool> stopping;  // the traffic of this round is to end

constexpr int sigpost = SIGUSR1;     // the handler of this signal posts; the signal interrupts system calls
constexpr int signothing = SIGUSR2;  // the handler only takes time; system calls are restarted
/// A real-time signal whose handler posts the semaphore to which the signal's value points.
inline int sigpost_this() {
  return SIGRTMIN + 3;
}

// Actions of a worker on objects that all workers share.
struct shared_objects;
void use_cells(self& me, shared_objects& shared);
void use_boxes(self& me, shared_objects& shared, int slot);
void use_queues(self& me, shared_objects& shared, int slot);
void use_semaphores(self& me, shared_objects& shared, int slot);
void use_semaphore_queues(self& me, shared_objects& shared, int slot);
void fork_a_child(self& me, shared_objects& shared);

// Actions on objects and with threads of their own.
void destroy_conditions(self& me);
void cancel_condition_waiters(self& me);
void cancel_semaphore_waiters(self& me);
void cancel_asynchronously(self& me);
void short_lived_semaphores(self& me);
void short_lived_mutexes(self& me);
void ring(self& me);

/// Called in a child: removes the threads that do not exist there from the watchdog's list.
void forget_other_threads(self& me);
extern std::atomic<int> in_child;  // the depth of forks

}  // namespace soak
