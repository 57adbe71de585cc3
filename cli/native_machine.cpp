#include "native_machine.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <tuple>

#include "machine.hpp"

namespace usher::cli {
namespace {

std::string first_line(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

/// A number at the beginning of a file; `otherwise` if there is none.
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

std::vector<unsigned> allowed_cpus() {
  std::vector<unsigned> cpus;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (unsigned c = 0; c < CPU_SETSIZE; c++)
      if (CPU_ISSET(c, &set)) cpus.push_back(c);
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

/// Of the highest level that holds data.
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
    c.own = level > 2 ? c.last : native_cache{};  // one level below the last, where that is not the first
    c.last = n;
    c.shared_by = first_line(index + "/shared_cpu_list");
  }
  return c;
}

}  // namespace

native_machine look_around() {
  return look_around("/sys/devices/system/cpu", allowed_cpus());
}

native_machine look_around(const std::string& sysfs, const std::vector<unsigned>& cpus) {
  native_machine m;
  m.processor = cpu_name();
  m.vendor = cpuinfo("vendor_id");
  m.family = cpuinfo("cpu family");
  m.model = cpuinfo("model\t");
  m.hypervisor = cpuinfo("flags").find(" hypervisor") != std::string::npos;
  std::map<std::pair<long, std::string>, unsigned> sockets;  // package and who shares its last cache
  std::map<unsigned, std::map<std::string, unsigned>> cores;
  std::map<std::pair<unsigned, unsigned>, unsigned> strands;
  std::map<long, unsigned> packages;
  for (const unsigned number : cpus) {
    const std::string folder = sysfs + "/cpu" + std::to_string(number);
    const long package = std::max(0L, number_in(folder + "/topology/physical_package_id", 0));
    const cache_of_cpu caches = caches_of(folder);
    std::string siblings = first_line(folder + "/topology/thread_siblings_list");
    if (siblings.empty()) siblings = std::to_string(number);
    native_cpu c;
    c.number = number;
    c.package = packages.try_emplace(package, unsigned(packages.size())).first->second;
    c.socket = sockets.try_emplace({package, caches.shared_by}, unsigned(sockets.size())).first->second;
    auto& known = cores[c.socket];
    c.core = known.try_emplace(siblings, unsigned(known.size())).first->second;
    c.strand = strands[{c.socket, c.core}]++;
    m.cpus.push_back(c);
    if (m.last.bytes == 0) m.last = caches.last, m.own = caches.own;
  }
  m.packages = unsigned(packages.size());
  m.sockets = unsigned(sockets.size());
  for (const auto& [socket, known] : cores) {
    m.cores = std::max(m.cores, unsigned(known.size()));
  }
  for (const auto& [place, n] : strands) m.strands = std::max(m.strands, n);
  m.even = m.cpus.size() == std::size_t{m.sockets} * m.cores * m.strands;
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
      if (a.socket == b.socket && a.core == b.core && a.strand < b.strand) return {a, b};
  return {};
}

std::vector<native_cpu> native_machine::scattered() const {
  std::vector<native_cpu> order = cpus;
  std::stable_sort(order.begin(), order.end(), [](const native_cpu& a, const native_cpu& b) {
    return std::tuple(a.strand, a.core, a.socket) < std::tuple(b.strand, b.core, b.socket);
  });
  return order;
}

bool pin_to(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

void unpin(const native_machine& m) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const native_cpu& c : m.cpus) CPU_SET(c.number, &set);
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace usher::cli
