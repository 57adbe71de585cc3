// What sleeping threads wait for: parsers of the kernel's files, the search for the caller of a system call, names of
// the results, and sentences. thread_sampler.hpp collects the samples.
//
// The attacker is the recorded process: it chooses its stack, its mappings and the names of its files. So the parsers
// accept any bytes, each search is bounded, and only the confined child of remote_symbols.hpp opens files.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "watch/reader/name/symbols.hpp"
#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

// ---- the kernel's files -----------------------------------------------------------------------------------------

/// The content of /proc/PID/task/TID/syscall.
struct kernel_entry {
  bool is_running = false;  ///< the thread runs or is ready to run; the other fields are unset
  /// Of the system call; −1: the thread sleeps outside of a call, for example in a page fault
  std::int64_t number = -1;
  std::array<std::uint64_t, 6> arguments{};
  std::uint64_t sp = 0, pc = 0;
};
std::optional<kernel_entry> parse_entry(std::string_view text);

/// The name of a system call of this architecture: "futex", "poll", "system call 12".
std::string name_of_call(std::int64_t number);

/// The id of the thread for whose end this thread waits; else 0. pthread_join() sleeps on the word with the other
/// thread's id, which the kernel clears: the futex is shared, and its expected value is the id.
std::uint32_t awaited_thread(const kernel_entry& e);

/// Whether a file is the C or C++ library, the dynamic loader or Usher's library. A search for a caller skips their
/// frames.
bool is_passed_over(std::string_view path);
/// Whether a file is a shared library, by its name.
bool is_library(std::string_view path);
/// Whether a system call with this number waits for one or several futexes.
bool is_futex(std::int64_t number);

// ---- the caller of a system call --------------------------------------------------------------------------------

inline constexpr std::size_t bytes_before = 7;  ///< the length of the longest call instruction

/// Whether these bytes, which lie directly before `return_address`, end with a call instruction. `is_code` tells
/// whether an address is in a file's code; a direct call must lead there. Always true on architectures other than
/// x86-64.
template <class IsCode>
bool ends_in_call(std::span<const unsigned char, bytes_before> bytes, [[maybe_unused]] std::uint64_t return_address,
                  [[maybe_unused]] const IsCode& is_code) {
#if defined(__x86_64__)
  const auto at = [&](std::size_t before_end) { return bytes[bytes_before - before_end]; };
  if (at(5) == 0xe8) {
    std::uint32_t distance = 0;
    for (std::size_t i = 0; i < 4; i++) distance |= std::uint32_t{at(4 - i)} << 8 * i;
    return is_code(return_address + static_cast<std::uint64_t>(std::int64_t{std::int32_t(distance)}));
  }
  // ff /2 with all forms of operands: mod and r/m determine the length.
  for (const std::size_t length : {2u, 3u, 4u, 6u, 7u}) {
    if (at(length) != 0xff) continue;
    const unsigned operand = at(length - 1), mod = operand >> 6, rm = operand & 7;
    if ((operand >> 3 & 7) != 2) continue;
    const bool has_sib = mod != 3 && rm == 4;
    const std::size_t displacement = mod == 1 ? 1 : mod == 2 || (mod == 0 && rm == 5) ? 4 : 0;
    const bool has_base = !(has_sib && mod == 0 && length >= 3 && (at(length - 2) & 7) == 5);
    if (length == 2 + (has_sib ? 1u : 0u) + (has_base ? displacement : 4)) return true;
  }
  return false;
#else
  (void)bytes;
  return true;
#endif
}

// ---- results ------------------------------------------------------------------------------------------------------

/// An address, as module and offset.
struct module_offset {
  std::uint32_t module = 0;  ///< index in sampled_sleeps::modules, + 1; 0: in no file
  std::uint64_t offset = 0;  ///< address − bias
  auto operator<=>(const module_offset&) const = default;
};

/// A module that contains a sampled address. The fields are those of contract::module_slot.
struct sampled_module {
  std::uint32_t process = 0;
  std::uint64_t begin = 0, end = 0, bias = 0, identity = 0;
  std::string path;
};

/// The sampler's results, before names are looked up. `samples` are in thousandths.
struct sampled_sleeps {
  struct place {
    std::int64_t number = -1;  ///< of the system call
    bool is_join = false;
    module_offset pc, caller;  ///< equal if the caller itself made the system call
    std::uint64_t samples = 0;
    module_offset below{};  ///< of a futex: the caller of the library that contains `caller`. Module 0: not known
  };
  std::uint64_t observations = 0, unreadable = 0;
  std::uint64_t recorded[contract::kinds] = {};
  bool of_a_part = false;
  std::vector<place> places;
  std::vector<sampled_module> modules;
};

/// Adds the modules to a private copy of the record, so that symbols find them. Returns the number of each in the
/// record; 0: there was no room.
std::vector<std::uint32_t> add_modules(const contract::view& copy, const std::vector<sampled_module>& modules);
/// Looks up the names of the results. `numbers`: from add_modules().
off_cpu named(const sampled_sleeps& s, const std::vector<std::uint32_t>& numbers, symbols& names);

// ---- sentences ----------------------------------------------------------------------------------------------------

/// "of the time that threads slept, 31 % was for recorded locks, 12 % in futexes of libglib-2.0.so.0 and 50 % in
/// poll (230 samples)"; empty: no samples.
std::string off_cpu_text(const report& r);

}  // namespace usher::reader
