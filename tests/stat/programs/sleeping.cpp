// Programs whose threads sleep, or wait for a CPU, in known ways. `sleeping WAY THREADS SECONDS` starts THREADS threads
// that sleep in the way WAY for SECONDS seconds; the main thread sleeps in nanosleep. Some ways differ. `busy`: the
// threads compute. `crowd`: one more thread computes while the others sleep. `pinned`: each thread, also the main
// thread, sleeps and may run on one CPU only, a different CPU for each thread. `one-cpu`: the threads compute, all on
// one CPU, and hold a mutex for half of the time; the main thread may run on all CPUs. At the end the program prints
// the number of computed steps and its CPU time.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>

#include "sleeping_library.hpp"

namespace {

std::atomic<std::uint32_t> word{0};
std::atomic<int> flag{0};
std::atomic<bool> is_over{false};
std::atomic<std::uint64_t> steps{0};
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
bool is_signalled = false;
int ends[2];

void sleep_seconds(double seconds) {
  timespec t{static_cast<time_t>(seconds),
             static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
  while (nanosleep(&t, &t) != 0) continue;
}

void compute_steps(int n) {
  for (int i = 0; i < 1000 * n; i++) asm volatile("");
}

void compute() {
  std::uint64_t n = 0;
  for (; !is_over.load(std::memory_order_relaxed); n++) compute_steps(1);
  steps += n;
}

/// Sets the stack pointer to `stack` and sleeps in the system call `poll`, at the system-call instruction in the C
/// library's function syscall(). The observer searches this stack for the caller of syscall(). Does not return.
void sleep_with_stack(void* stack) {
  pollfd p{ends[0], POLLIN, 0};
#if defined(__x86_64__)
  const auto* code = reinterpret_cast<const unsigned char*>(&syscall);
  while (code[0] != 0x0f || code[1] != 0x05) code++;  // the instruction
  asm volatile(
      "mov %[stack], %%rsp\n\t"
      "jmp *%[code]"
      :
      : "a"(SYS_poll), "D"(&p), "S"(1L), "d"(-1L), [stack] "r"(stack), [code] "r"(code)
      : "memory");
#else
  (void)stack;
#endif
  for (;;) poll(&p, 1, -1);
}

constexpr std::size_t page = 4096;

char* new_pages(std::size_t n) {
  void* const pages = mmap(nullptr, n * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) std::abort();
  return static_cast<char*>(pages);
}

/// Returns an address in an unmapped page between two mapped pages.
char* hole() {
  char* const pages = new_pages(3);
  munmap(pages + page, page);
  return pages + page;
}

/// Returns a page whose content never arrives: another process that reads the page waits for ever.
char* absent_page() {
  char* const pages = new_pages(1);
  const int file = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC));
  uffdio_api api{};
  api.api = UFFD_API;
  uffdio_register range{};
  range.range = {reinterpret_cast<std::uintptr_t>(pages), page};
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (file < 0 || ioctl(file, UFFDIO_API, &api) != 0 || ioctl(file, UFFDIO_REGISTER, &range) != 0)
    std::fprintf(stderr, "no userfaultfd\n");
  return pages;
}

/// Restricts the calling thread to one of the process's CPUs, the next one at each call.
void pin() {
  static const cpu_set_t allowed = [] {
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all) != 0) std::abort();
    return all;
  }();
  static std::atomic<int> pinned{0};
  int left = pinned++ % CPU_COUNT(&allowed);
  std::size_t cpu = 0;
  while (!CPU_ISSET(cpu, &allowed) || left-- > 0) cpu++;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) std::abort();
}

/// Computes, half of the time with the mutex, on one CPU for all threads that call this function. A thread that loses
/// the CPU while it holds the mutex makes the others wait.
void compute_on_one_cpu() {
  cpu_set_t all, one;
  if (sched_getaffinity(0, sizeof all, &all) != 0) std::abort();
  std::size_t cpu = 0;
  while (!CPU_ISSET(cpu, &all)) cpu++;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) std::abort();
  while (!is_over.load(std::memory_order_relaxed)) {
    pthread_mutex_lock(&mutex);
    compute_steps(100);
    pthread_mutex_unlock(&mutex);
    compute_steps(100);
    steps += 200;
  }
}

void sleep_in(const char* way) {
  const auto is = [way](const char* name) { return std::strcmp(way, name) == 0; };
  pollfd p{ends[0], POLLIN, 0};
  char c = 0;
  if (is("library")) sleep_in_library(&word);
  if (is("atomic")) flag.wait(0);
  if (is("pinned")) pin();
  if (is("poll") || is("crowd") || is("pinned")) poll(&p, 1, -1);
  if (is("read") && read(ends[0], &c, 1) < 0) std::abort();
  if (is("hole")) sleep_with_stack(hole());
  if (is("absent")) sleep_with_stack(absent_page());
  if (is("busy")) compute();
  if (is("one-cpu")) compute_on_one_cpu();
  if (is("mutex")) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
  }
  if (is("condition")) {
    pthread_mutex_lock(&mutex);
    while (!is_signalled) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
  }
  // Starts threads that end while the observer samples them.
  while (is("brief") && !is_over) std::thread([] {}).join();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const char* const way = arguments[1];
  const int threads = std::atoi(arguments[2]);
  if (pipe(ends) != 0) return 1;
  const bool is_mutex = std::strcmp(way, "mutex") == 0;
  pthread_mutex_lock(&mutex);  // is recorded, and keeps the threads of the way `mutex` waiting
  if (!is_mutex) pthread_mutex_unlock(&mutex);
  if (std::strcmp(way, "pinned") == 0) pin();
  std::vector<pthread_t> all(static_cast<std::size_t>(threads));
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 65536);
  for (pthread_t& t : all)
    if (pthread_create(
            &t, &small,
            [](void* its_way) -> void* {
              sleep_in(static_cast<const char*>(its_way));
              return nullptr;
            },
            arguments[1]) != 0)
      return 1;
  std::thread computing;
  if (std::strcmp(way, "crowd") == 0) computing = std::thread(compute);
  sleep_seconds(std::atof(arguments[3]));
  is_over = true;
  if (computing.joinable()) computing.join();
  if (std::strcmp(way, "hole") == 0) _exit(0);
  if (is_mutex) pthread_mutex_unlock(&mutex);
  pthread_mutex_lock(&mutex);
  is_signalled = true;
  pthread_cond_broadcast(&condition);
  pthread_mutex_unlock(&mutex);
  flag = 1;
  flag.notify_all();
  wake_in_library(&word);
  close(ends[1]);
  for (const pthread_t t : all) pthread_join(t, nullptr);
  std::printf("%llu %.3f\n", static_cast<unsigned long long>(steps.load()),
              static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
  return 0;
}
