#include "lab/calibrate/lstopo_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "usher/version.h"

namespace usher::calibrate {
namespace {

/// The values of a cache that files leave out, as of most processors.
constexpr unsigned usual_ways = 16, usual_line = 64, most_ways = 64;

enum class vendor { amd, intel, arm, sparc, unknown };

vendor vendor_of(std::string_view text) {
  static constexpr std::pair<const char*, vendor> words[]{
      {"AuthenticAMD", vendor::amd},   {"HygonGenuine", vendor::amd}, {"AMD", vendor::amd},
      {"GenuineIntel", vendor::intel}, {"Intel", vendor::intel},      {"Xeon", vendor::intel},
      {"aarch64", vendor::arm},        {"Graviton", vendor::arm},     {"Neoverse", vendor::arm},
      {"SPARC", vendor::sparc},        {"sparc", vendor::sparc}};
  for (const auto& [word, is] : words)
    if (text.find(word) != std::string_view::npos) return is;
  return vendor::unknown;
}

/// The number of hops between the farthest sockets.
unsigned farthest_hop(const lstopo& t) {
  unsigned most = t.sockets > 1 ? 1 : 0;
  for (const auto& row : t.hops) most = std::max(most, *std::max_element(row.begin(), row.end()));
  return most;
}

unsigned farthest_hop(const sim::machine& m) {
  return m.farthest() - (m.complexes > 1 ? 1 : 0);
}

double ratio(unsigned a, unsigned b) {
  return std::abs(std::log2(static_cast<double>(a) / b));
}

/// Writes the machine file.
class writer {
 public:
  writer(const lstopo& t, const std::string& file, const known_machine& like, const known_machine& with_cache)
      : t_(t), file_(harmless(file)), like_(like), with_cache_(with_cache) {}
  std::string all();

 private:
  void head();
  void topology();
  void hops();
  void coherence();
  void costs(const char* key, const std::array<sim::cycles, sim::distances>& known, bool scales_all);
  void hardware_threads();
  void scheduler();
  void cache();
  void cache_size(const char* bytes_key, const char* ways_key, const lstopo_cache& c, const char* what);

  void section(const char* name) { text_ += fmt::format("\n[{}]\n", name); }
  void value(const char* key, const std::string& value, const std::string& source) {
    text_ += fmt::format("{} = {{ value = {}, source = \"{}\" }}\n", key, value, source);
  }
  std::string xml(const std::string& what) const { return fmt::format("hwloc's XML {}: {}", file_, what); }
  std::string assumed(const known_machine& from) const { return "assumed: as " + harmless(from.machine.name); }
  std::string assumed(const char* what) const { return std::string("assumed: ") + what; }

  /// Copies keys of a section that the other machine has. `in_ns`: as times in ns, else in cycles.
  void copy(const known_machine& from, const std::string& section, std::initializer_list<const char*> keys,
            bool in_ns = false);
  /// The cycles of this machine in the time that the other one's cycles take.
  std::uint64_t scaled(sim::cycles c, const known_machine& from) const {
    return t_.mhz ? static_cast<std::uint64_t>(
                        std::llround(static_cast<double>(c) * *t_.mhz / static_cast<double>(from.machine.mhz)))
                  : c;
  }
  std::string scaled_text(const std::string& text, const known_machine& from) const;

  const lstopo& t_;
  std::string file_;
  const known_machine& like_;
  const known_machine& with_cache_;
  std::string text_;
};

/// Scales each whole number of a list or of a text of one number. None that is positive becomes 0.
std::string writer::scaled_text(const std::string& text, const known_machine& from) const {
  std::string to;
  for (std::size_t i = 0; i < text.size();) {
    std::uint64_t n = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), n);
    if (error != std::errc{}) {
      to += text[i++];
      continue;
    }
    to += std::to_string(n == 0 ? 0 : std::max<std::uint64_t>(1, scaled(n, from)));
    i = static_cast<std::size_t>(end - text.data());
  }
  return to;
}

void writer::copy(const known_machine& from, const std::string& section, std::initializer_list<const char*> keys,
                  bool in_ns) {
  for (const char* const key : keys) {
    const auto at = from.values.find(section + "." + key);
    if (at == from.values.end()) continue;
    const bool converted = in_ns && t_.mhz && *t_.mhz != from.machine.mhz;
    value(key, converted ? scaled_text(at->second, from) : at->second,
          assumed(from) + (converted ? ", the same time" : ""));
  }
}

void writer::head() {
  text_ += fmt::format(
      "# Made by `usher sim --machine-from-lstopo` of usher {} from hwloc's XML {}, which has the topology only.\n"
      "# Everything else is assumed to be as on the machine {}; `--like` names another.\n",
      USHER_VERSION, file_, harmless(like_.machine.name));
  for (const std::string& w : t_.warnings) text_ += fmt::format("# Approximation: {}.\n", w);
}

