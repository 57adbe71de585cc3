#include "watch/access/shared_record.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace usher::access {
namespace {

constexpr std::uint64_t page = 4096;
constexpr int first_inherited = 1000;  // below 1024, which is a common limit and that of select(); chosen
constexpr unsigned seals_of_size = F_SEAL_SHRINK | F_SEAL_GROW;

[[noreturn]] void refuse(const std::string& why) {
  throw std::runtime_error("the record cannot be read: " + why);
}

[[noreturn]] void fail_to_make(std::uint64_t size, int error) {
  throw std::runtime_error(
      fmt::format("cannot make a record of {} MiB in memory: {} (--objects with a smaller number makes it smaller)",
                  size >> 20, std::strerror(error)));
}

/// Returns the size of a memory file that is sealed against a change of size; refuses any other file. Also refuses a
/// file of huge pages: if no huge page is free, an access raises SIGBUS.
std::uint64_t checked_size(int descriptor) {
  struct ::stat file;
  struct ::statfs system;
  if (fstat(descriptor, &file) != 0 || fstatfs(descriptor, &system) != 0)
    refuse(fmt::format("no such descriptor ({})", std::strerror(errno)));
  if (!S_ISREG(file.st_mode) || system.f_type != TMPFS_MAGIC) refuse("it is no memory file");
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (static_cast<unsigned>(seals) & seals_of_size) != seals_of_size)
    refuse("it is not sealed, so that it could be truncated at any time");
  const auto size = static_cast<std::uint64_t>(file.st_size);
  if (size < sizeof(contract::header)) refuse("it is smaller than a record's header");
  if (size > contract::largest_file) refuse(fmt::format("it has {} MiB, more than 1024", size >> 20));
  return size;
}

/// Reads `n` bytes of a file. Returns false if the file is shorter.
bool read_at(int descriptor, std::uint64_t at, void* to, std::size_t n) {
  for (auto* next = static_cast<std::byte*>(to); n != 0;) {
    const ssize_t got = pread(descriptor, next, n, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    next += got;
    at += static_cast<std::uint64_t>(got);
    n -= static_cast<std::size_t>(got);
  }
  return true;
}

/// The non-atomic words of a header, read from a copy, since the program may write to the file at any time.
struct header_words {
  std::uint64_t magic;
  std::uint32_t version, hold_times;
  std::uint64_t size;
  contract::capacities room;
  std::uint32_t ticks_are_tsc;
};
static_assert(offsetof(header_words, size) == offsetof(contract::header, size) &&
              offsetof(header_words, room) == offsetof(contract::header, room) &&
              offsetof(header_words, ticks_are_tsc) == offsetof(contract::header, ticks_are_tsc));

bool is_zero(const header_words& h) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&h);
  return std::all_of(bytes, bytes + sizeof h, [](unsigned char c) { return c == 0; });
}

void write_capacities(const contract::view& file, std::uint64_t size) {
  contract::header& h = file.head();
  h.version = contract::version;
  h.size = size;
  h.room = file.room();
  h.magic = contract::magic;
}

template <class T>
void limit(std::atomic<T>& n, T most) {
  if (contract::read(n) > most) n.store(most, std::memory_order_relaxed);
}

}  // namespace

mapped_memory mapped_memory::zeros(std::uint64_t size) {
  void* const begin = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) throw std::bad_alloc();
  return {begin, size};
}

mapped_memory mapped_memory::of_file(int descriptor, std::uint64_t size) {
  void* const begin = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (begin == MAP_FAILED) refuse(fmt::format("it cannot be mapped: {}", std::strerror(errno)));
  return {begin, size};
}

mapped_memory::~mapped_memory() {
  if (begin_ != nullptr) munmap(begin_, size_);
}

void make_safe(const contract::view& copy) {
  const contract::capacities& room = copy.room();
  write_capacities(copy, contract::view::size_for(room));
  contract::header& h = copy.head();
  limit(h.processes, room.processes);
  limit(h.threads, room.threads);
  limit(h.modules, room.modules);
  limit(h.text, room.text);
  limit(h.details, room.details);
  limit(h.windows, room.windows);
  for (std::uint32_t i = 0; i < contract::read(h.processes); i++) {
    *std::prev(std::end(copy.process(i).lock)) = '\0';
    *std::prev(std::end(copy.process(i).command)) = '\0';
  }
  for (std::uint32_t i = 0; i < room.chains; i++) {
    contract::chain& c = copy.chain(i);
    if (c.length > contract::chain::longest) c.length = contract::chain::longest;
  }
}

