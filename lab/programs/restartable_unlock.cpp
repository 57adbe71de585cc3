// An experiment: an unlock without a locked instruction, by a restartable sequence (rseq). It is not part of the
// library; docs/default-lock.md gives the reason.
//
// The unlock compares the lock word with `held` and stores `free`. Both instructions are in a sequence that the kernel
// aborts if the thread is preempted, is migrated or gets a signal within it. If a waiter set its mark (`asleep`)
// between the compare and the store, the store would overwrite the mark. So after setting the mark, a waiter makes the
// kernel abort the sequences of all running threads by membarrier(PRIVATE_EXPEDITED_RSEQ); a thread that is not running
// is aborted before it runs again. Afterwards each sequence either has stored before the barrier ended, so that the
// waiter's futex call finds the mark gone, or begins later and finds the mark. An aborted unlock does not retry the
// sequence but uses a locked operation, since a debugger that single-steps through the sequence aborts it each time.
//
//     --check      stops before each instruction of the sequence, sets the mark there, and lets the unlock continue,
//                  also by single steps; then marks set by another thread; then threads, signals and forks. Also shows
//                  that a mark is lost without the sequence's descriptor, and prints how many are lost without the
//                  barrier
//     otherwise    measures the ns of an uncontended lock and unlock, beside the C library's mutex and the same code
//                  with a locked unlock; of a barrier; and of a critical section for which threads sleep
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include "options.hpp"
#include "second_thread.hpp"

#if defined(__x86_64__) && __has_include(<sys/rseq.h>)
#include <sys/rseq.h>

namespace {

using workloads::fail;

constexpr std::uint32_t free_ = 0, held = 1, asleep = 4;
std::ptrdiff_t rseq_cs_offset;  // offset of the thread's rseq_cs field from the thread pointer
std::atomic<long> aborts{0};

// ---- the sequence ---------------------------------------------------------------------------------------------

extern "C" const char unlock_compare[], unlock_jump[], unlock_store[], unlock_done[], wrong_store[];  // for --check

/// The way of unlocking. `slow` is restartable, with a pause between the compare and the store that is longer than a
/// waiter needs to go to sleep.
enum class way { locked, restartable, slow };

/// Frees the word if its value is `held` without a mark. Returns false if the word is marked or the sequence was
/// aborted. `version`: the correct sequence; one with a pause; one with labels at which --check stops; an incorrect one
/// that does not announce its descriptor to the kernel.
enum class version { plain, slow, named, wrong };
template <version Version = version::plain>
[[gnu::always_inline]] inline bool free_restartably(std::atomic<std::uint32_t>& word) {
  // Label 3 is the descriptor (struct rseq_cs). Label 4 is the abort handler; the kernel requires the signature before
  // it, here encoded as an undefined instruction.
#define USHER_SEQUENCE(announce, first, jump, store, committed)                                                 \
  asm goto(                                                                                                     \
      ".pushsection __rseq_cs, \"aw\"\n\t.balign 32\n3:\t.long 0, 0\n\t.quad 1f, 2f - 1f, 4f\n"                 \
      "\t.popsection\n\t.pushsection .text.aborts, \"ax\"\n\t.byte 0x0f, 0xb9, 0x3d\n\t.long 0x53053053\n"      \
      "4:\tjmp %l[aborted]\n\t.popsection\n\tleaq 3b(%%rip), %%rax\n" announce first                            \
      "1:\tcmpl %[held], (%[word])\n" jump "\tjne %l[marked]\n" store "\tmovl $0, (%[word])\n" committed "2:\n" \
      :                                                                                                         \
      : [word] "r"(&word), [held] "i"(held), [offset] "r"(rseq_cs_offset)                                       \
      : "rax", "memory", "cc"                                                                                   \
      : marked, aborted)
#define USHER_ANNOUNCE "\tmovq %%rax, %%fs:(%[offset])\n"
#define USHER_LABEL(name) ".globl " name "\n" name ":\n"
  if constexpr (Version == version::plain)
    USHER_SEQUENCE(USHER_ANNOUNCE, "", "", "", "");
  else if constexpr (Version == version::slow)
    USHER_SEQUENCE(USHER_ANNOUNCE, "", "", "\tmovl $400, %%eax\n5:\tpause\n\tdecl %%eax\n\tjnz 5b\n", "");
  else if constexpr (Version == version::named)
    USHER_SEQUENCE(USHER_ANNOUNCE, USHER_LABEL("unlock_compare"), USHER_LABEL("unlock_jump"),
                   USHER_LABEL("unlock_store"), USHER_LABEL("unlock_done"));
  else
    USHER_SEQUENCE("", "", "", USHER_LABEL("wrong_store"), "");
  return true;
aborted:
  aborts.fetch_add(1, std::memory_order_relaxed);
marked:
  return false;
}

/// Whether the C library has registered this thread for rseq, and the process may use the barrier.
bool prepare() {
  if (__rseq_size == 0) return false;
  const auto* area =
      reinterpret_cast<const struct rseq*>(static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset);
  rseq_cs_offset = __rseq_offset + std::ptrdiff_t(offsetof(struct rseq, rseq_cs));
  return std::int32_t(area->cpu_id) >= 0 &&
         syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0) == 0;
}