void writer::topology() {
  section("machine");
  const std::string model = t_.model.empty() ? std::string("a computer") : t_.model;
  text_ += fmt::format("title = \"{}, from hwloc's XML {}: {} × {} cores × {} hardware thread{}\"\n", model, file_,
                       t_.sockets, t_.cores, t_.hardware_threads, t_.hardware_threads == 1 ? "" : "s");
  if (t_.mhz)
    value("mhz", std::to_string(*t_.mhz), xml(t_.mhz_key));
  else
    copy(like_, "machine", {"mhz"});
  value("sockets", std::to_string(t_.sockets), t_.has_packages ? xml("packages") : assumed("the XML has no packages"));
  if (t_.has_complexes)
    value("complexes", std::to_string(t_.complexes), xml("last-level caches of a package"));
  else
    value("complexes", "1", assumed("the XML has no cache that several cores share"));
  value("nodes", std::to_string(t_.nodes),
        t_.has_nodes ? xml("NUMA nodes of a package") : assumed("each socket is a node"));
  value("cores", std::to_string(t_.cores), xml("cores of a package"));
  value("hardware_threads", std::to_string(t_.hardware_threads), xml("PUs of a core"));
  hops();
  copy(like_, "machine", {"fetch_add", "swap", "step"});
}

void writer::hops() {
  if (t_.sockets < 3) return;
  if (t_.hops.empty()) {
    value("group", std::to_string(t_.sockets),
          assumed("one hop between any two sockets; the XML has no usable distances"));
    return;
  }
  std::string rows, ranks;
  for (const auto& row : t_.hops) rows += fmt::format("{}[{}]", rows.empty() ? "" : ", ", fmt::join(row, ", "));
  value("hops", "[" + rows + "]",
        fmt::format("assumed from the relative distances {} in hwloc's XML {}, which are not measured: a longer one "
                    "is a hop more",
                    fmt::join(t_.distances, ", "), file_));
}

/// A list of costs by distance. A cost within the complex is in cycles; the others are times, since the clock of a core
/// does not drive the way to another complex or to memory. `scales_all`: the first is a time, too.
void writer::costs(const char* key, const std::array<sim::cycles, sim::distances>& known, bool scales_all) {
  const sim::machine& m = like_.machine;
  const unsigned hops = farthest_hop(t_), its_hops = farthest_hop(m);
  std::string remark;
  std::vector<sim::cycles> list{scales_all ? scaled(known[0], like_) : known[0]};
  if (t_.complexes > 1) {
    list.push_back(scaled(known[m.complexes > 1 ? 1 : 0], like_));
    if (m.complexes == 1) remark = ", which has one complex: another one costs as much";
  }
  for (unsigned hop = 1; hop <= hops; hop++)
    list.push_back(scaled(known[std::min(hop, its_hops) + (m.complexes > 1 ? 1 : 0)], like_));
  if (hops > its_hops)
    remark += fmt::format("; farther than its {} hop{}: as much", its_hops, its_hops == 1 ? "" : "s");
  const bool converted = t_.mhz && *t_.mhz != m.mhz && (scales_all || list.size() > 1);
  value(key, fmt::format("[{}]", fmt::join(list, ", ")),
        assumed(like_) +
            (!converted   ? ""
             : scales_all ? ", the same times"
                          : ", the same times beyond the complex") +
            remark);
}

void writer::coherence() {
  const sim::machine& m = like_.machine;
  text_ += fmt::format("\n# Cycles. Lists: same {}{}{}.\n[coherence]\n", t_.complexes > 1 ? "complex" : "socket",
                       t_.complexes > 1 ? ", another of the socket" : "",
                       t_.sockets == 1         ? ""
                       : farthest_hop(t_) == 1 ? ", other socket"
                                               : ", and by hops");
  copy(like_, "coherence", {"protocol", "hit", "modify"});
  costs("clean", m.clean, false);
  costs("dirty", m.dirty, false);
  costs("invalidate", m.invalidate, false);
  costs("memory", m.memory, true);
  copy(like_, "coherence", {"per_sharer", "per_read"});
  copy(like_, "coherence", {"home_waits_for"});
  copy(like_, "coherence",
       {"store_entries", "ownership_ahead", "load_then_store", "poll_period", "exit_penalty", "jitter", "through_home",
        "through_homes_socket", "atomics", "monitor_wake"});
}

void writer::hardware_threads() {
  if (t_.hardware_threads == 1) return;
  section("hardware_threads");
  if (like_.machine.hardware_threads > 1 && like_.machine.pipelines <= t_.hardware_threads) {
    copy(like_, "hardware_threads", {"pipelines", "slowed_by_work", "slowed_by_spin", "weight_of_spin", "alone"});
    return;
  }
  value("pipelines", "1", assumed("the hardware threads of a core share its units"));
  value("slowed_by_work", "1.6", assumed("as x5-2"));
  value("slowed_by_spin", "1.15", assumed("as x5-2"));
}

