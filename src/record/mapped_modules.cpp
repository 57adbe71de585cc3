#include "record/mapped_modules.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

namespace usher::preload {
namespace {

/// How many slots of the table are taken.
std::uint32_t taken_slots(const recorder& r) {
  const std::uint32_t taken = r.head->modules.load(std::memory_order_acquire);
  return taken < r.room().modules ? taken : r.room().modules;
}

/// A free slot, or null: there is no room.
record::module_slot* take_slot(recorder& r) {
  const std::uint32_t i = r.head->modules.fetch_add(1, std::memory_order_relaxed);
  return i < r.room().modules ? &r.file.module(i) : nullptr;
}

bool is_known(const recorder& r, std::uint32_t process, std::uint64_t address) {
  // A process's mappings are usually among the last.
  for (std::uint32_t i = taken_slots(r); i-- > 0;) {
    const record::module_slot& m = r.file.module(i);
    if (m.ready.load(std::memory_order_acquire) != 0 && m.process == process && address >= m.begin && address < m.end)
      return true;
  }
  return false;
}

/// Puts the path into the text, unless one of the latest mappings has the same path, and sets `at` to its place. False:
/// there is no room.
bool put_path(recorder& r, const char* path, std::uint32_t length, std::uint32_t& at) {
  constexpr std::uint32_t looked_at = 512;
  const std::uint32_t n = taken_slots(r);
  for (std::uint32_t i = n; i-- > (n > looked_at ? n - looked_at : 0);) {
    const record::module_slot& m = r.file.module(i);
    if (m.ready.load(std::memory_order_acquire) == 0 || m.path_length != length) continue;
    if (std::memcmp(r.file.text() + m.path, path, length) == 0) {
      at = m.path;
      return true;
    }
  }
  at = r.head->text.fetch_add(length, std::memory_order_relaxed);
  if (at > r.room().text || length > r.room().text - at) return false;
  std::memcpy(r.file.text() + at, path, length);
  return true;
}

struct mapping {
  std::uint64_t begin, end, offset, inode;
  const char* path;
  std::uint32_t length;
};

const char* parse_number(const char* c, unsigned base, std::uint64_t& value) {
  for (value = 0;; c++) {
    unsigned digit;
    if (*c >= '0' && *c <= '9')
      digit = unsigned(*c - '0');
    else if (*c >= 'a' && *c <= 'f')
      digit = unsigned(*c - 'a') + 10;
    else
      return c;
    if (digit >= base) return c;
    value = value * base + digit;
  }
}

/// "begin-end rwxp offset dev inode path". False: not executable, or not of a file.
bool parse(const char* line, mapping& m) {
  const char* c = parse_number(line, 16, m.begin);
  if (*c++ != '-') return false;
  c = parse_number(c, 16, m.end);
  if (std::strlen(c) < 6 || c[3] != 'x') return false;
  c = parse_number(c + 6, 16, m.offset);
  c = *c == ' ' ? std::strchr(c + 1, ' ') : nullptr;  // before the inode
  if (c == nullptr) return false;
  c = std::strchr(parse_number(c + 1, 10, m.inode), '/');
  if (c == nullptr) return false;
  m.path = c;
  m.length = std::uint32_t(std::strlen(c));
  return true;
}

void record_mapping(recorder& r, std::uint32_t process, const mapping& m) {
  if (is_known(r, process, m.begin)) return;
  record::module_slot* const slot = take_slot(r);
  std::uint32_t path;
  if (slot == nullptr || !put_path(r, m.path, m.length, path)) {
    add(r.head->dropped.modules, 1);
    return;
  }
  slot->process = process;
  slot->begin = m.begin;
  slot->end = m.end;
  slot->offset = m.offset;
  slot->path = path;
  slot->path_length = m.length;
  slot->inode = m.inode;
  slot->ready.store(1, std::memory_order_release);
}

void read_mappings(recorder& r, std::uint32_t process) {
  const int saved = errno;
  const long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    char buffer[2048];  // small, because the thread's stack may be. Longer lines are left out
    std::size_t have = 0;
    bool skip = false;
    for (;;) {
      const long n = syscall(SYS_read, fd, buffer + have, sizeof buffer - 1 - have);
      if (n <= 0) break;
      have += std::size_t(n);
      char* line = buffer;
      while (char* const end = static_cast<char*>(std::memchr(line, '\n', std::size_t(buffer + have - line)))) {
        *end = '\0';
        mapping m;
        if (!skip && parse(line, m)) record_mapping(r, process, m);
        skip = false;
        line = end + 1;
      }
      have = std::size_t(buffer + have - line);
      if (have == sizeof buffer - 1) {
        have = 0;
        skip = true;
      } else {
        std::memmove(buffer, line, have);
      }
    }
    syscall(SYS_close, fd);
  }
  errno = saved;
}

}  // namespace

void record_mapping_of(recorder& r, const recorded_thread& me, std::uint64_t address) {
  const std::uint32_t process = std::uint32_t(me.key_base >> 48) - 1;
  // An address outside of all modules, in code generated at run time, is in no mapping of a file. And a sandbox in
  // which such code runs may forbid to open a file.
  const bool known =
      is_known(r, process, address) || (can_find_modules() && !is_in_module(std::bit_cast<const void*>(address)));
  if (known && r.maps_are_due.load(std::memory_order_relaxed) == 0) return;
  const std::uint64_t now = r.ticks();
  std::uint64_t next = r.next_maps.load(std::memory_order_relaxed);
  if (now < next || !r.next_maps.compare_exchange_strong(next, ~std::uint64_t{0}, std::memory_order_relaxed)) {
    r.maps_are_due.store(1, std::memory_order_relaxed);  // for a later call
    return;
  }
  r.maps_are_due.store(0, std::memory_order_relaxed);
  read_mappings(r, process);
  // The reading takes longer the more mappings there are, and code that is in no file is never found. So it pauses for
  // 50 times as long, and takes at most 2 % of the time.
  constexpr std::uint64_t rest = 50;
  const std::uint64_t then = r.ticks();
  r.next_maps.store(then + rest * (then - now), std::memory_order_relaxed);
}

bool inherit_modules(recorder& r, std::uint32_t parent, std::uint32_t child) {
  bool any = false;
  for (std::uint32_t i = 0, n = taken_slots(r); i < n; i++) {
    const record::module_slot& from = r.file.module(i);
    if (from.ready.load(std::memory_order_acquire) == 0 || from.process != parent) continue;
    record::module_slot* const to = take_slot(r);
    if (to == nullptr) {
      add(r.head->dropped.modules, 1);
      return true;
    }
    to->process = child;
    to->begin = from.begin;
    to->end = from.end;
    to->offset = from.offset;
    to->path = from.path;
    to->path_length = from.path_length;
    to->inode = from.inode;
    to->ready.store(1, std::memory_order_release);
    any = true;
  }
  return any;
}

}  // namespace usher::preload
