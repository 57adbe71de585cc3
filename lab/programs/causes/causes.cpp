// A program with a known cause of waiting. It runs for a fixed time and prints its throughput. `--without CAUSE`
// removes the cause, so that the gain of the removal can be measured. The program consists of plain pthread code and is
// not linked to Usher.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "../options.hpp"
#include "known_work.hpp"

using namespace causes;

int main(int argc, char** argv) {
  bool calibrate = false;
  workloads::options o("causes", "a program with a known cause of waiting");
  o.text("shape", plan.shape, "what threads wait for, such as mutex or herd");
  o.text("without", plan.without, "remove this cause, such as lock or hold");
  o.number("threads", plan.threads, 1, 128, "(4)");
  o.text("hold", plan.hold_text, "the work in the section: none, cpu, sleep, io, file, yield (cpu)");
  o.real("hold-us", plan.hold_us, 0, 1e6, "its length (10)");
  o.text("gap", plan.gap_text, "the work between two sections (cpu)");
  o.real("gap-us", plan.gap_us, 0, 1e6, "its length (10)");
  o.number("objects", plan.objects, 1, 1024, "of which each operation takes a random one (1)");
  o.number("loaded", plan.loaded, 0, 100, "percent of the operations that take the same one of the objects (0)");
  o.number("writes", plan.writes, 0, 100, "percent of the operations on a read-write lock that write (10)");
  o.number("credits", plan.credits, 1, 1000, "of a pool (1)");
  o.number("skew", plan.skew, 1, 100, "of a barrier: the work of one thread, relative to the others' (4)");
  o.number("idle", plan.idle, 0, 64, "further threads that wait for nothing (0)");
  o.number("beside", plan.beside, 0, 1000000, "every so many operations another mutex is locked; 0: never (0)");
  o.text("folder", plan.folder, "for files (/var/tmp)");
  o.real("seconds", plan.seconds, 0.01, 600, "how long (1.5)");
  o.real("step-ns", plan.step_ns, 0, 1000, "length of a step of computing; 0: measured at the start (0)");
  o.flag("calibrate", calibrate, "print the length of a step and end");
  o.parse(argc, argv);
  if (calibrate) {
    std::printf("%.5f\n", measured_step_ns());
    return 0;
  }
  if (plan.step_ns == 0) plan.step_ns = measured_step_ns();
  plan.hold = way_of(plan.hold_text);
  plan.gap = way_of(plan.gap_text);

  using clock = std::chrono::steady_clock;
  const clock::time_point from = clock::now();
  if (!start_waiting(plan.shape) && !start_exclusion(plan.shape))
    workloads::fail("no shape is called " + plan.shape, 2);
  start_idle(plan.idle);
  std::this_thread::sleep_for(std::chrono::duration<double>(plan.seconds));  // the measured time
  const std::uint64_t done = operations();
  const double seconds = std::chrono::duration<double>(clock::now() - from).count();
  stop = true;
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  std::printf("{\"operations\": %lu, \"seconds\": %.4f, \"rate\": %.3f, \"cpu_seconds\": %.4f}\n",
              static_cast<unsigned long>(done), seconds, static_cast<double>(done) / seconds,
              of(use.ru_utime) + of(use.ru_stime));
  std::fflush(stdout);
  // In some shapes threads wait for ever. No destructor of a static object may run while they use the object.
  std::_Exit(0);
}
