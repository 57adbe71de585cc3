// Compares watch/recorder/unwind.cpp, in a shared object of its own, with glibc's backtrace(), which runs libgcc's
// unwinder.
#include "watch/recorder/unwind.hpp"

#include "watch/recorder/frame_words.hpp"

#include <alloca.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <functional>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "unwind_code.hpp"
#include "unwind_under_test.hpp"

using usher::recorder::call_chain;
using usher::recorder::capture_area;
using usher::recorder::stack_bounds;

// ---- counts the functions that capture() must not call -------------------------------------------------------------

static std::atomic<unsigned> forbidden_calls{0};

extern "C" {
// The first and the last address of this program, which the linker defines.
[[gnu::visibility("hidden")]] extern const char __ehdr_start[];  // NOLINT(bugprone-reserved-identifier)
[[gnu::visibility("hidden")]] extern const char _end[];          // NOLINT(bugprone-reserved-identifier)
void* __libc_malloc(std::size_t);                                // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(std::size_t, std::size_t);                   // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void*, std::size_t);                        // NOLINT(bugprone-reserved-identifier)
void __libc_free(void*);                                         // NOLINT(bugprone-reserved-identifier)
void* malloc(std::size_t n) {
  forbidden_calls++;
  return __libc_malloc(n);
}
void* calloc(std::size_t n, std::size_t m) {
  forbidden_calls++;
  return __libc_calloc(n, m);
}
void* realloc(void* p, std::size_t n) {
  forbidden_calls++;
  return __libc_realloc(p, n);
}
void free(void* p) {
  forbidden_calls++;
  __libc_free(p);
}
int pthread_mutex_lock(pthread_mutex_t* m) {
  static const auto real = reinterpret_cast<int (*)(pthread_mutex_t*)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  forbidden_calls++;
  return real(m);
}
int dl_iterate_phdr(int (*f)(dl_phdr_info*, std::size_t, void*), void* data) {
  using function = int(int (*)(dl_phdr_info*, std::size_t, void*), void*);
  static const auto real = reinterpret_cast<function*>(dlsym(RTLD_NEXT, "dl_iterate_phdr"));
  forbidden_calls++;
  return real(f, data);
}
}

namespace {

#if defined(__clang__)
#define KEEP [[gnu::noinline]]
#else
#define KEEP [[gnu::noipa]]
#endif
#define NO_TAIL_CALL __asm__ volatile("" ::: "memory")

thread_local stack_bounds bounds{};

[[gnu::always_inline]] inline void capture(call_chain& into, stack_bounds& of_thread) {
  capture_area area;
  usher::recorder::capture(area, of_thread, nullptr);
  into = area.chain;
}

/// Takes call chains by capture() and by backtrace() in the same function, so that the two chains differ only in their
/// first addresses.
struct both {
  call_chain ours;
  void* theirs[64];
  int depth;

  KEEP void take() {
    capture(ours, bounds);
    depth = backtrace(theirs, 64);
    NO_TAIL_CALL;
  }

  /// Compares the two chains. `interrupted` lists the numbers of the frames that a signal interrupted: capture() stores
  /// the address of such a frame plus one.
  void compare(std::initializer_list<int> interrupted = {}) const {
    const int number = std::min<int>(depth, call_chain::longest);
    ASSERT_EQ(ours.length, unsigned(number));
    EXPECT_EQ(ours.cut, depth > int(call_chain::longest));
    for (int i = 1; i < number; i++)
      EXPECT_EQ(ours.pc[i], reinterpret_cast<std::uint64_t>(theirs[i]) +
                                std::uint64_t(std::count(interrupted.begin(), interrupted.end(), i)))
          << "frame " << i;
  }
};

class unwind : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    void* p[4];
    backtrace(p, 4);  // loads libgcc_s
  }
};

KEEP void recurse(unsigned depth, const std::function<void()>& f) {
  if (depth == 0)
    f();
  else
    recurse(depth - 1, f);
  NO_TAIL_CALL;
}

TEST_F(unwind, recursion) {
  for (const unsigned depth : {0u, 1u, 5u, 10u, 40u}) {
    for (int again = 0; again < 2; again++) {  // the second pass uses the table of rules
      both b;
      recurse(depth, [&] { b.take(); });
      b.compare();
      EXPECT_GT(b.ours.length, depth < 20 ? depth : 20);
    }
  }
}

stack_bounds remembered{};
KEEP void take_chain(void* into) {
  stack_bounds copy = remembered;
  capture(*static_cast<call_chain*>(into), copy);
  NO_TAIL_CALL;
}

TEST_F(unwind, the_first_address_is_the_callers) {
  call_chain c;
  take_chain(&c);
  ASSERT_GT(c.length, 2u);
  EXPECT_GT(c.pc[0], reinterpret_cast<std::uint64_t>(&take_chain));
  EXPECT_LT(c.pc[0], reinterpret_cast<std::uint64_t>(&take_chain) + 64);
}