void abort_sequences() {
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0) != 0) fail("membarrier failed");
}

// ---- a mutex whose waiters sleep at once -----------------------------------------------------------------------

template <way Way>
struct sleeping_mutex {
  std::atomic<std::uint32_t> word{free_};

  void lock() {
    std::uint32_t seen = free_;
    if (word.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed)) return;
    for (;;) {
      seen = word.load(std::memory_order_relaxed);
      // Other waiters may still sleep, so a thread that has waited acquires the mutex with the mark set.
      if (seen == free_ && word.compare_exchange_strong(seen, held | asleep, std::memory_order_acquire)) return;
      if ((seen & held) == 0) continue;
      if ((seen & asleep) == 0 && !word.compare_exchange_strong(seen, seen | asleep)) continue;
      // Needed even if another thread has set the mark, because that thread's barrier may not have ended.
      if constexpr (Way != way::locked) abort_sequences();
      syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, held | asleep, nullptr, nullptr, 0);
    }
  }
  void unlock() {
    constexpr version sequence = Way == way::slow ? version::slow : version::plain;
    if (Way != way::locked && free_restartably<sequence>(word)) return;
    if ((word.exchange(free_, std::memory_order_release) & asleep) != 0)
      syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
};

// ---- the checks ------------------------------------------------------------------------------------------------

struct stepped {
  std::atomic<std::uint32_t> word{held};
  std::atomic<std::uint32_t> old{0};  ///< the value that the locked operation found; 0: there was no locked operation
};
stepped tracee_state;

template <version Version>
[[gnu::noinline]] void unlock_under_trace(stepped& s) {
  if (!free_restartably<Version>(s.word)) s.old = s.word.exchange(free_);
}

/// The effect of an unlock on a mark. none: there was no mark; seen: the unlock found it; kept: the word is free with
/// the mark still set; wrong: the word has another value.
enum class mark { none, seen, kept, wrong };

/// A child process that unlocks while this process traces it.
class tracee {
 public:
  explicit tracee(bool protects) : child_(fork()) {
    if (child_ == 0) {
      if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(9);
      raise(SIGSTOP);
      protects ? unlock_under_trace<version::named>(tracee_state) : unlock_under_trace<version::wrong>(tracee_state);
      const std::uint32_t word = tracee_state.word, old = tracee_state.old;
      const bool found = word == free_ && old == (held | asleep), unmarked = word == free_ && (old == held || old == 0);
      _exit(int(found ? mark::seen : word == asleep ? mark::kept : unmarked ? mark::none : mark::wrong));
    }
    wait();
  }

  /// Runs the child to the instruction at `at`, by a breakpoint: single steps into a sequence would abort it.
  void run_to(const char* at) {
    const long text = ptrace(PTRACE_PEEKTEXT, child_, at, nullptr);
    call(PTRACE_POKETEXT, at, (text & ~0xffL) | 0xcc);
    call(PTRACE_CONT, nullptr, 0);
    wait();
    call(PTRACE_POKETEXT, at, text);
    user_regs_struct registers{};
    if (ptrace(PTRACE_GETREGS, child_, nullptr, &registers) != 0) fail("cannot read a child's registers");
    if (--registers.rip != reinterpret_cast<std::uintptr_t>(at)) fail("the child is not at its breakpoint");
    if (ptrace(PTRACE_SETREGS, child_, nullptr, &registers) != 0) fail("cannot set a child's registers");
  }
  void set_mark() {
    call(PTRACE_POKEDATA, &tracee_state.word, ptrace(PTRACE_PEEKDATA, child_, &tracee_state.word, nullptr) | asleep);
  }
  /// Runs the child to its end, by single steps if `stepping`. Returns the unlock's effect on the mark.
  mark end(bool stepping) {
    for (long steps = 0; WIFSTOPPED(status_); steps++) {
      if (steps > 100000) fail("the child makes no progress");
      call(stepping ? PTRACE_SINGLESTEP : PTRACE_CONT, nullptr, 0);
      if (waitpid(child_, &status_, 0) != child_) fail("cannot wait for a child");
    }
    if (!WIFEXITED(status_) || WEXITSTATUS(status_) > int(mark::wrong)) fail("a child has failed");
    return mark(WEXITSTATUS(status_));
  }

