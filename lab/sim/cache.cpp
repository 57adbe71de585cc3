#include "lab/sim/cache.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace usher::sim {
namespace {

std::uint64_t mixed(std::uint64_t v) {
  v = (v + 1) * 0x9e3779b97f4a7c15u;
  return (v ^ v >> 31) * 0xbf58476d1ce4e5b9u >> 20;
}

}  // namespace

caches::cache::cache(std::uint64_t sets, unsigned ways)
    : ways_(ways), sets_(sets), power_of_two_(std::has_single_bit(sets)), tags_(sets * ways), by_(sets * ways) {}

bool caches::cache::look_up(std::uint64_t line, unsigned cpu, int& displaced) {
  const std::uint64_t number = mixed(line), set = power_of_two_ ? number & (sets_ - 1) : number % sets_;
  std::uint32_t* const tags = &tags_[set * ways_];
  std::uint16_t* const by = &by_[set * ways_];
  const auto tag = static_cast<std::uint32_t>(line + 1);
  // At most one way matches, so this sum is the way's index plus 1, or 0. Compilers vectorise the sum; the exit of a
  // search loop would be mispredicted.
  std::uint32_t at = 0;
  for (std::uint32_t i = 0; i < ways_; i++) at += tags[i] == tag ? i + 1 : 0;
  const bool hit = at != 0;
  at = (hit ? at : ways_) - 1;
  if (!hit) displaced = tags[at] == 0 ? -1 : by[at];
  const std::uint16_t mine = hit ? by[at] : static_cast<std::uint16_t>(cpu);
  std::copy_backward(tags, tags + at, tags + at + 1);
  std::copy_backward(by, by + at, by + at + 1);
  tags[0] = tag;
  by[0] = mine;
  return hit;
}

caches::caches(const machine& m) : machine_(m), channels_free_(m.sockets) {}

void caches::make_caches() {
  const machine::cache& c = *machine_.caches;
  const auto sets = [&](std::uint64_t bytes, unsigned ways) {
    return std::max<std::uint64_t>(1, bytes / (std::uint64_t{ways} * c.line) / sample_);
  };
  last_.assign(machine_.all_complexes(), cache(sets(c.bytes, c.ways), c.ways));
  if (c.private_bytes != 0)
    private_.assign(machine_.all_cores(), cache(sets(c.private_bytes, c.private_ways), c.private_ways));
  if (c.tlb_entries != 0) tlbs_.assign(machine_.all_cores(), cache(1, c.tlb_entries));
}

void caches::check(const machine& m) {
  if (!m.caches) throw bad_machine(m.file_or_name() + ": arrays that compete for caches need a section [cache]");
}

caches::block caches::make_block(std::uint64_t bytes, std::uint64_t page) {
  check(machine_);
  const unsigned line = machine_.caches->line;
  if (page < large_page && sample_ != 1) {
    if (next_line_ != 0) throw std::logic_error("blocks on small pages come before those on large ones");
    sample_ = 1;
  }
  if (last_.empty()) make_caches();
  usual_.emplace_back();
  // Lines are numbered only within the simulated sets, so that the numbers have no gaps.
  const block b{usual_.size() - 1, next_line_, std::max<std::uint64_t>(1, bytes / line / sample_), next_page_,
                page < large_page ? page : 0};
  next_line_ += b.lines;
  if (b.page != 0) next_page_ += (bytes + b.page - 1) / b.page;
  return b;
}

/// Returns the first level of cache that has the line, and installs the line in the levels before it.
caches::level caches::look_up(std::uint64_t line, unsigned cpu) {
  const unsigned core = cpu / machine_.hardware_threads;
  counts_.loads += sample_;
  int displaced = -1;
  if (!private_.empty() && private_[core].look_up(line, cpu, displaced)) {
    counts_.private_hits += sample_;
    return level::own;
  }
  displaced = -1;
  if (last_[machine_.complex_of(core)].look_up(line, cpu, displaced)) return level::last;
  counts_.misses += sample_;
  if (displaced >= 0) (displaced == int(cpu) ? counts_.own_displaced : counts_.others_displaced) += sample_;
  return level::memory;
}

/// Returns the cost of a group of loads: `last` of them hit the last-level cache, and `misses` go to memory. The
/// socket's memory channels serve misses one after another. The group waits for the sum of its misses' latencies, or
/// until the channels have served its last miss, whichever takes longer.
caches::cost caches::cost_of(std::uint64_t loads, std::uint64_t last, std::uint64_t misses, unsigned cpu, cycles now) {
  const machine::cache& c = *machine_.caches;
  cost k{loads * c.access, (last + misses) * c.hit};
  if (misses == 0) return k;
  cycles& free = channels_free_[cpu / machine_.hardware_threads / machine_.cores];
  free = std::max(free, now) + misses * c.channel;
  k.stall += std::max(misses * c.miss, free - now);
  return k;
}

caches::cost caches::load(const block& b, std::uint64_t offset, unsigned cpu, cycles now) {
  const machine::cache& c = *machine_.caches;
  const level l = look_up(b.first + offset / c.line, cpu);
  cost k = cost_of(1, l == level::last, l == level::memory, cpu, now);
  if (int nobody;
      !tlbs_.empty() && !tlbs_[cpu / machine_.hardware_threads].look_up(b.first_page + offset / b.page, cpu, nobody)) {
    counts_.tlb_misses++;
    k.stall += c.tlb_miss;
  }
  return k;
}

caches::cost caches::load_at_random(const block& b, std::uint64_t n, unsigned cpu, cycles now, random& chance) {
  // n / sample_ is rounded up or down at random, so that its mean is exact.
  const std::uint64_t loads = n / sample_ + (chance.below(sample_) < n % sample_ ? 1 : 0);
  if (loads == 0) return cost_of(n, 0, 0, cpu, now);
  std::uint64_t last = 0, misses = 0;
  for (std::uint64_t i = 0; i < loads; i++) {
    const level l = look_up(b.first + chance.below(std::uint32_t(b.lines)), cpu);
    last += l == level::last;
    misses += l == level::memory;
  }
  if (sample_ == 1) return cost_of(n, last, misses, cpu, now);
  // If one load in four is simulated, the measured share of misses has four times the variance, and threads would take
  // turns differently. So only half of the share comes from the simulated loads, and half from the block's moving
  // average. This halves the standard deviation, and so restores the variance.
  static_assert(every == 4);
  auto& usual = usual_[b.id];
  const auto smooth = [&](std::uint64_t seen, std::uint64_t& average) {
    const std::uint64_t part = (seen << 20) / loads;
    average = (average * 15 + part) / 16;
    return n * (part + average) / 2 >> 20;
  };
  const std::uint64_t smooth_last = smooth(last, usual[0]);
  return cost_of(n, smooth_last, smooth(misses, usual[1]), cpu, now);
}

}  // namespace usher::sim
