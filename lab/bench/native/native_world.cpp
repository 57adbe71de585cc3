#include "lab/bench/native/native_world.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace usher::bench {

// ---- durations
// -------------------------------------------------------------------------------------------------------

std::size_t histogram::place(std::uint64_t ns) {
  if (ns < 2 * parts) return ns;
  const auto shift = static_cast<std::size_t>(std::bit_width(ns)) - 5;  // leaves 16 to 31
  return shift * parts + (ns >> shift);
}

/// The middle of the range of durations that the histogram counts in bin `place`.
std::uint64_t histogram::value(std::size_t place) {
  if (place < 2 * parts) return place;
  const std::size_t shift = place / parts - 1;
  const std::uint64_t least = (place - shift * parts) << shift;
  return least + (std::uint64_t{1} << shift) / 2;
}

void histogram::add(std::uint64_t ns) {
  counts_[place(ns)]++;
  count_++;
  sum_ += ns;
  longest_ = std::max(longest_, ns);
}

void histogram::add(const histogram& other) {
  for (std::size_t i = 0; i < counts_.size(); i++) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  longest_ = std::max(longest_, other.longest_);
}

std::uint64_t histogram::percentile(double part) const {
  auto left = static_cast<std::uint64_t>(part * static_cast<double>(count_));
  for (std::size_t i = 0; i < counts_.size(); i++) {
    if (left < counts_[i]) return std::min(value(i), longest_);
    left -= counts_[i];
  }
  return longest_;
}

support::durations histogram::summary() const {
  if (count_ == 0) return {};
  return {count_, static_cast<double>(sum_) / static_cast<double>(count_), percentile(0.5), percentile(0.99), longest_};
}

// ---- memory
// ----------------------------------------------------------------------------------------------------------

mapping::mapping(std::size_t bytes, std::size_t page) {
  constexpr std::size_t large = std::size_t{2} << 20;
  const bool on_large_pages = page >= large / 2;
  const std::size_t align = on_large_pages ? large : 4096;
  bytes = (bytes + align - 1) / align * align;
  all_bytes_ = bytes + (on_large_pages ? large : 0);
  all_ = mmap(nullptr, all_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "no memory for a block");
  const auto at = (reinterpret_cast<std::uintptr_t>(all_) + align - 1) / align * align;
  char* const begin = static_cast<char*>(all_) + (at - reinterpret_cast<std::uintptr_t>(all_));
  madvise(begin, bytes,
          on_large_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);  // a failure is ignored: the kernel may lack it
  std::memset(begin, 1, bytes);  // else all pages would be mapped to the kernel's zero page
  begin_ = begin;
}

mapping::~mapping() {
  munmap(all_, all_bytes_);
}

void* world::allocate(std::size_t bytes) {
  const std::size_t size = (std::max(bytes, std::size_t{1}) + line_pair - 1) / line_pair * line_pair;
  void* const at = std::aligned_alloc(line_pair, size);
  if (at == nullptr) throw std::bad_alloc();
  memory_.emplace_back(at);
  std::memset(at, 0, size);
  return at;
}

const mapping& world::make_mapping(std::size_t bytes, std::size_t page) {
  return *blocks_.emplace_back(std::make_unique<mapping>(bytes, page));
}

world::block world::make_block(std::size_t bytes, std::size_t page) {
  return {make_mapping(bytes, page).begin(), bytes};
}

// ---- locks
// -----------------------------------------------------------------------------------------------------------

world::lock world::make_lock() {
  if (table_.align > line_pair) throw std::runtime_error(std::string(table_.name) + " wants to be aligned to more");
  return {table_, allocate(table_.size), std::exchange(metered_, false)};
}

void world::table_lock::acquire(void (*how)(void*)) {
  const std::uint64_t arrived = native::now();
  how(state_);
  thread::current_->waited(arrived, native::now());
}

void world::table_lock::note_hold() {
  thread::current_->held_until(native::now());
}

// ---- threads
// ---------------------------------------------------------------------------------------------------------

thread_local world::thread* world::thread::current_ = nullptr;

world::thread::thread(world& w, unsigned index, std::uint64_t seed)
    : world_(w), index_(index), generator_(static_cast<std::uint32_t>(seed * 1000003 + index + 1)) {
  current_ = this;
}

/// Adds a wait to the histogram. Of a thread that still waits at the end of the measured time, the wait until then is
/// counted.
void world::thread::waited(std::uint64_t arrived, std::uint64_t admitted) {
  admitted_ = admitted;
  const phase now = world_.phase_.load(std::memory_order_acquire);
  if (now == phase::measured) return waits_.add(admitted - arrived);
  const std::uint64_t end = world_.ended_.load(std::memory_order_relaxed);
  if (now == phase::before || arrived >= end) return;
  waits_.add(std::min(admitted, end) - arrived);
  waited_at_end_ = waited_at_end_ || admitted > end;
}

void world::thread::held_until(std::uint64_t released) {
  if (world_.phase_.load(std::memory_order_relaxed) == phase::measured) holds_.add(released - admitted_);
}

// ---- the run
// ---------------------------------------------------------------------------------------------------------

world::world(unsigned threads, const lock_table& table, std::map<std::string, long> parameters, bool metered)
    : table_(table), threads_(threads), parameters_(std::move(parameters)), metered_(metered) {}

void world::end() {
  ended_.store(native::now(), std::memory_order_relaxed);
  phase_.store(phase::over, std::memory_order_release);  // publishes ended_
}

bool world::is_generator_at(std::uint64_t steps) const {
  if (generators_.size() != 1) return true;
  std::mt19937 replay;
  replay.discard(steps);
  return replay == generators_.front()->value;
}

static_assert(workloads::world<world>);

}  // namespace usher::bench