void writer::scheduler() {
  if (!like_.machine.os) return;
  section("scheduler");
  copy(like_, "scheduler",
       {"slice", "context_switch", "syscall", "wake", "wake_queued", "latency_least", "latency_mean", "idle_after",
        "idle_exit", "spin"},
       true);
  copy(like_, "scheduler", {"yields_after", "migrate"});
  copy(like_, "scheduler", {"tick_period", "tick", "daemon_period", "daemon"}, true);
  const unsigned cpus = t_.sockets * t_.cores * t_.hardware_threads;
  if (const unsigned timers = like_.machine.os->tick_cpus; timers != 0)
    value("tick_cpus", std::to_string(std::min(timers, cpus)),
          assumed(like_) + (timers > cpus ? ", but at most one for each CPU" : ""));
}

void writer::cache_size(const char* bytes_key, const char* ways_key, const lstopo_cache& c, const char* what) {
  const bool has_ways = c.ways != 0 && c.ways <= most_ways;
  const unsigned ways = has_ways ? c.ways : usual_ways;
  const std::uint64_t set = std::uint64_t{ways} * (t_.last.line != 0 ? t_.last.line : usual_line);
  value(bytes_key, std::to_string(c.bytes / set * set),
        xml(what) + (c.bytes % set == 0 ? "" : fmt::format(", {} bytes, rounded down to whole sets", c.bytes)));
  value(ways_key, std::to_string(ways),
        has_ways ? xml(what) : assumed("the XML gives no number of ways, or more than 64"));
}

void writer::cache() {
  const unsigned line = t_.last.line != 0 ? t_.last.line : usual_line;
  const auto too_small = [&](const lstopo_cache& c) { return c.bytes < std::uint64_t{most_ways} * line; };
  if (!t_.has_complexes || too_small(t_.last)) {
    text_ += "\n# No section [cache]: the XML has no size of a cache that several cores share.\n";
    return;
  }
  section("cache");
  cache_size("bytes", "ways", t_.last, "the last-level cache");
  value("line", std::to_string(line), t_.last.line != 0 ? xml("the last-level cache") : assumed("usual"));
  if (!too_small(t_.own)) cache_size("private_bytes", "private_ways", t_.own, "the largest cache of one core");
  copy(with_cache_, "cache", {"access", "hit"});
  copy(with_cache_, "cache", {"miss", "channel"}, true);
  copy(with_cache_, "cache", {"tlb_entries", "tlb_miss"});
}

std::string writer::all() {
  if (farthest_hop(t_) > 0 && farthest_hop(like_.machine) == 0)
    throw bad_topology(
        fmt::format("it has {} packages, and the machine {} has no costs of another socket: --like can "
                    "name another machine",
                    t_.sockets, like_.machine.name));
  head();
  topology();
  coherence();
  hardware_threads();
  scheduler();
  cache();
  return text_;
}

}  // namespace

std::size_t nearest(const lstopo& t, const std::vector<known_machine>& machines, bool with_cache) {
  const vendor ours = vendor_of(t.vendor + " " + t.model + " " + t.architecture);
  std::optional<std::size_t> best;
  const auto rank = [&](const sim::machine& m) {
    const unsigned hops = farthest_hop(t), its = farthest_hop(m);
    const vendor theirs = vendor_of(m.title);
    const bool other = ours == vendor::unknown ? theirs != vendor::amd && theirs != vendor::intel : theirs != ours;
    return std::tuple(hops > 0 && its == 0, other, m.title.find("virtual machine") != std::string::npos,
                      t.complexes > 1 && m.complexes == 1, hops > its ? hops - its : 0,
                      t.hardware_threads > 1 && m.hardware_threads == 1,
                      ratio(t.cores / t.complexes, m.cores / m.complexes) + 2 * ratio(t.sockets, m.sockets),
                      ratio(t.cores, m.cores), m.name);
  };
  for (std::size_t i = 0; i < machines.size(); i++) {
    if (with_cache && !machines[i].machine.caches) continue;
    if (!best || rank(machines[i].machine) < rank(machines[*best].machine)) best = i;
  }
  if (!best) throw bad_topology("there is no machine file whose latencies could be assumed");
  return *best;
}

std::string machine_file(const lstopo& t, const std::string& file, const known_machine& like,
                         const known_machine& with_cache) {
  const std::string text = writer(t, file, like, with_cache).all();
  try {
    sim::read_machine_text(text, "the machine file");
  } catch (const sim::bad_machine& e) {
    throw bad_topology(std::string("the machine file made from it is refused: ") + e.what());
  }
  return text;
}

}  // namespace usher::calibrate
