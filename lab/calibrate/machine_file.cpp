#include "lab/calibrate/machine_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <vector>

#include "lab/calibrate/native_costs.hpp"
#include "lab/sim/machine.hpp"

namespace usher::calibrate {
namespace {

/// Writes the sections and keys of a machine file. Converts nanoseconds to cycles.
class machine_text {
 public:
  explicit machine_text(double mhz) : mhz_(mhz) {}

  void section(const char* name) { text_ += fmt::format("\n[{}]\n", name); }
  void comment(const std::string& line) { text_ += "# " + line + "\n"; }
  void text(const char* key, const std::string& value, const std::string& source) {
    text_ += fmt::format("{} = {{ value = \"{}\", source = \"{}\" }}\n", key, value, source);
  }
  void plain(const char* key, const std::string& value) { text_ += fmt::format("{} = \"{}\"\n", key, value); }
  void number(const char* key, std::uint64_t value, const std::string& source) {
    text_ += fmt::format("{} = {{ value = {}, source = \"{}\" }}\n", key, value, source);
  }
  void factor(const char* key, double value, const std::string& source) {
    text_ += fmt::format("{} = {{ value = {:.2f}, source = \"{}\" }}\n", key, value, source);
  }
  /// Writes a measured cost, at least `least` cycles. `less`: cycles of other operations that the measured time
  /// contains; they are subtracted.
  void cost(const char* key, const measured& m, const std::string& what, std::uint64_t least = 0, double less = 0,
            const std::string& less_what = "") {
    number(key, std::max(least, whole(cycles(m.median) - less)),
           said(m, what) + (less_what.empty() ? "" : ", less " + less_what));
  }
  /// Writes a list of measured costs, one for each distance.
  void costs(const char* key, const std::vector<measured>& all, const std::string& what, double less = 0,
             const std::string& less_what = "") {
    std::string values, source;
    for (const measured& m : all) {
      values += (values.empty() ? "" : ", ") + std::to_string(whole(cycles(m.median) - less));
      source += (source.empty() ? "" : "; ") + said(m, source.empty() ? what : "");
    }
    text_ += fmt::format("{} = {{ value = [{}], source = \"{}{}\" }}\n", key, values, source,
                         less_what.empty() ? "" : ", less " + less_what);
  }
  void list(const char* key, const std::string& values, const std::string& source) {
    text_ += fmt::format("{} = {{ value = [{}], source = \"{}\" }}\n", key, values, source);
  }

  double cycles(double ns) const { return ns * mhz_ / 1000; }
  std::uint64_t whole(double v) const { return v <= 0 ? 0 : static_cast<std::uint64_t>(std::llround(v)); }
  std::string said(const measured& m, const std::string& what) const {
    return fmt::format("measured: {}{}median of {}, range {}–{}", what, what.empty() ? "" : ", ", m.count,
                       whole(cycles(m.low)), whole(cycles(m.high)));
  }
  const std::string& all() const { return text_; }

