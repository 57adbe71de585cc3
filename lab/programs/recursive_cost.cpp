// Measures the cost of an uncontended lock and unlock of a recursive mutex at two levels: the mutex is free, or the
// thread already holds it. It is measured under libusher.so and with the C library's functions in the same process, in
// interleaved rounds. The program starts itself once for each size of the environment, which determines the address of
// the stack. At the second level, lock and unlock are a few loads that each follow a store to the same word, and their
// time depends on the addresses of other stores.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "mutex_kind.hpp"
#include "options.hpp"
#include "second_thread.hpp"

namespace {

using workloads::fail;
using call = int (*)(pthread_mutex_t*);

[[gnu::noinline, gnu::aligned(64)]] double pairs(call lock, call unlock, pthread_mutex_t& mutex, long iterations) {
  using clock = std::chrono::steady_clock;
  const clock::time_point start = clock::now();
  for (long i = 0; i < iterations; i++) {
    lock(&mutex);
    unlock(&mutex);
  }
  return std::chrono::duration<double, std::nano>(clock::now() - start).count() / double(iterations);
}

template <class F>
F c_library(const char* name) {
  // RTLD_NOLOAD: the library is already loaded, so no file is searched for, whatever paths the environment has.
  void* const library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  void* const found = library != nullptr ? dlsym(library, name) : nullptr;
  if (found == nullptr) fail(std::string("the C library has no ") + name);
  return reinterpret_cast<F>(found);
}

void measure(const std::string& kind, long rounds, long iterations, long padding) {
  struct alignas(128) place {
    pthread_mutex_t mutex;
  };
  static place places[2];
  workloads::initialise(places[1].mutex, kind);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, kind == "recursive" ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
  c_library<int (*)(pthread_mutex_t*, const pthread_mutexattr_t*)>("pthread_mutex_init")(&places[0].mutex, &attributes);
  const call lock[] = {c_library<call>("pthread_mutex_lock"), pthread_mutex_lock},
             unlock[] = {c_library<call>("pthread_mutex_unlock"), pthread_mutex_unlock};
  workloads::stop_being_alone();
  std::printf("%ld", padding);
  for (int level = 1; level <= (kind == "recursive" ? 2 : 1); level++) {
    std::vector<double> ratios, times[2];
    for (long r = 0; r < rounds; r++) {
      for (long i = 0; i < 2; i++) {
        const long which = (r + i) % 2;
        if (level == 2) lock[which](&places[which].mutex);
        pairs(lock[which], unlock[which], places[which].mutex, iterations / 10 + 1);  // warm-up
        times[which].push_back(pairs(lock[which], unlock[which], places[which].mutex, iterations));
        if (level == 2) unlock[which](&places[which].mutex);
      }
      ratios.push_back(times[1].back() / times[0].back());
    }
    std::sort(ratios.begin(), ratios.end());
    const double least[] = {*std::min_element(times[0].begin(), times[0].end()),
                            *std::min_element(times[1].begin(), times[1].end())};
    std::printf("  level %d: %.2f %.2f ns, ratio %.3f, median %.3f", level, least[0], least[1], least[1] / least[0],
                ratios[ratios.size() / 2]);
  }
  std::puts("");
}

}  // namespace

int main(int argc, char** argv) {
  long rounds = 101, iterations = 20000, sizes = 16, step = 16;
  std::string kind = "recursive";
  workloads::options o("recursive_cost",
                       "bytes added to the environment; for each level nanoseconds of a pair of the C "
                       "library's mutex and of the preload's, the ratio of the fastest rounds, and the "
                       "median of the rounds' ratios");
  o.number("rounds", rounds, 1, 1000000, "interleaved (101)");
  o.number("iterations", iterations, 1, 1L << 40, "pairs in a round (20000)");
  o.number("sizes", sizes, 1, 4096, "of the environment (16)");
  o.number("step", step, 1, 65536, "bytes from one size to the next (16)");
  o.text("kind", kind, "recursive or normal (recursive)");
  o.parse(argc, argv);
  constexpr char variable[] = "RECURSIVE_COST_PADDING";
  if (const char* const padding = std::getenv(variable)) {
    measure(kind, rounds, iterations, long(std::string(padding).size()) - 1);
    return 0;
  }
  personality(ADDR_NO_RANDOMIZE);  // so that only the environment moves the stack
  for (long i = 0; i < sizes; i++) {
    const pid_t child = fork();
    if (child == 0) {
      setenv(variable, std::string(std::size_t(1 + i * step), 'x').c_str(), 1);
      execv("/proc/self/exe", argv);
      _exit(1);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) fail("a run has failed");
  }
  return 0;
}
