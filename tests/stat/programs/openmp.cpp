// An OpenMP program: all threads but one wait at a barrier for the last one. libgomp implements its barriers by futex
// calls of its own.
#include <time.h>

#include <cstdlib>

namespace {

void nap() {
  const timespec t{0, 20'000'000};
  nanosleep(&t, nullptr);
}

[[gnu::noinline]] void meet(bool is_late) {
  if (is_late) nap();
#pragma omp barrier
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 50;
#pragma omp parallel num_threads(4)
  {
    bool is_late = false;
#pragma omp single nowait
    is_late = true;
    for (int i = 0; i < rounds; i++) meet(is_late);
  }
  return 0;
}
