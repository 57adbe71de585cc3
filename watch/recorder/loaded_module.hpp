// A module as described by the loader. Valid as long as the module cannot be unloaded.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "watch/contract/module_identity.hpp"
#include "watch/recorder/initial_modules.hpp"
#include "watch/recorder/readable_memory.hpp"
#include "watch/recorder/unloading.hpp"

#if defined(DLFO_EH_SEGMENT_TYPE)
extern "C" [[gnu::weak]] int _dl_find_object(void*, dl_find_object*) noexcept;  // NOLINT(bugprone-reserved-identifier)
#endif

namespace usher::recorder {

struct loaded_module {
  std::uintptr_t begin = 0, end = 0;  ///< of the module or, if its segments are not adjacent, of one segment
  std::uintptr_t tables = 0;          ///< address of .eh_frame_hdr; 0: none
  const link_map* entry = nullptr;    ///< the loader's
  bool stays = false;                 ///< the module is never unloaded
  std::uint64_t identity = 0;         ///< 0: not known, or not computed

  bool has(std::uint64_t address) const { return address - begin < end - begin; }
};

/// `unclear`: the C library does not support the search, or a module is being unloaded (unloading.hpp).
enum class lookup { found, none, unclear };

/// Finds the module that contains the address, without its identity. The memory at the address must be in use, unless
/// the caller ignores modules that may be unloaded. Reads neither the module nor its loader entry.
[[gnu::noinline]] inline lookup find_module(std::uint64_t address, loaded_module& m) {
#if defined(DLFO_EH_SEGMENT_TYPE)
  if (_dl_find_object == nullptr) return lookup::unclear;
  const bool in_doubt = may_be_unloading();  // must precede the search: see may_be_unloading()
  dl_find_object found;
  if (_dl_find_object(std::bit_cast<void*>(address), &found) != 0) return lookup::none;
  m.begin = reinterpret_cast<std::uintptr_t>(found.dlfo_map_start);
  m.end = reinterpret_cast<std::uintptr_t>(found.dlfo_map_end);
  m.tables = reinterpret_cast<std::uintptr_t>(found.dlfo_eh_frame);
  m.entry = found.dlfo_link_map;
  m.stays = is_initial(m.entry);
  m.identity = 0;
  return m.stays || !in_doubt ? lookup::found : lookup::unclear;
#else
  (void)address, (void)m;
  return lookup::unclear;
#endif
}

/// Computes the identity from the module's memory. The ELF header must be at `m.begin`.
[[gnu::noinline]] inline std::uint64_t identity_in_memory(const loaded_module& m, readable_memory& memory) {
  const auto read = [&](std::uint64_t place, void* to, std::size_t size) {
    if (place > m.end - m.begin || size > m.end - m.begin - place || !memory.has(m.begin + place, size)) return false;
    std::memcpy(to, std::bit_cast<const void*>(m.begin + place), size);
    return true;
  };
  return contract::module_identity(
      read, [&](std::uint64_t, std::uint64_t address) { return m.entry->l_addr + address - m.begin; });
}

}  // namespace usher::recorder
