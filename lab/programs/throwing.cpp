// The benchmark "throw" of TWA (extended), §4.3: threads throw an integer and catch it repeatedly, with no pause. The
// C++ runtime of that time took mutexes to find the tables of a frame. Today's runtime (libgcc 12, glibc 2.35) takes
// none; unwind_lock.cpp restores one.
#include "options.hpp"
#include "team.hpp"

int main(int argc, char** argv) {
  long threads = 2;
  workloads::budget limit;
  workloads::options o("throwing", "threads throw and catch");
  o.number("threads", threads, 1, 4096, "threads (2)");
  o.real("seconds", limit.seconds, 0.01, 86400, "how long (2)");
  o.number("operations", limit.operations, 1, 1L << 40, "this many exceptions in all instead");
  o.parse(argc, argv);

  const workloads::team_result result = workloads::run_team(threads, limit, [](long index, workloads::allowance& mine) {
    while (mine.another()) {
      try {
        throw index;
      } catch (const long caught) {
        if (caught != index) workloads::fail("another thread's exception was caught");
      }
    }
  });
  std::printf("throughput: %.0f exceptions/s\n", result.rate());
  return 0;
}
