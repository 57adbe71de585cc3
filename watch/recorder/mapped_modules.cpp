// Records the modules with the addresses and paths that the loader provides (_dl_find_object()). It does not open
// /proc/self/maps, since a sandbox may kill the program for that. With glibc before 2.35 the library records no
// modules; the observer reads /proc/PID/maps instead.
#include "watch/recorder/mapped_modules.hpp"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstring>

namespace usher::recorder {
namespace {

constexpr std::uint32_t looked_at = 512;  // the number of latest slots to compare; chosen

/// The number of slots in use.
std::uint32_t taken_slots(const recorder& r) {
  const std::uint32_t taken = r.head->modules.load(std::memory_order_acquire);
  return taken < r.room().modules ? taken : r.room().modules;
}

/// The first of the latest slots, which are compared with a new entry.
std::uint32_t first_looked_at(std::uint32_t taken) {
  return taken > looked_at ? taken - looked_at : 0;
}

/// Takes a free slot. Returns its index + 1, or 0 if the table is full.
std::uint32_t take_slot(recorder& r) {
  const std::uint32_t i = r.head->modules.load(std::memory_order_relaxed) < r.room().modules
                              ? r.head->modules.fetch_add(1, std::memory_order_relaxed)
                              : r.room().modules;
  return i < r.room().modules && i + 1 < contract::in_no_module ? i + 1 : 0;
}

/// Appends the path to the text, unless one of the latest modules has the same path. Length 0 if the text is full. Not
/// inlined, like other functions here, because the stack of a signal handler may be small.
[[gnu::noinline]] text_place put_path(recorder& r, const char* path, std::uint32_t length) {
  const std::uint32_t taken = taken_slots(r), room = r.room().text;
  const contract::module_slot* const slots = &r.file.module(0);
  char* const text = r.file.text();
  for (std::uint32_t i = taken; i-- > first_looked_at(taken);) {
    const contract::module_slot& m = slots[i];
    if (m.ready.load(std::memory_order_acquire) != 0 && m.path_length == length &&
        std::memcmp(text + m.path, path, length) == 0)
      return {m.path, length};
  }
  if (length > room || r.head->text.load(std::memory_order_relaxed) > room - length) return {0, 0};
  const std::uint32_t at = r.head->text.fetch_add(length, std::memory_order_relaxed);
  if (at > room - length) return {0, 0};
  std::memcpy(text + at, path, length);
  return {at, length};
}

/// Whether this is the loader's entry of the program itself: the first entry, without a path.
bool is_program(const link_map& entry) {
  return entry.l_prev == nullptr && (entry.l_name == nullptr || entry.l_name[0] == '\0');
}

[[gnu::noinline]] std::uint64_t identity_of(const loaded_module& m) {
  if (m.identity != 0) return m.identity;
  readable_memory memory;
  loaded_module whole = m;
  // The program's ELF header may be in another segment than the one found. The kernel provides the address of the
  // program headers, which linkers place directly after the ELF header; the notes follow.
  constexpr std::uintptr_t of_notes = 1 << 16;
  if (is_program(*m.entry))
    if (const std::uint64_t headers = getauxval(AT_PHDR); headers > sizeof(Elf64_Ehdr)) {
      whole.begin = headers - sizeof(Elf64_Ehdr);
      whole.end = m.has(whole.begin) ? m.end : whole.begin + of_notes;
    }
  return identity_in_memory(whole, memory);
}

/// The number of a recent slot with the same content, or 0 if there is none.
[[gnu::noinline]] std::uint32_t same_module(const recorder& r, std::uint32_t process, const loaded_module& m,
                                            std::uint64_t identity) {
  const std::uint32_t taken = taken_slots(r);
  const contract::module_slot* const slots = &r.file.module(0);
  for (std::uint32_t i = taken; i-- > first_looked_at(taken);) {
    const contract::module_slot& s = slots[i];
    if (s.ready.load(std::memory_order_acquire) != 0 && s.process == process && s.begin == m.begin && s.end == m.end &&
        s.bias == m.entry->l_addr && s.identity == identity)
      return i + 1;
  }
  return 0;
}

text_place path_of(recorder& r, const link_map& entry) {
  if (is_program(entry)) return r.program_path;
  const char* const name = entry.l_name != nullptr ? entry.l_name : "";
  return put_path(r, name, std::uint32_t(std::strlen(name)));
}

[[gnu::cold, gnu::noinline]] std::uint32_t new_number(recorder& r, std::uint32_t process, const loaded_module& m) {
  const std::uint64_t identity = identity_of(m);
  if (const std::uint32_t known = same_module(r, process, m, identity); known != 0) return known;
  const std::uint32_t number = take_slot(r);
  if (number == 0) {
    add(r.head->dropped.modules, 1);
    return 0;
  }
  const text_place path = path_of(r, *m.entry);
  contract::module_slot& slot = r.file.module(number - 1);
  slot.process = process;
  slot.begin = m.begin;
  slot.end = m.end;
  slot.bias = m.entry->l_addr;
  slot.identity = identity;
  slot.path = path.at;
  slot.path_length = path.length;
  slot.ready.store(1, std::memory_order_release);
  return number;
}

}  // namespace

std::uint32_t number_of(recorder& r, const recorded_thread& me, const loaded_module& m) {
  const std::uint64_t place = mix(mix(reinterpret_cast<std::uintptr_t>(m.entry), m.begin), mix(m.end, m.identity));
  const std::uint64_t key = mix(place, me.recording);  // another recording has other numbers
  if (const std::uint64_t known = r.modules.get(key); known != 0) return std::uint32_t(known);
  const std::uint32_t number = new_number(r, std::uint32_t(me.key_base >> 48) - 1, m);
  if (number != 0) r.modules.put(key, number);
  return number;
}

namespace {

/// The path by which the program was executed, for processes without /proc. If it is relative, the current directory is
/// put before it. Returns its length; 0: not known.
std::size_t executed_path(char (&path)[PATH_MAX]) {
  const auto* const name = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (name == nullptr) return 0;
  const std::size_t length = std::strlen(name);
  std::size_t folder = 0;
  if (name[0] != '/') {
    const long n = syscall(SYS_getcwd, path, sizeof path);  // the length includes the null
    if (n < 2 || path[0] != '/') return 0;
    folder = std::size_t(n);
    path[folder - 1] = '/';
  }
  if (length >= sizeof path - folder) return 0;
  std::memcpy(path + folder, name, length);
  return folder + length;
}

}  // namespace

void describe_program(recorder& r) {
  static_assert(sizeof r.command == 16);  // the kernel writes 16 bytes
  if (syscall(SYS_prctl, PR_GET_NAME, r.command, 0, 0, 0) != 0) r.command[0] = '\0';
  char path[PATH_MAX];
  long length = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, sizeof path);
  if (length <= 0) length = long(executed_path(path));
  if (length > 0) r.program_path = put_path(r, path, std::uint32_t(length));
}

}  // namespace usher::recorder