 private:
  double mhz_;
  std::string text_;
};

// Numbers that are not measured are taken from sim/machines/x5-2.toml.
constexpr const char* as_x5_2 = "assumed: the X5-2's; ";
constexpr std::uint64_t per_sharer = 2, per_read = 2;

std::string why_not(const native_machine& m) {
  return m.cpus.size() == 1 ? "with one CPU it cannot be measured" : "it could not be measured here";
}

void write_topology(machine_text& t, const native_machine& m, const std::string& processor, double mhz,
                    const std::string& mhz_source, const measured& step) {
  t.section("machine");
  const std::string numbers =
      m.family.empty() || m.model.empty() ? "" : fmt::format(" (family {}, model {})", m.family, m.model);
  t.plain("title", fmt::format("{}{}, {} CPU{} of a {} machine", processor, numbers, m.cpus.size(),
                               m.cpus.size() == 1 ? "" : "s", m.hypervisor ? "virtual" : "real"));
  t.number("mhz", static_cast<std::uint64_t>(std::llround(mhz)), mhz_source);
  const char* const sysfs = "the kernel's topology in /sys";
  // native_machine calls the CPUs of one last-level cache a socket. If a package has several such caches, each of them
  // becomes a complex in the machine file.
  const bool parts = m.packages < m.sockets && m.sockets % m.packages == 0;
  const unsigned complexes = parts ? m.sockets / m.packages : 1;
  t.number("sockets", m.sockets / complexes, sysfs);
  if (m.sockets / complexes > 2) t.number("group", m.sockets / complexes, "assumed: one hop between any two sockets");
  if (parts) t.number("complexes", complexes, fmt::format("{}: CPUs that share a last-level cache", sysfs));
  t.number("cores", m.cores * complexes, sysfs);
  t.number("hardware_threads", m.hardware_threads, sysfs);
  t.factor("step", t.cycles(step.median), t.said(step, "a step of std::mt19937"));
}

/// Adds a remark if two cores slow each other down. A reason may be that the hypervisor runs the two virtual CPUs on
/// hardware threads of one core.
void note_slow_neighbours(machine_text& t, const native_machine& m) {
  const auto pair = m.pair_at(0);
  if (pair.empty()) return;
  const auto c = costs_of_neighbour(pair[0].number, pair[1].number);
  if (!c || c->works.median <= 1.15) return;
  t.comment(fmt::format(
      "CPUs {} and {} slow each other down: work takes {:.2f} times as long. They may be hardware threads of one core, "
      "whatever the kernel says.",
      pair[0].number, pair[1].number, c->works.median));
}

void write_coherence(machine_text& t, const native_machine& m, const core_costs& core) {
  std::vector<measured> dirty, clean, memory, invalidate, round_trips;
  const unsigned hops = m.sockets == 1 ? 1 : m.packages > 1 && m.packages < m.sockets ? 3 : 2;
  for (unsigned d = 0; d < hops; d++) {
    const auto pair = m.pair_at(d);
    if (pair.empty()) break;
    const auto l = costs_of_lines(pair[0].number, pair[1].number);
    if (!l) break;
    dirty.push_back(l->dirty);
    invalidate.push_back(l->invalidate);
    round_trips.push_back(l->round_trip);
    if (l->clean.count == 0) continue;
    clean.push_back(l->clean);
    memory.push_back(l->memory);
  }
  if (memory.empty() && core.memory.count != 0) memory.push_back(core.memory);
  const double modify = t.cycles(core.modify.median) - t.cycles(core.store.median);
  const std::string why = why_not(m);

  t.section("coherence");
  if (!round_trips.empty())
    t.comment(fmt::format("A word that two CPUs write in turns: {} cycles there and back.",
                          t.whole(t.cycles(round_trips.front().median))));
  const bool amd = m.vendor == "AuthenticAMD", intel = m.vendor == "GenuineIntel";
  t.text("protocol", amd ? "MOESI" : intel ? "MESIF" : "MESI", amd || intel ? "assumed: the vendor's" : "assumed");
  t.cost("hit", core.hit, "a load after a load", 1);
  t.cost("modify", core.modify, "an atomic addition", 0, t.cycles(core.store.median), "a store");
  if (clean.empty())
    t.list("clean", "50, 240", as_x5_2 + why);
  else
    t.costs("clean", clean, "lines that another core has read");
  if (dirty.empty())
    t.list("dirty", "120, 280", as_x5_2 + why);
  else
    t.costs("dirty", dirty, "lines that another core has written");
  if (invalidate.empty())
    t.list("invalidate", "60, 200", as_x5_2 + why);
  else
    t.costs("invalidate", invalidate, "an atomic addition to lines that another core has read",
            modify + static_cast<double>(per_sharer), "modify and per_sharer");
  if (memory.empty())
    t.list("memory", "220, 330", as_x5_2 + why);
  else
    t.costs("memory", memory, "lines that nobody has");
  t.number("per_sharer", per_sharer, "assumed: the X5-2's");
  t.number("per_read", per_read, "assumed: the X5-2's");
  t.cost("poll_period", core.poll, "once round a loop with PAUSE", 1);
  t.cost("exit_penalty", core.misprediction, "a branch that was predicted wrong");
  t.factor("jitter", 0.3, "assumed: the X5-2's");
}

void write_hardware_threads(machine_text& t, const native_machine& m) {
  if (m.hardware_threads < 2) return;
  t.section("hardware_threads");
  t.number("pipelines", 1, "assumed: the hardware threads of a core share its units");
  const auto pair = m.siblings();
  std::optional<neighbour_costs> c;
  if (!pair.empty()) c = costs_of_neighbour(pair[0].number, pair[1].number);
  const auto factor = [&](const char* key, const measured* v, double otherwise) {
    t.factor(key, v == nullptr ? otherwise : std::max(1.0, v->median),
             v == nullptr ? std::string("assumed: the X5-2's")
                          : fmt::format("measured: median of {}, range {:.2f}–{:.2f}", v->count, v->low, v->high));
  };
  factor("slowed_by_work", c ? &c->works : nullptr, 1.6);
  factor("slowed_by_spin", c ? &c->spins : nullptr, 1.15);
}

void write_scheduler(machine_text& t, const native_machine& m) {
  const auto pair = m.pair_at(0);
  std::optional<unsigned> other;
  if (!pair.empty()) other = pair[1].number;
  const scheduler_costs c = costs_of_scheduler(pair.empty() ? m.cpus.front().number : pair[0].number, other);
  const double call = t.cycles(c.syscall.median), change = t.cycles(c.context_switch.median);

  t.section("scheduler");
  if (c.slice)
    t.cost("slice", *c.slice, "two threads on one CPU: for how long one has it", 1);
  else
    t.number("slice", t.whole(t.cycles(3e6)), "assumed: Linux, 3 ms");
  if (c.context_switch.count != 0)
    t.cost("context_switch", c.context_switch, "two threads of a CPU that wake each other, less their calls");
  else
    t.number("context_switch", t.whole(t.cycles(1400)), "assumed: the X5-2's; it could not be measured here");
  t.cost("syscall", c.syscall, "a futex call that wakes nobody");
  if (c.wake_queued)
    t.cost("wake_queued", *c.wake_queued, "a futex call that wakes a thread of the own CPU, which has to wait for it",
           1, call, "syscall");
  t.number("yields_after", 32, "assumed: what Usher's locks do natively, include/usher/platform/native.hpp");
  if (!c.wake) {
    const std::string alone = as_x5_2 + why_not(m);
    t.number("wake", t.whole(t.cycles(1100)), alone);
    t.number("latency_least", t.whole(t.cycles(2000)), alone);
    t.number("latency_mean", t.whole(t.cycles(5000)), alone);
    return;
  }
  t.cost("wake", c.wake->syscall, "a futex call that wakes a thread of another CPU, which had nothing to do", 0, call,
         "syscall");
  const std::uint64_t least = t.whole(t.cycles(c.wake->least) - call - change);
  t.number("latency_least", least,
           t.said(c.wake->after, "from before that call until the thread runs") +
               "; of these the 2nd percentile, less syscall and context_switch");
  // Computes the mean from the median, assuming an exponential distribution, whose median is ln 2 times its mean. The
  // measured mean would include the work of other programs.
  const double rest = t.cycles(c.wake->after.median - c.wake->least) / std::numbers::ln2;
  t.number("latency_mean", least + t.whole(rest),
           "of the same: the mean of an exponential distribution with that median");
}

/// Returns the bytes rounded down to a multiple of a cache set's size: one line in each way.
std::uint64_t rounded_down(std::uint64_t bytes, const native_cache& c) {
  const std::uint64_t part = std::uint64_t{c.ways} * c.line;
  return bytes / part * part;
}

void write_cache(machine_text& t, const native_machine& m) {
  if (m.last.bytes == 0 || m.last.ways == 0 || m.last.ways > 64) {
    t.comment("No section [cache]: the kernel says too little of the caches.");
    return;
  }
  const array_costs c = costs_of_arrays(m);
  const bool own = m.own.bytes != 0 && m.own.ways != 0 && m.own.ways <= 64;
  const double access = t.cycles(c.own.median),
               own_part = own ? static_cast<double>(m.own.bytes) / static_cast<double>(c.last_bytes) : 0;
  const double hit = std::max(0.0, t.cycles(c.last.median) - access) / (1 - std::min(0.5, own_part));
  const auto mib = [](std::uint64_t bytes) { return fmt::format("{:g} MiB", static_cast<double>(bytes) / (1 << 20)); };

  t.section("cache");
  if (c.last_level < m.last.bytes)
    t.number(
        "bytes", rounded_down(c.last_level, m.last),
        fmt::format(
            "measured: arrays beyond it are read as slowly as memory. The kernel says {}, which others share or the "
            "hypervisor divides",
            mib(m.last.bytes)));
  else
    t.number("bytes", rounded_down(m.last.bytes, m.last), "the kernel, /sys");
  t.number("ways", m.last.ways, "the kernel, /sys");
  t.number("line", m.last.line, "the kernel, /sys");
  if (own) {
    t.number("private_bytes", rounded_down(m.own.bytes, m.own), "the kernel, /sys");
    t.number("private_ways", m.own.ways, "the kernel, /sys");
  }
  t.cost("access", c.own, "loads at random places of an array that fits into the core's own cache");
  t.number("hit", t.whole(hit),
           t.said(c.last, fmt::format("the same of {}", mib(c.last_bytes))) +
               ", less access, and as many loads as the core's own cache answers left out");
  t.cost("miss", c.memory, fmt::format("the same of {}", mib(c.memory_bytes)), 0, access + hit, "access and hit");
  t.cost("channel", c.channel, "a line, while all cores of a socket read memory");
  if (const auto pages = costs_of_pages(m.cpus.front().number)) {
    t.number("tlb_entries", pages->entries,
             "measured: with more pages of 4 KiB, a load takes longer than as many lines on few pages do");
    t.cost("tlb_miss", pages->miss, fmt::format("how much longer, with {} pages", 2 * pages->entries));
  }
}

}  // namespace

std::string machine_file(const native_machine& m, const std::string& processor) {
  if (m.packages > sim::most_sockets || m.sockets > sim::most_complexes || m.sockets * m.cores > sim::most_cores)
    throw sim::bad_machine(fmt::format(
        "this machine has {} last-level caches with {} cores each, more than can be simulated", m.sockets, m.cores));
  pin_to(m.cpus.front().number);
  const core_costs core = costs_of_core(m.cpus.front().number);
  double mhz = 1000;
  std::string source = "assumed: how to measure it on this processor is not known";
  if (core.cycle.count != 0) {
    mhz = 1000 / core.cycle.median;
    source = fmt::format("measured: dependent additions, median of {}, range {:.0f}–{:.0f}", core.cycle.count,
                         1000 / core.cycle.high, 1000 / core.cycle.low);
  }
  machine_text t(mhz);
  write_topology(t, m, processor, mhz, source, core.step);
  if (!m.even) t.comment("Not all sockets have as many cores, or cores as many hardware threads: the most are given.");
  unpin(m);
  note_slow_neighbours(t, m);
  write_coherence(t, m, core);
  write_hardware_threads(t, m);
  write_scheduler(t, m);
  write_cache(t, m);
  unpin(m);
  return t.all().substr(1);
}

}  // namespace usher::calibrate
