#include "lab/calibrate/lstopo_xml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "lab/calibrate/lstopo_tree.hpp"
#include "lab/sim/machine.hpp"

namespace usher::calibrate {
namespace {

constexpr const char* advice = "the simulator needs equal ones: lstopo --restrict can leave some CPUs out";

/// The objects above a hardware thread, as indexes; -1: there is none.
struct cpu {
  int core = -1, package = -1;
  int last = -1;  ///< the last-level cache
  int node = -1;  ///< the object that a NUMA node belongs to: the node, or the object that it is attached to
};

/// A sum of equal parts: the number of different children of each parent.
using children = std::map<int, std::set<int>>;

class shape {
 public:
  explicit shape(const lstopo_tree& tree) : tree_(tree) {}
  lstopo find();

 private:
  const lstopo_object& object(int i) const { return tree_.objects[static_cast<std::size_t>(i)]; }
  void find_cpus();
  cpu cpu_of(int thread) const;
  void count();
  void find_last_level();
  void find_private_caches();
  void find_nodes();
  void find_clock();
  void find_hops();
  void check_limits() const;
  std::vector<std::vector<std::uint64_t>> between_sockets(const lstopo_distances& d) const;
  unsigned same(const children& all, const char* parent, const char* child) const;

  const lstopo_tree& tree_;
  std::map<int, std::vector<int>> attached_;  ///< NUMA nodes by the object that they belong to
  std::vector<int> nodes_;                    ///< all NUMA nodes
  std::map<int, int> socket_of_node_;         ///< of those that have CPUs
  std::vector<cpu> cpus_;
  std::vector<int> packages_;  ///< in the order of the file; {-1} if it has none
  lstopo to_;
};

/// The number of children, which must be the same for all parents.
unsigned shape::same(const children& all, const char* parent, const char* child) const {
  std::size_t least = std::numeric_limits<std::size_t>::max(), most = 0;
  for (const auto& [one, its] : all) {
    least = std::min(least, its.size());
    most = std::max(most, its.size());
  }
  if (least != most) throw bad_topology(fmt::format("{} have {} to {} {}: {}", parent, least, most, child, advice));
  return static_cast<unsigned>(most);
}

cpu shape::cpu_of(int thread) const {
  cpu c;
  unsigned level = 0;
  for (int i = object(thread).parent; i >= 0; i = object(i).parent) {
    const lstopo_object& o = object(i);
    if (o.kind == object_kind::core && c.core < 0) c.core = i;
    if (o.kind == object_kind::package && c.package < 0) c.package = i;
    if (o.kind == object_kind::cache && o.level > level) {
      if (c.package >= 0)
        throw bad_topology("a cache is shared by several packages: the simulator has no such machine");
      c.last = i;
      level = o.level;
    }
    if (c.node < 0 && attached_.contains(i)) c.node = i;
  }
  if (c.core < 0) c.core = thread;
  return c;
}

void shape::find_cpus() {
  for (std::size_t i = 0; i < tree_.objects.size(); i++) {
    if (object(static_cast<int>(i)).kind != object_kind::numa_node) continue;
    const int node = static_cast<int>(i);
    nodes_.push_back(node);
    attached_[node].push_back(node);  // format 1.x: CPUs are in the node
    int above = object(node).parent;
    while (above >= 0 && object(above).kind == object_kind::memory_cache) above = object(above).parent;
    if (above >= 0) attached_[above].push_back(node);  // format 2.x: CPUs are beside the node
  }
  for (std::size_t i = 0; i < tree_.objects.size(); i++)
    if (object(static_cast<int>(i)).kind == object_kind::hardware_thread) cpus_.push_back(cpu_of(static_cast<int>(i)));
  if (cpus_.empty()) throw bad_topology("it has no PU, the object of a hardware thread");
}

/// Counts packages, cores and hardware threads.
void shape::count() {
  children threads, cores;
  for (std::size_t i = 0; i < cpus_.size(); i++) {
    threads[cpus_[i].core].insert(static_cast<int>(i));
    cores[cpus_[i].package].insert(cpus_[i].core);
    if (std::find(packages_.begin(), packages_.end(), cpus_[i].package) == packages_.end())
      packages_.push_back(cpus_[i].package);
  }
  if (packages_.size() > 1 && cores.contains(-1)) throw bad_topology("some of its CPUs are in no package");
  to_.has_packages = packages_.front() >= 0;
  to_.sockets = static_cast<unsigned>(packages_.size());
  to_.hardware_threads = same(threads, "cores", "hardware threads");
  to_.cores = same(cores, "packages", "cores");
}

/// A complex is the cores behind one last-level cache. A cache of one core is not shared: then a socket is a complex.
void shape::find_last_level() {
  children cores, caches;
  for (const cpu& c : cpus_) {
    cores[c.last].insert(c.core);
    caches[c.package].insert(c.last);
  }
  if (cores.size() > 1 && cores.contains(-1)) throw bad_topology("some of its cores have no last-level cache");
  std::set<unsigned> levels;
  for (const auto& [cache, its] : cores) levels.insert(cache < 0 ? 0 : object(cache).level);
  if (levels.size() > 1) throw bad_topology(fmt::format("last-level caches are of different levels: {}", advice));
  const unsigned shared_by = same(cores, "last-level caches", "cores");
  if (cores.contains(-1) || (shared_by == 1 && to_.cores > 1)) return;
  to_.has_complexes = true;
  to_.complexes = same(caches, "packages", "last-level caches");
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max(), most = 0;
  for (const auto& [cache, its] : cores) {
    const lstopo_cache& c = object(cache).cache;
    if (c.bytes < least) to_.last = c;
    least = std::min(least, c.bytes);
    most = std::max(most, c.bytes);
  }
  if (least != most)
    to_.warnings.push_back(
        fmt::format("last-level caches have {} to {} bytes: all get the smallest size", least, most));
}

/// The private cache is the one of the highest level that only one core has.
void shape::find_private_caches() {
  children cores;
  std::vector<int> threads;
  for (std::size_t i = 0; i < tree_.objects.size(); i++)
    if (object(static_cast<int>(i)).kind == object_kind::hardware_thread) threads.push_back(static_cast<int>(i));
  for (std::size_t i = 0; i < threads.size(); i++)
    for (int above = object(threads[i]).parent; above >= 0; above = object(above).parent)
      if (object(above).kind == object_kind::cache) cores[above].insert(cpus_[i].core);
  unsigned level = 0;
  for (const auto& [cache, its] : cores) {
    if (its.size() != 1 || object(cache).level <= level) continue;
    if (to_.has_complexes && object(cache).level >= object(cpus_.front().last).level) continue;
    level = object(cache).level;
    to_.own = object(cache).cache;
  }
}

void shape::find_nodes() {
  if (nodes_.empty()) return;
  children nodes, packages, cores;
  for (const cpu& c : cpus_) {
    nodes[c.package].insert(c.node);
    packages[c.node].insert(c.package);
    cores[c.node].insert(c.core);
  }
  for (const auto& [belongs_to, its] : packages)
    if (belongs_to >= 0)
      for (const int node : attached_.at(belongs_to))
        socket_of_node_[node] =
            static_cast<int>(std::find(packages_.begin(), packages_.end(), *its.begin()) - packages_.begin());
  std::set<std::size_t> per_package, per_node;
  for (const auto& [one, its] : nodes) per_package.insert(its.size());
  for (const auto& [one, its] : cores) per_node.insert(its.size());
  const bool spans = std::any_of(packages.begin(), packages.end(), [](const auto& p) { return p.second.size() > 1; });
  const std::size_t each = *per_package.begin();
  if (spans)
    to_.warnings.emplace_back("a NUMA node has the CPUs of several packages: here each socket is a node");
  else if (per_package.size() > 1 || per_node.size() > 1 || packages.contains(-1))
    to_.warnings.emplace_back("NUMA nodes have different numbers of cores: here each socket is a node");
  else if (each * to_.sockets > sim::most_sockets)
    to_.warnings.push_back(fmt::format("it has {} NUMA nodes, and the simulator at most {}: here each socket is a node",
                                       each * to_.sockets, sim::most_sockets));
  else
    to_.nodes = static_cast<unsigned>(each), to_.has_nodes = true;
}

void shape::find_clock() {
  std::set<unsigned> all;
  for (const auto* const key : {&tree_.base_mhz, &tree_.most_mhz}) {
    for (const auto& mhz : *key)
      if (mhz) all.insert(*mhz);
    if (all.empty()) continue;
    to_.mhz = *all.rbegin();
    to_.mhz_key = key == &tree_.base_mhz ? "FrequencyBaseMHz" : "FrequencyMaxMHz";
    break;
  }
  if (tree_.base_mhz.size() < 2) return;
  to_.warnings.push_back(fmt::format("it has {} kinds of CPUs: here all cores are equal{}", tree_.base_mhz.size(),
                                     all.size() < 2 ? "" : fmt::format(", with {} MHz", *all.rbegin())));
}

/// The least relative distances between the nodes of two sockets; empty if the matrix does not have all of them.
std::vector<std::vector<std::uint64_t>> shape::between_sockets(const lstopo_distances& d) const {
  if (d.values.size() != d.count * d.count || d.count != nodes_.size()) return {};
  std::vector<int> row(d.count, -1);  // the socket of a row; -1: a node without CPUs
  for (std::size_t i = 0; i < d.count; i++) {
    std::size_t node = i;
    if (d.by_os_index) {
      if (d.indexes.size() != d.count) return {};
      const auto at = std::find_if(nodes_.begin(), nodes_.end(),
                                   [&](int n) { return object(n).os_index == std::optional(d.indexes[i]); });
      if (at == nodes_.end()) return {};
      node = static_cast<std::size_t>(at - nodes_.begin());
    }
    if (const auto at = socket_of_node_.find(nodes_[node]); at != socket_of_node_.end()) row[i] = at->second;
  }
  constexpr std::uint64_t unknown = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::vector<std::uint64_t>> all(to_.sockets, std::vector<std::uint64_t>(to_.sockets, unknown));
  for (std::size_t i = 0; i < d.count; i++)
    for (std::size_t k = 0; k < d.count; k++) {
      if (row[i] < 0 || row[k] < 0) continue;
      std::uint64_t& least = all[static_cast<std::size_t>(row[i])][static_cast<std::size_t>(row[k])];
      least = std::min(least, d.values[i * d.count + k]);
    }
  for (const auto& line : all)
    if (std::find(line.begin(), line.end(), unknown) != line.end()) return {};
  return all;
}

/// Ranks the distances between sockets: the shortest is one hop. The numbers themselves are the firmware's, relative
/// and not measured, so they become no latencies.
void shape::find_hops() {
  if (to_.sockets < 3) return;
  for (const lstopo_distances& d : tree_.distances) {
    const auto all = between_sockets(d);
    if (all.empty()) continue;
    std::set<std::uint64_t> different;
    bool symmetric = true;
    for (std::size_t a = 0; a < all.size(); a++)
      for (std::size_t b = 0; b < a; b++) {
        different.insert(all[a][b]);
        symmetric = symmetric && all[a][b] == all[b][a];
      }
    if (!symmetric || different.size() > 3) {
      to_.warnings.push_back(fmt::format("its distances between sockets {}: they are not used",
                                         symmetric ? "have more than three values" : "differ by direction"));
      return;
    }
    to_.distances.assign(different.begin(), different.end());
    for (std::size_t a = 0; a < all.size(); a++) {
      to_.hops.emplace_back();
      for (std::size_t b = 0; b < all.size(); b++)
        to_.hops.back().push_back(
            a == b ? 0 : 1 + static_cast<unsigned>(std::distance(different.begin(), different.find(all[a][b]))));
    }
    return;
  }
  if (!tree_.distances.empty()) to_.warnings.emplace_back("its distances are not of all sockets: they are not used");
}

void shape::check_limits() const {
  const auto check = [](std::size_t n, unsigned most, const char* what) {
    if (n > most) throw bad_topology(fmt::format("it has {} {}, and the simulator at most {}", n, what, most));
  };
  check(to_.sockets, sim::most_sockets, "packages");
  check(std::size_t{to_.sockets} * to_.cores, sim::most_cores, "cores");
  check(std::size_t{to_.sockets} * to_.complexes, sim::most_complexes, "last-level caches");
  check(to_.hardware_threads, 16, "hardware threads a core");
}

lstopo shape::find() {
  to_.vendor = tree_.vendor;
  to_.model = tree_.model;
  to_.architecture = tree_.architecture;
  find_cpus();
  count();
  find_last_level();
  check_limits();  // before work that grows with the square of a count
  find_private_caches();
  find_nodes();
  find_clock();
  find_hops();
  return std::move(to_);
}

}  // namespace

lstopo read_lstopo(std::string_view xml) {
  const lstopo_tree tree = parse_lstopo(xml);
  return shape(tree).find();
}

}  // namespace usher::calibrate