 private:
  void wait() {
    if (child_ < 0 || waitpid(child_, &status_, 0) != child_ || !WIFSTOPPED(status_)) fail("cannot trace a child");
  }
  void call(__ptrace_request what, const void* where, long data) {
    if (ptrace(what, child_, where, data) != 0) fail("cannot control a child");
  }

  pid_t child_;
  int status_ = 0;
};

/// Sets the mark while the child is stopped before the instruction at `at`. Returns the unlock's effect on the mark.
mark mark_at(const char* at, bool protects, bool stepping) {
  tracee t(protects);
  t.run_to(at);
  t.set_mark();
  return t.end(stepping);
}

void check_steps() {
  for (const bool stepping : {false, true}) {
    for (const char* const at : {unlock_compare, unlock_jump, unlock_store})
      if (mark_at(at, true, stepping) != mark::seen) fail("the unlock has not seen a mark");
    if (mark_at(unlock_done, true, stepping) != mark::kept) fail("the unlock was repeated");
    if (tracee(true).end(stepping) != mark::none) fail("the unlock does not end");
  }
  if (mark_at(wrong_store, false, false) != mark::none) fail("an unlock that is not restartable should lose the mark");
  std::puts(
      "steps: an unlock sees a mark set before each of its instructions; without the descriptor it loses the mark");
}

/// A waiter sets its mark while another thread may be in the sequence. Returns how often the mark was lost: the word
/// still had the mark after the barrier (without a barrier: at once), but the unlock did not see it, so a waiter would
/// sleep for ever.
long lost_marks(bool barrier, double seconds) {
  enum : int { idle, prepared, unlocking, unlocked, over };
  std::atomic<std::uint32_t> word{free_};
  std::atomic<int> state{idle};
  std::atomic<bool> saw_no_mark{false};
  const auto wait_for = [&](int s, int t) {
    int now;
    while ((now = state.load()) != s && now != t) std::this_thread::yield();
    return now;
  };
  std::thread holder([&] {
    while (wait_for(prepared, over) == prepared) {
      state = unlocking;
      saw_no_mark = free_restartably<version::slow>(word);
      if (!saw_no_mark) word = free_;
      state = unlocked;
    }
  });
  long lost = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (long i = 0; std::chrono::steady_clock::now() < end; i++) {
    word = held;
    state = prepared;
    wait_for(unlocking, unlocked);
    for (long pause = 0; pause < i % 256; pause++) std::atomic_signal_fence(std::memory_order_seq_cst);
    std::uint32_t seen = held;
    const bool set = word.compare_exchange_strong(seen, held | asleep);
    if (set && barrier) abort_sequences();
    const bool still_there = set && word == (held | asleep);
    wait_for(unlocked, unlocked);
    if (still_there && saw_no_mark) lost++;
  }
  state = over;
  holder.join();
  return lost;
}

void check_barrier(double seconds) {
  if (lost_marks(true, seconds) != 0) fail("a mark was lost after the barrier");
  std::printf("barrier: no mark lost; without the barrier %ld\n", lost_marks(false, seconds));
}

void on_signal(int) {
  static thread_local sleeping_mutex<way::slow> of_handler;  // so that a sequence also runs inside an interrupted one
  of_handler.lock();
  of_handler.unlock();
}

void check_forked_child() {
  const pid_t child = fork();  // the child inherits copies of this process's registrations
  if (child == 0) {
    alarm(20);
    sleeping_mutex<way::slow> own;
    own.lock();
    std::thread waiter([&] { own.lock(), own.unlock(); });
    usleep(100);
    own.unlock();
    waiter.join();
    _exit(own.word == free_ ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) fail("a child's mutex has failed");
}

/// Threads count under a mutex while they receive signals, and the process forks meanwhile.
void check_threads(int number, double seconds) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  sleeping_mutex<way::slow> mutex;
  long counter = 0;
  std::atomic<bool> over{false};
  std::atomic<long> all{0};
  std::vector<std::thread> threads;
  const long aborts_before = aborts;
  alarm(unsigned(seconds) + 20);
  for (int i = 0; i < number; i++)
    threads.emplace_back([&] {
      long n = 0;
      while (!over.load(std::memory_order_relaxed)) {
        mutex.lock();
        counter++;
        mutex.unlock();
        n++;
      }
      all += n;
    });
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (long i = 0; std::chrono::steady_clock::now() < end; i++) {
    for (auto& t : threads) pthread_kill(t.native_handle(), SIGUSR1);
    if (i % 64 == 0) check_forked_child();
  }
  over = true;
  for (auto& t : threads) t.join();
  alarm(0);
  if (counter != all || mutex.word != free_) fail("two threads had the mutex");
  std::printf("%d threads, signals, forks: %ld sections, %ld sequences aborted\n", number, counter,
              aborts - aborts_before);
}