KEEP void with_alloca(unsigned size, const std::function<void()>& f) {
  auto* p = static_cast<volatile char*>(alloca(size));
  p[0] = 1;
  f();
  p[size - 1] = 2;
}
KEEP int over_aligned(const std::function<void()>& f) {
  alignas(128) volatile char buffer[256];
  buffer[0] = 1;
  f();
  return buffer[0];
}
/// A function whose CFA (canonical frame address) is given by an expression, because gcc stores the address of the
/// arguments on the stack.
KEEP long over_aligned_with_arguments(long, long, long, long, long, const std::function<void()>& f, long size, long g) {
  alignas(128) volatile char buffer[256];
  auto* p = static_cast<volatile char*>(alloca(std::size_t(size)));
  buffer[0] = char(g);
  p[0] = 1;
  f();
  return buffer[0] + p[0] + g;
}

TEST_F(unwind, frames_of_unknown_size) {
  for (int again = 0; again < 2; again++) {
    both b;
    recurse(2, [&] {
      with_alloca(1000, [&] {
        over_aligned([&] {
          over_aligned_with_arguments(
              1, 2, 3, 4, 5, [&] { with_alloca(1 << 20, [&] { b.take(); }); }, 77, 8);
        });
      });
    });
    b.compare();
  }
}

std::function<void()> in_comparison;
KEEP int compare_ints(const void*, const void*) {
  in_comparison();
  return 0;
}

TEST_F(unwind, callback_of_the_c_library) {
  both b;
  in_comparison = [&] { b.take(); };
  int numbers[2] = {2, 1};
  qsort(numbers, 2, sizeof(int), compare_ints);
  b.compare();
  ASSERT_GT(b.ours.length, 5u);
}

TEST_F(unwind, own_frames_are_left_out) {
  both b;
  through_the_library([](void* p) { static_cast<both*>(p)->take(); }, &b);
  const auto in_the_library = [](void* address) {
    Dl_info here{}, library{};
    dladdr(address, &here);
    dladdr(reinterpret_cast<void*>(&through_the_library), &library);
    return here.dli_fbase == library.dli_fbase;
  };
  const auto end = std::remove_if(b.theirs, b.theirs + b.depth, in_the_library);
  EXPECT_EQ(end, b.theirs + b.depth - 1);
  b.depth--;
  b.compare();
}

