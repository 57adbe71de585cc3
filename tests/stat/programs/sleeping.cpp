// Programs whose threads sleep, or wait for a CPU, in known ways. `sleeping WAY THREADS SECONDS` has that many threads,
// which sleep until the program has run for the time, while the main thread sleeps in nanosleep. For `busy` the threads
// compute instead, and the program prints how many steps they made.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

void compute() {
  std::uint64_t n = 0;
  for (; !is_over.load(std::memory_order_relaxed); n++)
    for (int i = 0; i < 1000; i++) asm volatile("");
  steps += n;
}

/// Sleeps with a stack pointer at the end of its mapping, behind which nothing is mapped.
void sleep_at_the_edge() {
#if defined(__x86_64__)
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* const stack =
      static_cast<char*>(mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  munmap(stack + 2 * page, page);
  pollfd p{ends[0], POLLIN, 0};
  long result = 7;  // SYS_poll
  // The stack pointer is in the hole while the call sleeps.
  asm volatile(
      "mov %%rsp, %%r12\n\t"
      "mov %[hole], %%rsp\n\t"
      "syscall\n\t"
      "mov %%r12, %%rsp"
      : "+a"(result)
      : "D"(&p), "S"(1L), "d"(-1L), [hole] "r"(stack + 2 * page)
      : "rcx", "r11", "r12", "memory");
#else
  pollfd p{ends[0], POLLIN, 0};
  poll(&p, 1, -1);
#endif
}

void sleep_in(const char* way) {
  const auto is = [way](const char* name) { return std::strcmp(way, name) == 0; };
  pollfd p{ends[0], POLLIN, 0};
  char c = 0;
  if (is("library")) sleep_in_library(&word);
  if (is("atomic")) flag.wait(0);
  if (is("poll")) poll(&p, 1, -1);
  if (is("read") && read(ends[0], &c, 1) < 0) std::abort();
  if (is("edge")) sleep_at_the_edge();
  if (is("busy")) compute();
  if (is("mutex")) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
  }
  if (is("condition")) {
    pthread_mutex_lock(&mutex);
    while (!is_signalled) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
  }
  // Threads that end while they are looked at.
  while (is("brief") && !is_over) std::thread([] {}).join();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const char* const way = arguments[1];
  const int threads = std::atoi(arguments[2]);
  if (pipe(ends) != 0) return 1;
  const bool is_mutex = std::strcmp(way, "mutex") == 0;
  pthread_mutex_lock(&mutex);  // a recorded call, and what the threads of `mutex` wait for
  if (!is_mutex) pthread_mutex_unlock(&mutex);
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
  if (std::strcmp(way, "join") != 0) sleep_seconds(std::atof(arguments[3]));
  is_over = true;
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
  std::printf("%llu\n", static_cast<unsigned long long>(steps.load()));
  return 0;
}