// ---- the costs --------------------------------------------------------------------------------------------------

using clock_type = std::chrono::steady_clock;
double since(clock_type::time_point start) {
  return std::chrono::duration<double, std::nano>(clock_type::now() - start).count();
}

/// The memory accesses of an uncontended lock and unlock of a normal mutex in the preload library, including the jump
/// through the exported function.
struct like_preload {
  std::atomic<std::uint32_t> word{free_}, tag{0}, owner{0}, timed{0};
  std::atomic<std::uint64_t> kind_and_epoch{std::uint64_t{7} << 32};
};
std::atomic<std::uint64_t> epoch_word{(std::uint64_t{7} << 32) | 4};
thread_local std::uint32_t own_tag = 129;

[[gnu::noinline]] int lock_like_preload(like_preload* m) {
  if (m->kind_and_epoch.load(std::memory_order_acquire) - epoch_word.load(std::memory_order_acquire) !=
      std::uint64_t{0} - 4)
    fail("not valid");
  std::uint32_t seen = free_;
  if (!m->word.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed)) fail("held");
  m->tag.store(own_tag, std::memory_order_relaxed);
  return 0;
}

template <way Way>
[[gnu::noinline]] int unlock_like_preload(like_preload* m) {
  if (m->kind_and_epoch.load(std::memory_order_acquire) - epoch_word.load(std::memory_order_acquire) !=
      std::uint64_t{0} - 4)
    fail("not valid");
  if (m->tag.load(std::memory_order_relaxed) != own_tag) fail("another's");
  m->tag.store(0, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (m->timed.load(std::memory_order_relaxed) != 0) fail("waiters");
  if constexpr (Way == way::restartable) {
    if (free_restartably(m->word)) return 0;
  }
  std::uint32_t seen = held;
  if (!m->word.compare_exchange_strong(seen, free_, std::memory_order_release, std::memory_order_relaxed))
    fail("marks");
  return 0;
}

template <class Mutex>
using function = int (*)(Mutex*);
template <class Mutex>
struct functions {  // the exported functions jump through these pointers
  std::atomic<function<Mutex>> lock, unlock;
};
functions<like_preload> locked{lock_like_preload, unlock_like_preload<way::locked>},
    restartable{lock_like_preload, unlock_like_preload<way::restartable>};

template <functions<like_preload>& F>
[[gnu::noinline]] int exported_lock(like_preload* m) {
  return F.lock.load(std::memory_order_relaxed)(m);
}
template <functions<like_preload>& F>
[[gnu::noinline]] int exported_unlock(like_preload* m) {
  return F.unlock.load(std::memory_order_relaxed)(m);
}

template <class Mutex>
[[gnu::noinline]] double pairs(function<Mutex> lock, function<Mutex> unlock, Mutex& mutex, long iterations) {
  const auto start = clock_type::now();
  for (long i = 0; i < iterations; i++) {
    lock(&mutex);
    unlock(&mutex);
  }
  return since(start) / double(iterations);
}

void measure_pairs(long rounds, long iterations) {
  alignas(64) static like_preload a, b;
  alignas(64) static pthread_mutex_t c = PTHREAD_MUTEX_INITIALIZER;
  std::vector<double> times[3], ratios[2];
  for (long r = -1; r < rounds; r++) {
    double t[3]{};
    for (int i = 0; i < 3; i++) {
      const int which = int((r + 1 + i) % 3);
      t[which] = which == 0   ? pairs<pthread_mutex_t>(pthread_mutex_lock, pthread_mutex_unlock, c, iterations)
                 : which == 1 ? pairs(exported_lock<locked>, exported_unlock<locked>, a, iterations)
                              : pairs(exported_lock<restartable>, exported_unlock<restartable>, b, iterations);
    }
    if (r < 0) continue;  // warm-up
    for (int i = 0; i < 3; i++) times[i].push_back(t[i]);
    for (int i = 0; i < 2; i++) ratios[i].push_back(t[i + 1] / t[0]);
  }
  const auto least = [&](int i) { return *std::min_element(times[i].begin(), times[i].end()); };
  for (auto& r : ratios) std::sort(r.begin(), r.end());
  const auto median = [&](int i) { return ratios[i][ratios[i].size() / 2]; };
  std::printf("pair, ns, fastest round: pthread mutex %.2f, locked unlock %.2f, restartable unlock %.2f\n", least(0),
              least(1), least(2));
  std::printf("of the pthread mutex's time: locked %.3f (median of the rounds %.3f), restartable %.3f (%.3f)\n",
              least(1) / least(0), median(0), least(2) / least(0), median(1));
}

/// Measures barriers, first alone and then beside a thread that counts all the time. In the second case a barrier is
/// measured only if the other thread has counted just before, which shows that it is running.
void measure_barrier(long rounds) {
  for (const bool busy : {false, true}) {
    std::atomic<bool> over{false};
    std::atomic<std::uint32_t> counted{0};
    std::thread other;
    if (busy)
      other = std::thread([&] {
        while (!over.load(std::memory_order_relaxed)) counted.fetch_add(1, std::memory_order_relaxed);
      });
    std::vector<double> times;
    for (long r = 0; r < rounds * 100; r++) {
      const std::uint32_t before = counted.load(std::memory_order_relaxed);
      for (int i = 0; busy && i < 1000 && counted.load(std::memory_order_relaxed) == before; i++) {
      }
      if (busy && counted.load(std::memory_order_relaxed) == before) {
        std::this_thread::yield();
        continue;
      }
      const auto start = clock_type::now();
      abort_sequences();
      times.push_back(since(start));
    }
    over = true;
    if (busy) other.join();
    if (times.empty()) times.push_back(0);
    std::sort(times.begin(), times.end());
    std::printf("barrier, ns, %s: least %.0f, median %.0f, ninth decile %.0f of %zu\n",
                busy ? "beside a thread that runs" : "no other thread", times[0], times[times.size() / 2],
                times[times.size() * 9 / 10], times.size());
  }
}

template <way Way>
double sections(int threads, double seconds) {
  sleeping_mutex<Way> mutex;
  std::atomic<bool> over{false};
  std::atomic<long> all{0};
  std::vector<std::thread> team;
  for (int i = 0; i < threads; i++)
    team.emplace_back([&] {
      long n = 0;
      volatile long work = 0;
      while (!over.load(std::memory_order_relaxed)) {
        mutex.lock();
        for (int k = 0; k < 500; k++) work = work + 1;
        mutex.unlock();
        for (int k = 0; k < 1500; k++) work = work + 1;
        n++;
      }
      all += n;
    });
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  over = true;
  for (auto& t : team) t.join();
  return double(all.load()) / seconds;
}

void measure_sleepers(long rounds, double seconds) {
  for (const int threads : {2, 4, 8}) {
    std::vector<double> ratios;
    for (long r = 0; r < rounds; r++) {
      double l = 0, s = 0;
      if (r % 2 == 0) l = sections<way::locked>(threads, seconds);
      s = sections<way::restartable>(threads, seconds);
      if (r % 2 != 0) l = sections<way::locked>(threads, seconds);
      ratios.push_back(s / l);
    }
    std::sort(ratios.begin(), ratios.end());
    std::printf("%d threads that sleep: restartable has %.2f of the throughput (%.2f to %.2f)\n", threads,
                ratios[ratios.size() / 2], ratios.front(), ratios.back());
  }
}

}  // namespace

int main(int argc, char** argv) {
  long rounds = 31, iterations = 100000;
  double seconds = 0.2;
  bool check = false;
  workloads::options o("restartable_unlock", "checks and costs of an unlock by a restartable sequence");
  o.number("rounds", rounds, 1, 100000, "interleaved (31)");
  o.number("iterations", iterations, 1, 1L << 40, "pairs in a round (100000)");
  o.real("seconds", seconds, 0.01, 1000, "of the check with threads, and of a run with sleepers (0.2)");
  o.flag("check", check, "no measurement");
  o.parse(argc, argv);
  if (!prepare()) {
    std::puts("not possible here: the C library or the kernel has no restartable sequences");
    return 0;
  }
  if (check) {
    check_steps();
    check_barrier(seconds);
    check_threads(4, seconds);
    return 0;
  }
  workloads::stop_being_alone();
  measure_pairs(rounds, iterations);
  measure_barrier(rounds);
  measure_sleepers(std::min(rounds, 9L), seconds);
  return 0;
}

#else
int main() {
  std::puts("not possible here: written for x86-64 and glibc 2.35 or newer");
  return 0;
}
#endif