void add_thread_counts(const contract::view& copy) {
  const contract::capacities& room = copy.room();
  for (std::uint32_t i = std::min(contract::read(copy.head().threads), room.threads); i-- > 0;)
    for (contract::word64& w : copy.thread(i).counts) {
      const std::uint64_t word = w.exchange(0);
      const auto object = static_cast<std::uint32_t>(word & (contract::one_counted - 1));
      if (object - 1 < room.objects) copy.object(object - 1).mutex.counted.fetch_add(word / contract::one_counted);
    }
  for (std::uint32_t i = 0; i < room.objects; i++) {
    contract::object& o = copy.object(i);
    if (!contract::has_holds(contract::kind(contract::read(o.depth_and_kind) & 0xff))) continue;
    if (contract::read(o.mutex.counted) != 0) o.acquisitions.fetch_add(o.mutex.counted.exchange(0));
  }
}

namespace {

void read_part(int descriptor, std::size_t at, std::span<std::byte> to) {
  if (!read_at(descriptor, at, to.data(), to.size())) refuse("it is shorter than its header says");
}

/// For systems that do not report holes (gVisor): reads everything from `at`, and writes the parts that are not zero.
void copy_all(int descriptor, std::size_t at, std::span<std::byte> to) {
  std::vector<std::byte> part(64 * page);
  for (; at < to.size(); at += part.size()) {
    part.resize(std::min(part.size(), to.size() - at));
    read_part(descriptor, at, part);
    if (std::ranges::any_of(part, [](std::byte b) { return b != std::byte{0}; }))
      std::ranges::copy(part, to.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

/// Copies the parts of the file that have data, and skips the holes, which are most of it.
void copy_data(int descriptor, std::span<std::byte> to) {
  for (std::size_t at = 0; at < to.size();) {
    const off_t data = lseek(descriptor, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) return;  // the rest is a hole
    if (data < 0) return copy_all(descriptor, at, to);
    const auto begin = static_cast<std::size_t>(data);
    if (begin >= to.size()) return;
    // The program may have made a hole at `data` since the previous call. Then `hole` equals `data`, and one page is
    // copied.
    const off_t hole = lseek(descriptor, data, SEEK_HOLE);
    at = std::min(to.size(), std::max(static_cast<std::size_t>(std::max(hole, data)), begin + page));
    read_part(descriptor, begin, to.subspan(begin, at - begin));
  }
}

}  // namespace

record_copy::record_copy(int descriptor, const contract::capacities& room)
    : room_(room), memory_(mapped_memory::zeros(contract::view::size_for(room))) {
  copy_data(descriptor, {static_cast<std::byte*>(memory_.begin()), memory_.size()});
  make_safe(view());
  add_thread_counts(view());
}

shared_record::shared_record(support::owned_descriptor descriptor, const contract::capacities& room, bool was_empty,
                             bool ticks_are_tsc)
    : descriptor_(std::move(descriptor)),
      room_(room),
      was_empty_(was_empty),
      ticks_are_tsc_(ticks_are_tsc),
      memory_(mapped_memory::of_file(descriptor_.get(), contract::view::size_for(room))) {
  if (was_empty_) write_capacities({memory_.begin(), room_}, size());
}

shared_record shared_record::made(const contract::capacities& room) {
  const std::uint64_t size = contract::view::size_for(room);
  if (!contract::is_possible(room)) fail_to_make(size, EFBIG);
  support::owned_descriptor file(memfd_create(contract::file_name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0 || ftruncate(file.get(), static_cast<off_t>(size)) != 0) fail_to_make(size, errno);
  // A process that has inherited the file could truncate it, and all processes that map it would be killed by SIGBUS.
  // The seals prevent this, and prevent further seals.
  if (fcntl(file.get(), F_ADD_SEALS, seals_of_size | F_SEAL_SEAL) != 0) fail_to_make(size, errno);
  // The program inherits the descriptor under a high number. Low numbers stay free for the program's own files, since
  // scripts and daemons rely on them.
  if (const int high = fcntl(file.get(), F_DUPFD_CLOEXEC, first_inherited); high >= 0)
    file = support::owned_descriptor(high);
  return {std::move(file), room, true, false};
}

shared_record shared_record::taken(int descriptor, const contract::capacities& if_empty) {
  support::owned_descriptor file(descriptor);
  const std::uint64_t size = checked_size(descriptor);
  header_words h{};
  if (!read_at(descriptor, 0, &h, sizeof h)) refuse("its header cannot be read");
  const bool is_empty = is_zero(h);
  const contract::capacities room = is_empty ? if_empty : h.room;
  if (!is_empty && h.magic != contract::magic) refuse("it is no record of usher stat");
  if (!is_empty && h.version != contract::version)
    refuse(fmt::format("it has format {}, and this usher reads format {}", h.version, contract::version));
  if (!contract::is_possible(room)) refuse("its capacities are no possible ones");
  if (contract::view::size_for(room) != size || (!is_empty && h.size != size))
    refuse(fmt::format("it has {} bytes, and by its capacities {}", size, contract::view::size_for(room)));
  return {std::move(file), room, is_empty, h.ticks_are_tsc != 0};
}

}  // namespace usher::access
