#include <unistd.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "lab/calibrate/measuring.hpp"
#include "lab/calibrate/native_costs.hpp"

namespace usher::calibrate {
namespace {

/// Returns the size of the largest array that is read from a cache: a load from it takes less than the geometric mean
/// of the loads from the fastest and from the slowest array.
std::uint64_t found_capacity(const mapped_array& a, std::uint64_t from, std::uint64_t to) {
  std::mt19937 chance(1);
  std::vector<std::pair<std::uint64_t, double>> seen;
  for (std::uint64_t bytes = from; bytes <= to; bytes *= 2)
    seen.emplace_back(
        bytes, array_chase(a.bytes(), bytes / line, chance, [](std::size_t i) { return i * line; }).load(51).median);
  std::uint64_t found = from;
  for (const auto& [bytes, ns] : seen)
    if (ns * ns < seen.front().second * seen.back().second) found = bytes;
  return found;
}

/// Measures the nanoseconds to read a line of memory while all cores of the first socket read, each a part of the
/// array.
measured channel_costs(const mapped_array& a, std::uint64_t bytes, const native_machine& m) {
  std::vector<std::unique_ptr<helper_thread>> readers;
  for (const native_cpu& p : m.cpus)
    if (p.socket == 0 && p.hardware_thread == 0) readers.push_back(std::make_unique<helper_thread>(p.number));
  constexpr std::size_t at_once = std::size_t{512} << 10;
  const std::size_t part = bytes / readers.size() / at_once * at_once;
  std::size_t at = 0;
  return repeat(101, [&] {
    const double begin = now();
    for (std::size_t i = 0; i < readers.size(); i++)
      readers[i]->start([&a, from = i * part + at] {
        std::uint64_t sum = 0;
        const auto* const first = reinterpret_cast<const std::uint64_t*>(a.bytes() + from);
        for (const std::uint64_t* p = first; p < first + at_once / sizeof *p; p += line / sizeof *p) sum += *p;
        use(sum);
      });
    for (const auto& r : readers) r->wait();
    at = (at + at_once) % part;
    constexpr std::size_t lines = at_once / line;
    return (now() - begin) / static_cast<double>(lines * readers.size());
  });
}

}  // namespace

array_costs costs_of_arrays(const native_machine& m) {
  const pinned here(m.cpus.front().number);
  constexpr std::size_t times = 201, loads = 4000;
  array_costs c;
  const std::uint64_t own = m.own.bytes != 0 ? m.own.bytes : m.last.bytes / 8;
  const auto available = std::uint64_t(sysconf(_SC_AVPHYS_PAGES)) * std::uint64_t(sysconf(_SC_PAGESIZE));
  c.memory_bytes = std::min({std::bit_floor(m.last.bytes) * 4, std::uint64_t{1} << 30, std::bit_floor(available / 4)});
  const mapped_array a(c.memory_bytes);
  c.last_level = std::min(m.last.bytes, found_capacity(a, own * 2, c.memory_bytes));
  c.last_bytes = std::max(own * 2, c.last_level / 2);
  const auto in = [&](std::uint64_t bytes) {
    const std::uint64_t words = bytes / sizeof(std::uint64_t);
    std::mt19937 chance(1);
    const auto load = [&](std::size_t n) {
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < n; i++) sum += a.words()[std::uint64_t{std::uint32_t(chance())} * words >> 32];
      use(sum);
    };
    load(std::min<std::size_t>(words, 2000000));  // brings all lines into the caches
    return repeat(times, [&] { return each(loads, load); });
  };
  c.own = in(own / 2);
  c.last = in(c.last_bytes);
  c.memory = in(c.memory_bytes);
  c.channel = channel_costs(a, c.memory_bytes, m);
  return c;
}

std::optional<tlb_costs> costs_of_pages(unsigned cpu) {
  const pinned here(cpu);
  constexpr std::size_t page = 4096, most = 8192;
  const mapped_array a(most * page, false);
  std::mt19937 chance(1);
  // The cost of TLB misses: loads from n lines on n pages, minus loads from n lines on few pages.
  const auto extra = [&](std::size_t n) {
    measured apart =
        array_chase(a.bytes(), n, chance, [](std::size_t i) {
          return i * page + i % (page / line) * line;  // so that the lines are in different sets of the caches
        }).load(51);
    const double together = array_chase(a.bytes(), n, chance, [](std::size_t i) { return i * line; }).load(51).median;
    for (double* v : {&apart.median, &apart.low, &apart.high}) *v -= together;
    return apart;
  };
  constexpr double clear = 3, least_ns = 4;  // chosen, not measured: a smaller step is a miss of the first-level TLB
  std::size_t before = 64;
  measured cost = extra(before);
  for (std::size_t n = 96; n <= most; n = n * (std::has_single_bit(n) ? 3 : 4) / (std::has_single_bit(n) ? 2 : 3)) {
    const measured c = extra(n);
    if (c.median > clear * std::max(cost.median, 0.5) && c.median > least_ns)
      return tlb_costs{unsigned(before), extra(2 * before)};
    before = n;
    cost = c;
  }
  return std::nullopt;
}

}  // namespace usher::calibrate
