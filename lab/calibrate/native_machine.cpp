#include "lab/calibrate/native_machine.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <utility>

#include "lab/bench/native/topology.hpp"

namespace usher::calibrate {
namespace {

std::string first_line(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

/// The number at the beginning of a file; `otherwise` if there is none.
long number_in(const std::string& file, long otherwise) {
  std::ifstream in(file);
  long n = otherwise;
  return in >> n ? n : otherwise;
}

std::string cpuinfo(const std::string& key) {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind(key, 0) == 0) {
      const std::size_t at = line.find(": ");
      return at == std::string::npos ? "" : line.substr(at + 2);
    }
  return "";
}

/// `last`: the cache of the highest level that holds data; the CPUs in the list `shared_by` share it. `own`: the cache
/// of the level below; empty if that is the first level.
struct cache_of_cpu {
  native_cache last, own;
  std::string shared_by;
};

cache_of_cpu caches_of(const std::string& cpu) {
  cache_of_cpu c;
  long highest = 0;
  for (int i = 0; i < 8; i++) {
    const std::string index = cpu + "/cache/index" + std::to_string(i);
    const std::string type = first_line(index + "/type");
    if (type != "Data" && type != "Unified") continue;
    const native_cache n{std::uint64_t(number_in(index + "/size", 0)) << 10,  // "1024K"
                         unsigned(number_in(index + "/ways_of_associativity", 0)),
                         unsigned(number_in(index + "/coherency_line_size", 64))};
    const long level = number_in(index + "/level", 0);
    if (level <= highest) continue;
    highest = level;
    c.own = level > 2 ? c.last : native_cache{};  // the level below the last one, unless that is the first
    c.last = n;
    c.shared_by = first_line(index + "/shared_cpu_list");
  }
  return c;
}

}  // namespace

native_machine look_around() {
  std::vector<unsigned> ids;
  for (const bench::cpu& c : bench::usable_cpus()) ids.push_back(c.id);
  return look_around("/sys/devices/system/cpu", ids);
}

native_machine look_around(const std::string& sysfs, const std::vector<unsigned>& cpus) {
  native_machine m;
  m.vendor = cpuinfo("vendor_id");
  m.family = cpuinfo("cpu family");
  m.model = cpuinfo("model\t");
  m.hypervisor = cpuinfo("flags").find(" hypervisor") != std::string::npos;
  std::map<std::pair<unsigned, std::string>, unsigned>
      sockets;                                             // by package and by the CPUs that share the last-level cache
  std::map<unsigned, std::map<unsigned, unsigned>> cores;  // of a socket, by their numbers in the package
  for (const bench::cpu& known : bench::cpus_of(sysfs, cpus)) {
    std::string folder = sysfs + "/cpu";
    const cache_of_cpu caches = caches_of(folder += std::to_string(known.id));
    native_cpu c{known.id, known.socket, 0, 0, known.hardware_thread};
    c.socket = sockets.try_emplace({c.package, caches.shared_by}, unsigned(sockets.size())).first->second;
    auto& here = cores[c.socket];
    c.core = here.try_emplace(known.core, unsigned(here.size())).first->second;
    m.packages = std::max(m.packages, c.package + 1);
    m.sockets = std::max(m.sockets, c.socket + 1);
    m.cores = std::max(m.cores, c.core + 1);
    m.hardware_threads = std::max(m.hardware_threads, c.hardware_thread + 1);
    if (m.last.bytes == 0) m.last = caches.last, m.own = caches.own;
    m.cpus.push_back(c);
  }
  m.even = m.cpus.size() == std::size_t{m.sockets} * m.cores * m.hardware_threads;
  return m;
}

std::vector<native_cpu> native_machine::pair_at(unsigned wanted) const {
  for (const native_cpu& a : cpus)
    for (const native_cpu& b : cpus)
      if (distance(a, b) == wanted && (a.socket != b.socket || a.core < b.core)) return {a, b};
  return {};
}

std::vector<native_cpu> native_machine::siblings() const {
  for (const native_cpu& a : cpus)
    for (const native_cpu& b : cpus)
      if (a.socket == b.socket && a.core == b.core && a.hardware_thread < b.hardware_thread) return {a, b};
  return {};
}

bool pin_to(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

bool can_pin(const native_machine& m) {
  const bool can = pin_to(m.cpus.front().number);
  unpin(m);
  return can;
}

void unpin(const native_machine& m) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const native_cpu& c : m.cpus) CPU_SET(c.number, &set);
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace usher::calibrate
