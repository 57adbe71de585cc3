#include "watch/access/record_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <utility>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace usher::access {
namespace {

std::uint64_t monotonic_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1000000000 + static_cast<std::uint64_t>(t.tv_nsec);
}

std::uint64_t read_tsc() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return 0;
#endif
}

/// Whether ticks can be read from the time stamp counter: its rate is constant, it never stops, and the kernel uses it
/// as clock source, so it is equal on all CPUs.
bool is_tsc_steady() {
#if !defined(__x86_64__)
  return false;
#endif
  std::string source;
  std::ifstream("/sys/devices/system/clocksource/clocksource0/current_clocksource") >> source;
  if (source != "tsc" && source != "kvm-clock") return false;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("flags")) continue;
    line += ' ';
    return line.find(" constant_tsc ") != std::string::npos && line.find(" nonstop_tsc ") != std::string::npos;
  }
  return false;
}

contract::capacities room_for(const record_options& o) {
  return contract::capacities::for_objects(o.objects, o.with_waits);
}

}  // namespace

// ---- the clock ------------------------------------------------------------------------------------------------

tick_clock::tick_clock() : is_tsc_(is_tsc_steady()) {
  measure();
}

tick_clock::tick_clock(bool is_tsc) : is_tsc_(is_tsc) {
  if (is_tsc && !is_tsc_steady())
    throw std::runtime_error(
        "the record cannot be read: its times are of a time stamp counter, which is not steady here");
  measure();
}

void tick_clock::measure() {
  if (!is_tsc_) return;
  first_ = read_both();
  const timespec a_while{0, 3'000'000};
  nanosleep(&a_while, nullptr);
  const double per_ms = 1e-3 / seconds_a_tick();
  ticks_a_ms_ = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(per_ms));
}

std::uint64_t tick_clock::now() const {
  return is_tsc_ ? read_tsc() : monotonic_ns();
}

/// Reads both clocks several times and returns the fastest reading, which was not interrupted between the two clocks.
tick_clock::reading tick_clock::read_both() {
  reading best{};
  std::uint64_t least = ~std::uint64_t{0};
  for (int i = 0; i < 8; i++) {
    const std::uint64_t before = read_tsc(), ns = monotonic_ns(), took = read_tsc() - before;
    if (took < least) {
      least = took;
      best = {before + took / 2, ns};
    }
  }
  return best;
}

double tick_clock::seconds_a_tick() const {
  if (!is_tsc_) return 1e-9;
  const reading now = read_both();
  return static_cast<double>(now.ns - first_.ns) * 1e-9 / static_cast<double>(now.ticks - first_.ticks);
}

std::uint64_t tick_clock::ns_at(std::uint64_t ticks, double seconds_a_tick) const {
  if (!is_tsc_) return ticks;
  const auto later = static_cast<std::int64_t>(ticks - first_.ticks);
  const double ns = static_cast<double>(first_.ns) + static_cast<double>(later) * seconds_a_tick * 1e9;
  return ns > 0 ? static_cast<std::uint64_t>(ns) : 0;
}

// ---- the file -------------------------------------------------------------------------------------------------

record_file::record_file(const record_options& o) : record_file(shared_record::made(room_for(o)), o, tick_clock()) {}

record_file::record_file(shared_record file, const record_options& o, const tick_clock& clock)
    : clock_(clock), record_(std::move(file)), path_(fmt::format("/proc/{}/fd/{}", getpid(), record_.descriptor())) {
  if (!record_.was_empty()) return;
  contract::header& h = live().head();
  h.hold_times = o.hold_times ? 1 : 0;
  h.ticks_are_tsc = clock_.is_tsc() ? 1 : 0;
  h.ticks_a_ms = clock_.ticks_a_ms();
  h.enabled.store(1, std::memory_order_release);
}

std::unique_ptr<record_file> record_file::taken(int descriptor, const record_options& o) {
  shared_record file = shared_record::taken(descriptor, room_for(o));
  const tick_clock clock = file.was_empty() ? tick_clock() : tick_clock(file.ticks_are_tsc());
  return std::unique_ptr<record_file>(new record_file(std::move(file), o, clock));
}

void record_file::beat() {
  live().head().heartbeat.store(clock_.now(), std::memory_order_relaxed);
}

void record_file::discard() {
  disable();
  constexpr off_t kept = sizeof(contract::header);
  fallocate(descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kept, static_cast<off_t>(record_.size()) - kept);
}

std::uint64_t record_file::size_for(const record_options& o) {
  return contract::view::size_for(room_for(o));
}

}  // namespace usher::access
