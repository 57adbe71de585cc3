#include "support/process/foreign_cpu.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace usher::support {

foreign_cpu::sample foreign_cpu::now() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  stat >> cpu;
  double ticks[8] = {};  // user nice system idle iowait irq softirq steal
  for (double& t : ticks) stat >> t;
  sample s{0, 0, 0};
  for (const double t : ticks) s.total += t;
  s.busy = s.total - ticks[3] - ticks[4];
  const auto rate = static_cast<double>(sysconf(_SC_CLK_TCK));
  s.total /= rate;
  s.busy /= rate;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage u{};
    getrusage(who, &u);
    for (const timeval& t : {u.ru_utime, u.ru_stime})
      s.own += static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  }
  return s;
}

double foreign_cpu::share(double also_own) const {
  const sample to = now();
  const double total = to.total - from_.total;
  return total <= 0 ? 0 : std::clamp((to.busy - from_.busy - (to.own - from_.own) - also_own) / total, 0.0, 1.0);
}

}  // namespace usher::support
