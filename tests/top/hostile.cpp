// A program that does to `usher top` what it can: threads that sleep on words which other threads flip, on memory that is
// unmapped, and under names with escapes, markup and right-to-left marks; threads and processes that come and go; stacks
// that point into each other. It starts itself anew by exec, and ends after some seconds.
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <thread>

namespace {

std::uint32_t words[4096];
std::atomic<bool> is_over;

const char* const names[] = {"\x1b[2J\x1b]0;x\x07",
                             "<b>&amp;\"'",
                             "\xe2\x80\xae"
                             "gnp.exe",
                             "a) S 1 2 (b",
                             "\n\n\r",
                             "\xff\xfe\xc3",
                             "%s%n%x",
                             ""};

long futex(void* at, int operation, std::uint32_t value, const timespec* limit) {
  return syscall(SYS_futex, at, operation, value, limit, nullptr, ~0u);
}

/// Sleeps on a word that looks like a mutex of glibc's, held by a thread that lives or not.
void sleep_on_words(unsigned seed) {
  std::minstd_rand random(seed);
  while (!is_over) {
    prctl(PR_SET_NAME, names[random() % std::size(names)]);
    std::uint32_t* const m = &words[random() % 4000];
    const std::uint32_t value = random() % 3;
    m[0] = value;
    m[1] = random() % 4;
    m[2] = static_cast<std::uint32_t>(random() % 2 != 0 ? syscall(SYS_gettid)
                                                        : getpid() + static_cast<int>(random() % 64));
    m[3] = 1;
    m[4] = random() % 2 != 0 ? random() & 0xff : 0;
    const int operations[] = {FUTEX_WAIT_PRIVATE, FUTEX_WAIT, FUTEX_WAIT_BITSET_PRIVATE, FUTEX_WAIT_BITSET};
    const timespec limit{0, static_cast<long>(random() % 300'000'000)};
    futex(m, operations[random() % 2], value, &limit);
  }
}

void flip(unsigned seed) {
  std::minstd_rand random(seed);
  while (!is_over) {
    for (int i = 0; i < 1000; i++) __atomic_store_n(&words[random() % std::size(words)], random(), __ATOMIC_RELAXED);
    usleep(500);
  }
}

/// Sleeps on a word of a mapping that another thread unmaps meanwhile.
void sleep_on_unmapped() {
  while (!is_over) {
    void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::thread remover([page] {
      usleep(20000);
      munmap(page, 4096);
    });
    const timespec limit{0, 100'000'000};
    futex(page, FUTEX_WAIT_PRIVATE, 0, &limit);
    remover.join();
  }
}

/// A stack whose words all look like frames of the same stack.
void* with_forged_stack(void*) {
  volatile std::uint64_t stack[512];
  for (std::size_t i = 0; i < std::size(stack); i++)
    stack[i] = i % 2 == 0 ? reinterpret_cast<std::uint64_t>(&stack[(i + 2) % std::size(stack)])
                          : reinterpret_cast<std::uint64_t>(&with_forged_stack) + 8;
  while (!is_over) usleep(100000);
  return nullptr;
}

void come_and_go(unsigned seed) {
  std::minstd_rand random(seed);
  while (!is_over) {
    std::thread([] { usleep(1000); }).join();
    if (random() % 64 != 0) continue;
    if (const pid_t child = fork(); child == 0)
      _exit(0);
    else if (child > 0)
      waitpid(child, nullptr, 0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  alarm(20);
  std::random_device seeds;
  std::minstd_rand random(seeds());
  for (int i = 0; i < 12; i++) std::thread(sleep_on_words, seeds()).detach();
  std::thread(flip, seeds()).detach();
  for (int i = 0; i < 2; i++) std::thread(sleep_on_unmapped).detach();
  std::thread(come_and_go, seeds()).detach();
  pthread_t forged;
  pthread_create(&forged, nullptr, with_forged_stack, nullptr);
  usleep(100000 + random() % 600000);
  if (argc == 1 && random() % 2 != 0) execl("/proc/self/exe", argv[0], "again", nullptr);
  usleep(100000 + random() % 2000000);
  _exit(0);
}
