#include "lab/sim/coherence.hpp"

#include <algorithm>
#include <cstdlib>

namespace usher::sim {

coherence::coherence(const machine& m, const arena& a)
    : machine_(m), arena_(a), farthest_(m.dirty[m.farthest()]), fills_(m.all_cores()) {
  for (unsigned core = 0; core < m.all_cores(); core++) complexes_of_[core] = std::uint8_t(m.complex_of(core));
  for (unsigned i = 0; i < m.all_complexes(); i++)
    for (unsigned j = 0; j < m.all_complexes(); j++) distances_[i][j] = std::uint8_t(m.distance(i, j));
}

void coherence::grow(std::size_t index) {
  // A word outside the arena is not simulated memory: the access is a bug, and any count would be wrong.
  if (index >= (arena_.used() + line_bytes - 1) / line_bytes) std::abort();
  const std::size_t block = index / lines_a_block;
  if (block >= blocks_.size()) {
    blocks_.resize(block + 1);
    suppliers_.resize(block + 1);
  }
  const unsigned n = machine_.all_complexes();
  blocks_[block] = std::make_unique<line[]>(lines_a_block);
  suppliers_[block] = std::make_unique<cycles[]>(lines_a_block * n);
  for (std::size_t i = 0; i < lines_a_block; i++) blocks_[block][i].supplier_free = &suppliers_[block][i * n];
}

/// Returns the complex that supplies a clean line to this complex.
unsigned coherence::supplier(const line& l, unsigned complex) const {
  if ((l.complexes >> complex & 1) != 0) return complex;
  switch (machine_.coherence) {
    case protocol::mesi:
      return l.home;
    case protocol::moesi:
      return l.writer != line::nobody && (l.complexes >> l.writer & 1) != 0 ? unsigned(l.writer) : l.home;
    case protocol::mesif:
      break;
  }
  unsigned nearest = unsigned(std::countr_zero(l.complexes));
  for (unsigned s = nearest + 1; s < machine_.all_complexes(); s++)
    if ((l.complexes >> s & 1) != 0 && distance(complex, s) < distance(complex, nearest)) nearest = s;
  return nearest;
}

/// Returns the round-trip latency of a request from this complex for a line that a core owns.
cycles coherence::from_owner(const line& l, unsigned complex) const {
  const unsigned owner = complex_of(unsigned(l.owner));
  const cycles direct = machine_.dirty[apart(l, complex, owner)];
  if (!machine_.through_home || owner == complex || l.home == complex || l.home == owner) return direct;
  // The latency of a one-way message is half of an invalidation's round trip.
  const auto way = [this](unsigned a, unsigned b) { return machine_.invalidate[distance(a, b)] / 2; };
  const cycles detour = way(complex, l.home) + way(l.home, owner), straight = way(complex, owner);
  return direct + (detour > straight ? detour - straight : 0);
}

/// Returns the time at which the owner answers a request from this complex that departs at time t.
cycles coherence::at_owner(line& l, unsigned complex, cycles t, cycles latency) const {
  const unsigned at = complex_of(unsigned(l.owner));
  // A cache that got the line from another cache must first acknowledge that transfer before it answers. A cache that
  // got the line from the last-level cache or from the home need not.
  if (machine_.one_request_to_owner) t = std::max(t, l.supplier_free[at]);
  return std::max(at == complex ? t + latency / 2 : at_home(l, t + latency / 2, latency), l.written);
}

unsigned coherence::copies(const line& l, unsigned complex) const {
  unsigned n = 0;
  const unsigned cores = machine_.cores / machine_.complexes, end = (complex + 1) * cores;
  for (unsigned core = complex * cores; core < end;) {
    const unsigned bit = core % 64, width = std::min(64 - bit, end - core);
    const std::uint64_t mask = (width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1) << bit;
    n += unsigned(std::popcount(l.sharers[core / 64] & mask));
    core += width;
  }
  return n;
}

cycles coherence::one_way(line& l, unsigned core, bool write) {
  const unsigned here = complex_of(core);
  if (l.home == ~0u) l.home = machine_.home.value_or(here);
  if (l.owner != line::nobody) return l.owner == std::int32_t(core) ? 0 : from_owner(l, here) / 2;
  if (l.complexes == 0) return 0;
  if (write) return machine_.invalidate[distance(here, l.home)] / 2;
  return l.shared_by(core) ? 0 : machine_.clean[apart(l, here, supplier(l, here))] / 2;
}

cycles coherence::read(line& l, unsigned core, cycles t) {
  const unsigned here = complex_of(core);
  if (l.owner == std::int32_t(core)) return std::max(t, l.written) + machine_.hit;
  if (l.shared_by(core)) {
    if (fills_[core].which == &l && machine_.merges_fills)
      t = std::max(t, fills_[core].done);  // another hardware thread's read is under way
    return t + machine_.hit;
  }
  cycles done;
  if (l.owner != line::nobody) {
    const unsigned from = complex_of(unsigned(l.owner));
    const cycles whole = from_owner(l, here), half = whole / 2;
    const cycles served = at_owner(l, here, t, whole);
    done = served + (whole - half);
    l.share(unsigned(l.owner));
    l.owner = line::nobody;
    l.complexes = std::uint64_t{1} << from | std::uint64_t{1} << here;
    l.supplier_free[from] = served;
    l.supplier_free[here] = std::max(served, done - std::min(done, machine_.clean[0] / 2));
  } else if (l.complexes != 0) {
    const unsigned from = supplier(l, here);
    const cycles whole = machine_.clean[apart(l, here, from)], half = whole / 2;
    const cycles served = std::max(from == here ? t + half : at_home(l, t + half, whole), l.supplier_free[from]);
    done = served + (whole - half);
    l.supplier_free[from] = served + machine_.per_read;
    if ((l.complexes >> here & 1) == 0) {
      l.complexes |= std::uint64_t{1} << here;
      l.supplier_free[here] = std::max(l.supplier_free[here], done - std::min(done, machine_.clean[0] / 2));
    }
  } else {
    const cycles latency = machine_.memory[distance(here, l.home)];
    done = at_home(l, std::max(t, l.written), latency) + latency;
    l.owner = std::int32_t(core);
    l.writer = std::int32_t(here);
    l.complexes = std::uint64_t{1} << here;
    l.written = done;
    return done;
  }
  l.share(core);
  l.fetched_by = std::int32_t(core);
  fills_[core] = {&l, done};
  return done;
}

void coherence::upgrade(line& l, unsigned core, cycles t) {
  l.sharers = {};
  l.owner = std::int32_t(core);
  l.writer = std::int32_t(complex_of(core));
  l.complexes = std::uint64_t{1} << complex_of(core);
  l.written = std::max(l.written, t);
  l.supplier_free[complex_of(core)] = l.written;
}

coherence::written coherence::write(line& l, unsigned core, cycles t, bool modify) {
  const unsigned here = complex_of(core);
  const cycles own = modify ? machine_.modify : 1;
  cycles done = std::max(t, l.written), visible = done;
  const bool from_a_core = l.owner != line::nobody;
  if (l.owner == std::int32_t(core)) {
    done = visible = done + own;
    l.written = done;
    return {done, visible};
  }
  if (l.owner != line::nobody) {
    const cycles whole = from_owner(l, here), half = whole / 2;
    visible = at_owner(l, here, t, whole);
    done = visible + (whole - half);
  } else if (l.complexes != 0) {
    const std::uint64_t others = l.complexes & ~(std::uint64_t{1} << here);
    cycles latencies = 0;
    for (std::uint64_t left = others; left != 0; left &= left - 1)
      latencies += machine_.invalidate[apart(l, here, unsigned(std::countr_zero(left)))];
    const cycles begun = others == 0 ? done : at_home(l, done, latencies, unsigned(std::popcount(others)));
    const bool mine = l.shared_by(core);
    unsigned nearest = distances - 1;
    visible = 0;
    for (std::uint64_t left = l.complexes; left != 0; left &= left - 1) {
      const auto s = unsigned(std::countr_zero(left));
      const unsigned d = apart(l, here, s);
      const unsigned n = copies(l, s) - unsigned(mine && s == here);
      nearest = std::min(nearest, d);
      const cycles whole = machine_.invalidate[d], half = whole / 2;
      const cycles served = std::max(begun + half, l.supplier_free[s]);
      visible = std::max(visible, served);
      // If no other core of the writer's complex has a copy, the request goes only to the complex's directory, and the
      // answer takes half as long.
      const cycles back = n != 0 || s != here ? whole - half : half / 2;
      done = std::max(done, served + machine_.per_sharer * n + back);
    }
    if (!mine) done = std::max(done, begun + machine_.clean[nearest]);
  } else {
    if (l.home == ~0u) l.home = machine_.home.value_or(here);
    const cycles latency = machine_.memory[distance(here, l.home)];
    done = at_home(l, done, latency) + latency;
    visible = done;
  }
  done += own;
  l.sharers = {};
  l.owner = std::int32_t(core);
  l.writer = std::int32_t(here);
  l.complexes = std::uint64_t{1} << here;
  l.written = done;
  l.supplier_free[here] = from_a_core ? done : 0;
  return {done, visible};
}

cycles coherence::way_to_home(line& l, unsigned core) {
  const unsigned here = complex_of(core);
  if (l.home == ~0u) l.home = machine_.home.value_or(here);
  return machine_.invalidate[distance(here, l.home)] / 2;
}

coherence::written coherence::modify_at_home(line& l, unsigned core, cycles t) {
  const cycles there = way_to_home(l, core);
  const cycles begun = std::max({t + there, l.home_free, l.written});
  // A recall by the home takes as long as an invalidation: a round trip from the home, and per_sharer for each copy
  // within a complex.
  cycles recalled = begun, visible = begun;
  const auto recall = [&](unsigned complex, unsigned copies) {
    const cycles whole = machine_.invalidate[distance(l.home, complex)], half = whole / 2;
    const cycles served = std::max(begun + half, l.supplier_free[complex]);
    visible = std::max(visible, served);
    recalled = std::max(recalled, served + machine_.per_sharer * copies + (whole - half));
  };
  if (l.owner != line::nobody)
    recall(complex_of(unsigned(l.owner)), 0);
  else if (l.complexes == 0)
    recalled = begun + machine_.memory[0];
  else
    for (std::uint64_t left = l.complexes; left != 0; left &= left - 1) {
      const auto complex = unsigned(std::countr_zero(left));
      if (const unsigned n = copies(l, complex); n != 0) recall(complex, n);
    }
  const cycles executed = recalled + machine_.modify;
  l.sharers = {};
  l.owner = line::nobody;
  l.writer = std::int32_t(l.home);
  l.complexes = std::uint64_t{1} << l.home;
  l.written = l.home_free = l.supplier_free[l.home] = executed;
  return {executed + there, visible};
}

}  // namespace usher::sim
