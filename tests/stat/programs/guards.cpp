// Critical sections in which the guard's unlock is the last call of a function. At -O2 this unlock is a tail call, so
// the stack recorded for the holder begins with the function's caller. The program is built with and without debug
// information.
//
//     guards thread    the caller is the C++ library's thread routine
//     guards loop      the caller is a loop of the program
//     guards inlined   the guard is inlined, and its unlock is an ordinary call
#include <time.h>

#include <mutex>
#include <string_view>
#include <thread>

namespace {

std::mutex ledger;
volatile int entries = 0;

void sleep_ms(long ms) {
  const timespec t{0, ms * 1000000};
  nanosleep(&t, nullptr);
}

[[gnu::noinline]] void append_entry() {
  const std::lock_guard guard(ledger);  // mark: guard waits
  sleep_ms(4);
  entries = entries + 1;
}

[[gnu::noinline]] void append_entries() {
  for (int i = 0; i < 25; i++) append_entry();
  entries = entries - 1;
}

[[gnu::noinline]] int read_entries() {
  int sum = 0;
  for (int i = 0; i < 25; i++) {
    const std::lock_guard guard(ledger);
    sleep_ms(4);
    sum += entries;
  }  // mark: inlined guard's end
  return sum;
}

template <class F>
void in_two_threads(F f) {
  std::thread one(f), other(f);
  one.join();
  other.join();
}

}  // namespace

int main(int, char** words) {
  const std::string_view which = words[1];
  if (which == "thread")
    for (int i = 0; i < 25; i++) in_two_threads(append_entry);
  if (which == "loop") in_two_threads(append_entries);
  if (which == "inlined") in_two_threads(read_entries);
}
