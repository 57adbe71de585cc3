#include "lab/bench/native/topology.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>
#include <tuple>

namespace usher::bench {
namespace {

unsigned number_in(const std::filesystem::path& file, unsigned otherwise) {
  std::ifstream in(file);
  unsigned n = 0;
  return in >> n ? n : otherwise;
}

}  // namespace

std::vector<cpu> cpus_of(const std::filesystem::path& folder, std::span<const unsigned> ids) {
  std::vector<cpu> kernels;  // with the kernel's numbers of sockets and cores, which have gaps
  for (const unsigned id : ids) {
    const std::filesystem::path at = folder / ("cpu" + std::to_string(id)) / "topology";
    kernels.push_back({id, number_in(at / "physical_package_id", 0), number_in(at / "core_id", id), 0});
  }
  std::sort(kernels.begin(), kernels.end(), [](const cpu& a, const cpu& b) {
    return std::tie(a.socket, a.core, a.id) < std::tie(b.socket, b.core, b.id);
  });
  std::vector<cpu> cpus;
  for (std::size_t i = 0; i < kernels.size(); i++) {
    cpu c{kernels[i].id, 0, 0, 0};
    if (i > 0) {
      const cpu& before = cpus.back();
      const bool same_socket = kernels[i].socket == kernels[i - 1].socket;
      const bool same_core = same_socket && kernels[i].core == kernels[i - 1].core;
      c.socket = before.socket + (same_socket ? 0 : 1);
      c.core = same_core ? before.core : same_socket ? before.core + 1 : 0;
      c.hardware_thread = same_core ? before.hardware_thread + 1 : 0;
    }
    cpus.push_back(c);
  }
  return cpus;
}

std::vector<cpu> usable_cpus() {
  constexpr unsigned most = 4096;
  cpu_set_t* const set = CPU_ALLOC(most);
  const std::size_t size = CPU_ALLOC_SIZE(most);
  if (sched_getaffinity(0, size, set) != 0) {
    CPU_FREE(set);
    throw std::system_error(errno, std::generic_category(), "cannot tell which CPUs may be used");
  }
  std::vector<unsigned> ids;
  for (unsigned i = 0; i < most; i++)
    if (CPU_ISSET_S(i, size, set)) ids.push_back(i);
  CPU_FREE(set);
  return cpus_of("/sys/devices/system/cpu", ids);
}

std::vector<cpu> places(std::vector<cpu> cpus, workloads::placement where, unsigned threads) {
  const bool scattered = where == workloads::placement::scattered;
  std::sort(cpus.begin(), cpus.end(), [scattered](const cpu& a, const cpu& b) {
    return scattered ? std::tie(a.hardware_thread, a.core, a.socket) < std::tie(b.hardware_thread, b.core, b.socket)
                     : std::tie(a.hardware_thread, a.socket, a.core) < std::tie(b.hardware_thread, b.socket, b.core);
  });
  std::vector<cpu> chosen;
  if (where != workloads::placement::even) {
    for (unsigned i = 0; i < threads; i++) chosen.push_back(cpus[i % cpus.size()]);
    return chosen;
  }
  unsigned sockets = 0;
  for (const cpu& c : cpus) sockets = std::max(sockets, c.socket + 1);
  const unsigned a_socket = (threads + sockets - 1) / sockets;
  for (unsigned i = 0; i < threads; i++) {
    std::vector<cpu> there;
    for (const cpu& c : cpus)
      if (c.socket == i / a_socket) there.push_back(c);
    chosen.push_back(there[i % a_socket % there.size()]);
  }
  return chosen;
}

}  // namespace usher::bench