/// Pages with a protected page on both sides.
class pages {
 public:
  explicit pages(std::size_t size) : size_(size) {
    all_ = static_cast<char*>(mmap(nullptr, size + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(begin(), size, PROT_READ | PROT_WRITE);
  }
  ~pages() { munmap(all_, size_ + 8192); }
  char* begin() const { return all_ + 4096; }
  char* end() const { return begin() + size_; }

 private:
  char* all_;
  std::size_t size_;
};

// ---- signals --------------------------------------------------------------------------------------------------------

both in_handler;

class handler {
 public:
  handler(int signal, void (*f)(int, siginfo_t*, void*), int flags) : signal_(signal) {
    struct sigaction a {};
    a.sa_sigaction = f;
    a.sa_flags = SA_SIGINFO | flags;
    sigaction(signal, &a, &before_);
  }
  ~handler() { sigaction(signal_, &before_, nullptr); }

 private:
  int signal_;
  struct sigaction before_ {};
};

KEEP void take_in_handler(int, siginfo_t*, void*) {
  in_handler.take();
  NO_TAIL_CALL;
}

TEST_F(unwind, signal_handler) {
  const handler h(SIGUSR1, take_in_handler, 0);
  recurse(3, [] { raise(SIGUSR1); });
  in_handler.compare({3});
}

TEST_F(unwind, alternate_signal_stack) {
  const handler h(SIGUSR1, take_in_handler, SA_ONSTACK);
  const std::size_t size = 64 << 10;
  for (const bool above : {false, true}) {
    std::vector<char> elsewhere(size);
    pthread_t thread{};
    static char* stack;  // the handler's stack
    stack = elsewhere.data();
    const auto run = [](void*) -> void* {
      const stack_t alternate{.ss_sp = stack, .ss_flags = 0, .ss_size = 64 << 10}, off{nullptr, SS_DISABLE, 0};
      sigaltstack(&alternate, nullptr);
      recurse(3, [] { raise(SIGUSR1); });
      sigaltstack(&off, nullptr);
      return nullptr;
    };
    if (above) {
      // One block of memory has both stacks, the thread's below that of the handler.
      std::vector<char> both_stacks(size * 4);
      stack = both_stacks.data() + 3 * size;
      pthread_attr_t a;
      pthread_attr_init(&a);
      pthread_attr_setstack(&a, both_stacks.data() + 64 - reinterpret_cast<std::uintptr_t>(both_stacks.data()) % 64,
                            2 * size);
      ASSERT_EQ(pthread_create(&thread, &a, run, nullptr), 0);
      pthread_join(thread, nullptr);
    } else {
      run(nullptr);
    }
    in_handler.compare({3});
  }
}

TEST_F(unwind, signal_in_a_signal_handler) {
  const handler inner(SIGUSR2, take_in_handler, 0);
  const handler outer(
      SIGUSR1,
      [](int, siginfo_t*, void*) {
        raise(SIGUSR2);
        NO_TAIL_CALL;
      },
      0);
  recurse(3, [] { raise(SIGUSR1); });
  // At the second signal trampoline the chain is no longer certain, because a signal has interrupted the frame before
  // it.
  int second = 4;
  while (second < in_handler.depth &&
         in_handler.ours.pc[second] == reinterpret_cast<std::uint64_t>(in_handler.theirs[second]))
    second++;
  in_handler.compare({3, second});
  EXPECT_GT(in_handler.depth, second + 5);
}

TEST_F(unwind, fault_at_the_first_instruction) {
  const handler h(
      SIGILL,
      [](int, siginfo_t*, void* context) {
        in_handler.take();
        skip_faulting_instruction(context);
      },
      0);
  recurse(2, [] { faulting_leaf(); });
  in_handler.compare({3});
  EXPECT_EQ(in_handler.ours.pc[3], reinterpret_cast<std::uint64_t>(&faulting_leaf) + 1);
}

#if defined(__aarch64__)

/// When the signal arrives, the return address is signed or not, and is in x30 or in the frame.
TEST_F(unwind, fault_while_the_return_address_is_signed) {
  static std::vector<both> faults;
  faults.clear();
  const handler h(
      SIGILL,
      [](int, siginfo_t*, void* context) {
        both b;
        b.take();
        faults.push_back(b);
        skip_faulting_instruction(context);
      },
      0);
  recurse(2, [] { faulting_signed(); });
  ASSERT_EQ(faults.size(), 5u);
  for (const both& b : faults) {
    b.compare({3});
    EXPECT_EQ(b.ours.pc[4], faults[0].ours.pc[4]);
    EXPECT_GT(b.ours.length, 7u);
  }
}

call_chain of_signing;
KEEP void take_of_signing() {
  capture(of_signing, bounds);
  NO_TAIL_CALL;
}
KEEP void call_signing(void (*f)(void (*)())) {
  f(take_of_signing);
  NO_TAIL_CALL;
}

TEST_F(unwind, signed_return_addresses) {
  call_signing(signing_undone);
  const call_chain unsigned_one = of_signing;
  ASSERT_GT(unsigned_one.length, 4u);
  EXPECT_FALSE(unsigned_one.cut);
  for (const auto f : {signing, signing_with_second_key, signing_only_in_tables}) {
    for (int again = 0; again < 2; again++) {
      call_signing(f);
      ASSERT_EQ(of_signing.length, unsigned_one.length);
      EXPECT_FALSE(of_signing.cut);
      EXPECT_GE(of_signing.pc[1], reinterpret_cast<std::uint64_t>(f));
      EXPECT_LT(of_signing.pc[1], reinterpret_cast<std::uint64_t>(f) + 32);
      EXPECT_EQ(of_signing.pc[2], unsigned_one.pc[2]);  // the next frame is that of this function
      for (unsigned i = 4; i < of_signing.length; i++) EXPECT_EQ(of_signing.pc[i], unsigned_one.pc[i]) << i;
    }
  }
  // If the unwind tables do not mention the signature, the signed address is too large for a code address, and the
  // chain ends.
  std::uint64_t address = reinterpret_cast<std::uint64_t>(&signing);
  const std::uint64_t before = address;
  __asm__("mov x17, %0\n\thint 8\n\tmov %0, x17" : "+r"(address) : : "x16", "x17");  // pacia1716
  if (address == before) GTEST_SKIP() << "this processor does not sign";
  call_signing(signing_in_secret);
  EXPECT_EQ(of_signing.length, 2u);
  EXPECT_TRUE(of_signing.cut);
}

jmp_buf after_capture;
KEEP void take_and_leave() {
  capture(of_signing, bounds);
  longjmp(after_capture, 1);
}

/// The attacker has written the signal frame to which a handler returns.
TEST_F(unwind, signal_frame_with_garbage) {
  const pages stack(32 << 10);
  std::mt19937_64 random(1);
  const auto top = reinterpret_cast<std::uint64_t>(stack.end());
  const auto own = reinterpret_cast<std::uint64_t>(&random);
  const auto code = reinterpret_cast<std::uint64_t>(&recurse);
  constexpr unsigned fits = 1024;
  unsigned left = 0;
  for (int i = 0; i < 4000; i++) {
    std::generate_n(reinterpret_cast<std::uint64_t*>(stack.begin()), (32 << 10) / 8, [&]() -> std::uint64_t {
      switch (random() % 5) {
        case 0:
          return top - random() % 8192;
        case 1:
          return (own & ~15ull) + random() % 4096 * 16;
        case 2:
          return code + random() % 4096 * 4;
        case 3:
          return reinterpret_cast<std::uint64_t>(&qsort) + random() % 100000;
        default:
          return random() >> random() % 64;
      }
    });
    // In half of the rounds a part of the frame lies behind the end of the stack.
    const bool whole = i % 2 == 0;
    if (setjmp(after_capture) == 0) like_a_handler(take_and_leave, stack.end() - (whole ? fits : 16 * (1 + i % 35)));
    ASSERT_GE(of_signing.length, 2u);
    EXPECT_GE(of_signing.pc[1], reinterpret_cast<std::uint64_t>(&like_a_handler));
    EXPECT_LT(of_signing.pc[1], reinterpret_cast<std::uint64_t>(&like_a_handler) + 16);
    if (!whole) {
      EXPECT_EQ(of_signing.length, 2u);
      EXPECT_TRUE(of_signing.cut);
    } else {
      left += of_signing.length > 2;
    }
  }
  EXPECT_GT(left, 500u);
}

#endif

#if defined(__x86_64__)

unsigned steps, steps_different;
both first_different;

/// Single-steps a call through a PLT entry that is not bound yet. The steps include the loader that binds it, a
/// callback, and all prologues and epilogues, so the unwind rules of each of these addresses are tested.
TEST_F(unwind, at_every_instruction) {
  constexpr greg_t single_step = 0x100;
  static volatile bool enough;
  [[maybe_unused]] static volatile int sink;
  const handler begin(
      SIGUSR1,
      [](int, siginfo_t*, void* context) {
        static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] |= single_step;
      },
      0);
  const handler each(
      SIGTRAP,
      [](int, siginfo_t*, void* context) {
        both b;
        b.take();
        const int n = std::min<int>(b.depth, call_chain::longest);
        bool same = b.ours.length == unsigned(n) && b.ours.cut == (b.depth > n);
        for (int i = 1; i < n; i++)
          same = same && b.ours.pc[i] == reinterpret_cast<std::uint64_t>(b.theirs[i]) + (i == 3);
        if (!same && steps_different++ == 0) first_different = b;
        steps++;
        if (enough) static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~single_step;
      },
      0);
  steps = steps_different = 0;
  in_comparison = [] { over_aligned([] { sink = 1; }); };
  for (int again = 0; again < 2; again++) {
    int numbers[2] = {2, 1};
    enough = false;
    raise(SIGUSR1);
    sink = wcscoll(L"a", L"b");
    qsort(numbers, 2, sizeof(int), compare_ints);
    over_aligned_with_arguments(
        1, 2, 3, 4, 5, [] { sink = 2; }, 77, 8);
    enough = true;
    sink = 3;
  }
  EXPECT_GT(steps, 500u);
  EXPECT_EQ(steps_different, 0u) << "of " << steps << ", the first at " << first_different.theirs[3];
  if (steps_different != 0) first_different.compare({3});
}

#endif

// ---- stacks ---------------------------------------------------------------------------------------------------------

TEST_F(unwind, thread) {
  static both b;
  pthread_attr_t a;
  pthread_attr_init(&a);
  for (const std::size_t size : {std::size_t(PTHREAD_STACK_MIN), std::size_t{1} << 20}) {
    pthread_attr_setstacksize(&a, size);
    pthread_t t{};
    b = {};
    ASSERT_EQ(pthread_create(
                  &t, &a, [](void*) -> void* { return b.take(), nullptr; }, nullptr),
              0);
    pthread_join(t, nullptr);
    b.compare();
    EXPECT_FALSE(b.ours.cut);
    EXPECT_GE(b.ours.length, 3u);
  }
}

TEST_F(unwind, fork) {
  const pid_t child = ::fork();
  if (child == 0) {
    both b;
    recurse(3, [&] { b.take(); });
    bool same = b.ours.length == unsigned(b.depth);
    for (unsigned i = 1; same && i < b.ours.length; i++)
      same = b.ours.pc[i] == reinterpret_cast<std::uint64_t>(b.theirs[i]);
    _exit(same ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

/// Many threads at once use the process-wide table of unwind rules, and fill it: in the child process it is empty at
/// first.
TEST_F(unwind, threads_at_once) {
  const pid_t child = ::fork();
  if (child == 0) {
    static std::atomic<unsigned> different;
    pthread_t threads[4];
    for (pthread_t& t : threads)
      pthread_create(
          &t, nullptr,
          [](void*) -> void* {
            for (int i = 0; i < 200; i++) {
              both b;
              recurse(unsigned(i % 8), [&] {
                if (i % 3 == 0)
                  with_alloca(100, [&] { b.take(); });
                else if (i % 3 == 1)
                  over_aligned([&] { b.take(); });
                else
                  over_aligned_with_arguments(
                      1, 2, 3, 4, 5, [&] { b.take(); }, 77, 8);
              });
              bool same = b.ours.length == unsigned(b.depth) && !b.ours.cut;
              for (int k = 1; same && k < b.depth; k++)
                same = b.ours.pc[k] == reinterpret_cast<std::uint64_t>(b.theirs[k]);
              if (!same) different++;
            }
            return nullptr;
          },
          nullptr);
    for (const pthread_t t : threads) pthread_join(t, nullptr);
    _exit(different == 0 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

/// One module is loaded at the addresses of another, which was unloaded. Its frames have another size, so the old
/// module's unwind rules must not be used.
TEST_F(unwind, module_in_the_place_of_another) {
  using function = void(void (*)(void*), void*);
  void* places[2];
  for (int i = 0; i < 2; i++) {
    void* const module = dlopen(i == 0 ? UNWIND_MODULE_1 : UNWIND_MODULE_2, RTLD_NOW);
    ASSERT_NE(module, nullptr) << dlerror();
    auto* const f = reinterpret_cast<function*>(dlsym(module, "through_the_module"));
    places[i] = reinterpret_cast<void*>(f);
    both b;
    f([](void* p) { static_cast<both*>(p)->take(); }, &b);
    b.compare();
    dlclose(module);
  }
  if (places[0] != places[1]) GTEST_SKIP() << "the second module was loaded elsewhere";
}

ucontext_t outside, fiber;
call_chain from_fiber;
KEEP void run_fiber() {
  stack_bounds none{};
  capture(from_fiber, none);
  NO_TAIL_CALL;
}

TEST_F(unwind, fiber_and_the_stack_it_takes) {
  for (int again = 0; again < 2; again++) {
    const pages stack(16 << 10);
    std::memset(stack.begin(), 0x5a, 16 << 10);
    getcontext(&fiber);
    fiber.uc_stack.ss_sp = stack.begin();
    fiber.uc_stack.ss_size = 16 << 10;
    fiber.uc_link = &outside;
    makecontext(&fiber, run_fiber, 0);
    swapcontext(&outside, &fiber);
    EXPECT_TRUE(from_fiber.cut);  // glibc's tables do not mark the end of the stack
    EXPECT_EQ(from_fiber.length, 2u);
    const auto untouched = std::find_if(stack.begin(), stack.end(), [](char c) { return c != 0x5a; }) - stack.begin();
    EXPECT_LT((16 << 10) - untouched, 4096);
  }
}

TEST_F(unwind, garbage_at_the_end_of_a_stack) {
  std::mt19937_64 random(1);
  const pages stack(32 << 10), other(4096);
  const auto top = reinterpret_cast<std::uint64_t>(stack.end());
  const auto heap = std::make_unique<std::uint64_t[]>(64);
  const std::uint64_t frames[] = {0,
                                  1,
                                  8,
                                  top - 8,
                                  top - 16,
                                  top - 64,
                                  top - 63,
                                  top,
                                  top + 8,
                                  top - 20000,
                                  ~0ull,
                                  ~7ull,
                                  1ull << 63,
                                  reinterpret_cast<std::uint64_t>(other.begin()),
                                  reinterpret_cast<std::uint64_t>(heap.get()),
                                  reinterpret_cast<std::uint64_t>(&on_stack)};
  for (const std::uint64_t frame : frames) {
    for (int i = 0; i < 20; i++) {
      std::generate_n(reinterpret_cast<std::uint64_t*>(stack.begin()), (32 << 10) / 8, [&]() -> std::uint64_t {
        switch (random() % 8) {
          case 0:
            return 0;
          case 1:
            return top - random() % 4096;
          case 2:
            return (top - random() % 4096) & ~15ull;
          case 3:
            return reinterpret_cast<std::uint64_t>(&on_stack) + random() % 1000;
          case 4:
            return reinterpret_cast<std::uint64_t>(&qsort) + random() % 100000;
          case 5:
            return reinterpret_cast<std::uint64_t>(&pthread_create) + random() % 1000000;
          case 6:
            return top + random() % 4096;
          default:
            return random() >> random() % 64;
        }
      });
      call_chain c;
      // In every second round the remembered bounds contain a page above the stack, as if the page had once been part
      // of it.
      if (i % 2 != 0) remembered = {reinterpret_cast<std::uintptr_t>(stack.begin()), top + 4096};
      on_stack(take_chain, &c, stack.end() - 64, frame);
      remembered = {};
      ASSERT_GE(c.length, 2u);
      EXPECT_GE(c.pc[1], reinterpret_cast<std::uint64_t>(&on_stack));
      EXPECT_LT(c.pc[1], reinterpret_cast<std::uint64_t>(&on_stack) + 64);
      if (frame == 0 || frame >= top || frame % 8 != 0) {
        EXPECT_EQ(c.length, 2u) << frame;
        // The zeros in `other` look like the end of a stack, so a chain that reaches them is not cut.
        EXPECT_TRUE(c.cut || frame == reinterpret_cast<std::uint64_t>(other.begin())) << frame;
      }
    }
  }
}

call_chain taken;
KEEP void take() {
  stack_bounds none{};
  capture(taken, none);
  NO_TAIL_CALL;
}

TEST_F(unwind, tables_that_lie) {
  using liar = void (*)(void (*)());
  const auto check = [](liar f) {
    for (int again = 0; again < 2; again++) {
      f(take);
      ASSERT_GE(taken.length, 2u);
      EXPECT_GE(taken.pc[1], reinterpret_cast<std::uint64_t>(f));
      EXPECT_LT(taken.pc[1], reinterpret_cast<std::uint64_t>(f) + 32);
    }
  };
  for (const liar f : {lying_odd, lying_below, lying_still, lying_unknown, lying_endless}) {
    check(f);
    EXPECT_TRUE(taken.cut);
    EXPECT_EQ(taken.length, 2u);
  }
  for (const liar f : {lying_far, lying_register, lying_expression}) check(f);
  check(restoring);
  EXPECT_GT(taken.length, 5u);
  EXPECT_FALSE(taken.cut);
}

KEEP void take_it(void (*f)()) {
  f();
  NO_TAIL_CALL;
}

TEST_F(unwind, code_without_tables) {
  auto* code = static_cast<char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::memcpy(code, with_frame, sizeof with_frame);
  std::memcpy(code + 64, with_wrong_frame, sizeof with_wrong_frame);
  mprotect(code, 4096, PROT_READ | PROT_EXEC);
  __builtin___clear_cache(code, code + 4096);
  const auto at = reinterpret_cast<std::uint64_t>(code);
  void (*call)(void (*)()) = take_it;
  const auto run = [&] {
    recurse(2, [&] {
      call(take);
      NO_TAIL_CALL;
    });
  };
  run();  // first take_it(), which has unwind tables, in place of the generated code
  const call_chain reference = taken;
  call = reinterpret_cast<void (*)(void (*)())>(code);
  run();
  ASSERT_GE(taken.length, 3u);
  EXPECT_EQ(taken.pc[1], at + returns_at);
  EXPECT_EQ(taken.pc[2], reference.pc[2]);
  if (usher::recorder::machine::frame_pointer_finds_sp) {
    EXPECT_FALSE(taken.cut);
    ASSERT_EQ(taken.length, reference.length);
    for (unsigned i = 3; i < taken.length; i++) EXPECT_TRUE(taken.pc[i] == reference.pc[i] || i == 6) << "frame " << i;
  } else {  // finds only the callers that keep a frame pointer
    for (unsigned i = 3; i < taken.length; i++)
      EXPECT_EQ(std::count(reference.pc, reference.pc + reference.length, taken.pc[i]), 1) << "frame " << i;
  }
  call = reinterpret_cast<void (*)(void (*)())>(code + 64);
  run();
  EXPECT_TRUE(taken.cut);
  ASSERT_EQ(taken.length, 2u);
  EXPECT_EQ(taken.pc[1], at + 64 + wrong_returns_at);
  munmap(code, 4096);
}

/// Unwinds with every entry of this program's tables, first unchanged and then with bytes changed at random. The pages
/// before and after the copy are not readable, so an access outside its bounds ends the test.
TEST_F(unwind, tables_with_errors) {
  using namespace usher::recorder;
  dl_find_object object;
  ASSERT_EQ(_dl_find_object(reinterpret_cast<void*>(&take_chain), &object), 0);
  const auto from = reinterpret_cast<std::uintptr_t>(__ehdr_start);
  const std::uintptr_t size = (reinterpret_cast<std::uintptr_t>(_end) - from + 4095) & ~4095ul;
  const auto code = reinterpret_cast<std::uintptr_t>(&take_chain) - from;
  const pages copy(size);
  usher::recorder::readable_memory all;
  for (std::uintptr_t p = 0; p < size; p += 4096) {
    if (all.has(from + p, 8)) std::memcpy(copy.begin() + p, reinterpret_cast<const void*>(from + p), 4096);
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(copy.begin());
  usher::recorder::readable_memory memory(begin, begin + size);
  const usher::recorder::tables in(begin + (reinterpret_cast<std::uintptr_t>(object.dlfo_eh_frame) - from), &memory,
                                   begin, begin + size);
  usher::recorder::rule_room room;
  const usher::recorder::frame_rules& rules = room.rules;
  ASSERT_TRUE(find_rules(in, begin + code, room));
  EXPECT_EQ(rules.of[machine::return_column].kind,
            machine::return_column == machine::pc ? frame_rules::at_offset : frame_rules::same);
  EXPECT_FALSE(find_rules(in, begin - 1, room));
  EXPECT_FALSE(find_rules(in, begin + size, room));

  std::mt19937 random(1);
  std::uint32_t frames = 0;
  std::memcpy(&frames, reinterpret_cast<const void*>(in.header + 8), 4);
  unsigned found = 0, failed = 0;
  usher::recorder::registers regs{};
  regs.known = ~std::uint64_t{0} >> (64 - usher::recorder::registers::number);
  std::fill(std::begin(regs.r), std::end(regs.r), reinterpret_cast<std::uintptr_t>(&regs));
  for (int i = 0; i < 40000; i++) {
    // Changes a random byte in a row of the table, or in the unwind entry to which the row points.
    std::int32_t row[2];
    const std::uintptr_t row_at = in.header + 12 + random() % frames * 8;
    std::memcpy(row, reinterpret_cast<const void*>(row_at), 8);
    const std::uintptr_t entry = in.header + std::uintptr_t(std::intptr_t{row[1]});
    auto* const change =
        reinterpret_cast<unsigned char*>(random() % 16 == 0 ? row_at + random() % 8 : entry + random() % 48);
    if (change < reinterpret_cast<unsigned char*>(begin) || change >= reinterpret_cast<unsigned char*>(begin + size))
      continue;
    const unsigned char before = *change;
    *change = static_cast<unsigned char>(random());
    const std::uint64_t address = in.header + std::uintptr_t(std::intptr_t{row[0]}) + random() % 64;
    if (usher::recorder::find_rules(in, address, room)) {
      found++;
      std::uint64_t value = 0;
      if (rules.cfa.kind == usher::recorder::frame_rules::is_expression)
        usher::recorder::evaluate(in, rules.cfa.value, regs, nullptr, all, room, value);
      usher::recorder::evaluate(in, std::int32_t(entry - in.header + random() % 48), regs, &value, all, room, value);
    } else {
      failed++;
    }
    *change = before;
  }
  EXPECT_GT(found, 1000u);
  EXPECT_GT(failed, 1000u);
}

using bytes = std::vector<unsigned char>;

/// A header of unwind tables, and one CIE and one FDE, which end at the end of readable memory.
class handmade_tables {
 public:
  std::string augmentation = "zR";
  unsigned char column = usher::recorder::machine::return_column, data_align = 0x78;  // -8
  std::uint32_t rows = 1;
  std::int32_t longer = 0, cie_moves = 0;  ///< errors in the FDE's length, and in its distance from the CIE
  std::uint64_t code() const { return header() + 0x10000; }
  usher::recorder::rule_room room;

  /// Returns whether the instructions give unwind rules for the address at this distance from the beginning of the
  /// code.
  bool find(const bytes& common, const bytes& own, unsigned distance = 0) {
    bytes cie{0, 0, 0, 0, 1};
    cie.insert(cie.end(), augmentation.c_str(), augmentation.c_str() + augmentation.size() + 1);
    for (const unsigned char c : {1, int{data_align}, int{column}, 1, 0x1b}) cie.push_back(c);
    cie.insert(cie.end(), common.begin(), common.end());
    bytes fde(13);
    fde.insert(fde.end(), own.begin(), own.end());
    auto* const cie_at = reinterpret_cast<unsigned char*>(memory_.end()) - fde.size() - cie.size() - 8;
    auto* const fde_at = cie_at + 4 + cie.size();
    put(cie_at, std::uint32_t(cie.size()));
    std::copy(cie.begin(), cie.end(), cie_at + 4);
    std::copy(fde.begin(), fde.end(), fde_at + 4);
    put(fde_at, std::uint32_t(fde.size()) + std::uint32_t(longer));
    put(fde_at + 4, std::uint32_t(fde_at + 4 - cie_at) + std::uint32_t(cie_moves));
    put(fde_at + 8, std::uint32_t(code() - reinterpret_cast<std::uint64_t>(fde_at + 8)));
    put(fde_at + 12, 0x100);
    auto* const head = reinterpret_cast<unsigned char*>(memory_.begin());
    put(head, 0x3b031b01);
    put(head + 8, rows);
    put(head + 12, 0x10000);
    put(head + 16, std::uint32_t(fde_at - head));
    return usher::recorder::find_rules(in(), code() + distance, room);
  }
  /// Returns whether the expression has a result. It lies at the end of readable memory.
  bool evaluate(const bytes& expression, std::uint64_t& result) {
    usher::recorder::registers regs{};
    regs.known = ~std::uint64_t{0} >> (64 - usher::recorder::registers::number);
    auto* const at = reinterpret_cast<unsigned char*>(memory_.end()) - expression.size();
    std::copy(expression.begin(), expression.end(), at);
    return usher::recorder::evaluate(in(), std::int32_t(reinterpret_cast<std::uint64_t>(at) - header()), regs, nullptr,
                                     readable_, room, result);
  }

 private:
  std::uint64_t header() const { return reinterpret_cast<std::uint64_t>(memory_.begin()); }
  usher::recorder::tables in() { return {header(), &readable_, header(), header() + 4096}; }
  static void put(unsigned char* at, std::uint32_t value) { std::memcpy(at, &value, 4); }

  pages memory_{4096};
  usher::recorder::readable_memory readable_{header(), header() + 4096};
};

constexpr bool signs = usher::recorder::machine::signs_returns;

/// The tables' instructions about a signed return address: negate_ra_state (0x2d) and negate_ra_state_with_pc (0x2c).
/// x86-64 knows neither.
TEST(unwind_tables, signed_return) {
  handmade_tables t;
  constexpr unsigned char advance = 0x44, remember = 0x0a, restore = 0x0b, cfa = 0x0c,
                          sp = usher::recorder::machine::sp;
  EXPECT_TRUE(t.find({cfa, sp, 16}, {}));
  EXPECT_FALSE(t.room.rules.signed_return);
  const bytes own{0x2d, advance, 0x2d, advance, remember, 0x2c, advance, restore, advance};
  for (const unsigned distance : {0u, 4u, 8u, 12u, 16u}) {
    ASSERT_EQ(t.find({cfa, sp, 16}, own, distance), signs);
    EXPECT_TRUE(!signs || t.room.rules.signed_return == (distance == 0 || distance == 8)) << distance;
  }
  ASSERT_EQ(t.find({cfa, sp, 16, 0x2d}, {advance, 0x2d}, 0), signs);
  EXPECT_TRUE(!signs || t.room.rules.signed_return);
  for (const char* letters : {"zRB", "zRG", "zRGB"}) {
    t.augmentation = letters;
    EXPECT_EQ(t.find({cfa, sp, 16}, {}), signs) << letters;
  }
}

/// The attacker has written the tables of a module.
TEST(unwind_tables, hostile_tables) {
  const bytes good{0x0c, usher::recorder::machine::sp, 16};
  const auto find = [&](const bytes& own) { return handmade_tables().find(good, own); };
  EXPECT_TRUE(find({}));
  EXPECT_TRUE(find({0x0a, 0x0a, 0x0a, 0x0a}));
  EXPECT_FALSE(find({0x0a, 0x0a, 0x0a, 0x0a, 0x0a})) << "more states than there is room for";
  EXPECT_FALSE(find({0x0a, 0x0b, 0x0b})) << "a state that was not remembered";
  EXPECT_FALSE(find({0x3f})) << "an unknown instruction";
  EXPECT_FALSE(find({0x0e, 0x80, 0x80, 0x80})) << "a number without an end";
  EXPECT_FALSE(find({0x0f, 0xff, 0xff, 0x03})) << "an expression without an end";
  EXPECT_FALSE(find({0x0c, 0x80, 1, 16})) << "the CFA at a register that does not exist";
  EXPECT_FALSE(find({0x0c, 0x80 | usher::recorder::machine::sp, 0x80, 0x80, 0x80, 0x10, 16})) << "the same, plus 2^32";
  EXPECT_FALSE(find({0x0e, 0x80, 0x80, 0x80, 0x80, 0x10})) << "the CFA far away";
  EXPECT_FALSE(find({0x83, 0x80, 0x80, 0x80, 0x80, 0x10})) << "a register far away";
  EXPECT_TRUE(find({0x05, 0x80, 1, 1, 0x06, 0x80, 1, 0x07, 0xff, 0xff, 0xff, 0xff, 0x7f}))
      << "rules of registers that are not followed";

  const auto refused = [&](auto set) {
    handmade_tables t;
    set(t);
    return !t.find(good, {});
  };
  EXPECT_FALSE(refused([](handmade_tables&) {}));
  EXPECT_TRUE(refused([](handmade_tables& t) { t.column ^= 1; }));
  EXPECT_TRUE(refused([](handmade_tables& t) { t.augmentation = "zRQ"; }));
  EXPECT_TRUE(refused([](handmade_tables& t) { t.augmentation = "zRSSSSSSSS"; }));
  EXPECT_TRUE(refused([](handmade_tables& t) { t.rows = 0; }));
  EXPECT_TRUE(refused([](handmade_tables& t) { t.rows = ~0u; }));
  for (const std::int32_t wrong : {1, 4096, -13, -12, 0x7fffffff})
    EXPECT_TRUE(refused([=](handmade_tables& t) { t.longer = wrong; })) << wrong;
  for (const std::int32_t wrong : {8192, -8192, 1, -4, 0x7fffffff})
    EXPECT_TRUE(refused([=](handmade_tables& t) { t.cie_moves = wrong; })) << wrong;
  handmade_tables far;
  far.data_align = 0x7f;  // -1
  EXPECT_TRUE(far.find(good, {0x83, 8}));
  EXPECT_FALSE(far.find(good, {0x83, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}));

  handmade_tables t;
  std::uint64_t value = 0;
  EXPECT_TRUE(t.evaluate({3, 0x08, 7, 0x96}, value));
  EXPECT_EQ(value, 7u);
  EXPECT_TRUE(t.evaluate({3, 0x92, usher::recorder::machine::sp, 5}, value));
  EXPECT_EQ(value, 5u);
  EXPECT_FALSE(t.evaluate({7, 0x92, 0x80 | usher::recorder::machine::sp, 0x80, 0x80, 0x80, 0x10, 0}, value))
      << "register 2^32 + sp";
  EXPECT_FALSE(t.evaluate({1, 0x13}, value)) << "drops a value that is not there";
  EXPECT_FALSE(t.evaluate({3, 0x31, 0x15, 1}, value)) << "picks one";
  EXPECT_FALSE(t.evaluate({1, 0x08}, value)) << "an operand behind the end";
  EXPECT_FALSE(t.evaluate({3, 0x2f, 0xfd, 0xff}, value)) << "jumps to itself";
  EXPECT_FALSE(t.evaluate({3, 0x2f, 0xfc, 0xff}, value)) << "jumps out";
  EXPECT_FALSE(t.evaluate(bytes(18, 0x31), value)) << "a length behind the end";
  bytes many(18, 0x31);
  many[0] = 17;
  EXPECT_FALSE(t.evaluate(many, value)) << "more values than there is room for";
}

// ---- capture() calls no forbidden function and changes no state -----------------------------------------------------

TEST_F(unwind, no_allocation_no_lock_no_errno) {
  recurse(10, [] {
    for (const bool known : {false, true}) {
      call_chain c;
      stack_bounds none{};
      const unsigned before = forbidden_calls;
      errno = 12345;
      capture(c, known ? bounds : none);
      EXPECT_EQ(errno, 12345);
      EXPECT_EQ(forbidden_calls, before);
    }
  });
  const unsigned before = forbidden_calls;
  std::free(std::malloc(1));
  EXPECT_EQ(forbidden_calls, before + 2);  // two such calls, to show that the counters work
}

TEST_F(unwind, in_a_sandbox_the_caller_remains) {
  const pid_t child = ::fork();
  if (child == 0) {
    sock_filter refuse[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program{4, refuse};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(0);
    call_chain c;
    stack_bounds none{};
    capture(c, none);
    _exit(c.length == 1 && c.cut ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(unwind, find_module) {
  static int in_the_program;
  int on_the_stack = 0;
  const auto in_the_heap = std::make_unique<int>();
  const auto is_in_module = [](const void* p) {
    usher::recorder::loaded_module m;
    return usher::recorder::find_module(reinterpret_cast<std::uintptr_t>(p), m) == usher::recorder::lookup::found;
  };
  EXPECT_TRUE(is_in_module(&in_the_program));
  EXPECT_TRUE(is_in_module(stdout));
  EXPECT_TRUE(is_in_module(reinterpret_cast<void*>(&qsort)));
  EXPECT_FALSE(is_in_module(&on_the_stack));
  EXPECT_FALSE(is_in_module(in_the_heap.get()));
  EXPECT_FALSE(is_in_module(nullptr));
}

}  // namespace
