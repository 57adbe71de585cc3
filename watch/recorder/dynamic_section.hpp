// The names in a module's dynamic section (DT_NEEDED, DT_SONAME), read within the bounds of its program headers.
//
// The loader may or may not have relocated an address in a dynamic section: glibc relocates it only if the section is
// writable. The size of the address does not show this, because a module may be linked for any address; gVisor's vDSO
// is linked for the top of the address space. So an address is used only if it, or its sum with the load address, lies
// in a loaded segment (PT_LOAD). If both do, the right one is not known, and no names are read.
#pragma once

#include <link.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace usher::recorder {

/// What dl_iterate_phdr() reports about a module.
struct module_headers {
  std::uintptr_t bias = 0;  ///< the load address − the address for which the module is linked
  const ElfW(Phdr) * all = nullptr;
  unsigned number = 0;

  /// Whether a readable segment contains the whole range.
  bool contain(std::uintptr_t address, std::size_t size) const {
    for (unsigned i = 0; i < number; i++) {
      const ElfW(Phdr)& s = all[i];
      const std::uintptr_t at = address - (bias + s.p_vaddr);
      if (s.p_type == PT_LOAD && (s.p_flags & PF_R) != 0 && at < s.p_memsz && size <= s.p_memsz - at) return true;
    }
    return false;
  }

  /// The size of the dynamic section at this address; 0 if it has none.
  std::size_t dynamic_at(std::uintptr_t address) const {
    for (unsigned i = 0; i < number; i++)
      if (all[i].p_type == PT_DYNAMIC && bias + all[i].p_vaddr == address)
        return contain(address, all[i].p_memsz) ? all[i].p_memsz : 0;
    return 0;
  }
};

class dynamic_section {
 public:
  /// `place` is the section's address in the loader's entry (`l_ld`).
  dynamic_section(const void* place, const module_headers& module) : begin_(static_cast<const ElfW(Dyn) *>(place)) {
    const std::size_t room = module.dynamic_at(reinterpret_cast<std::uintptr_t>(place)) / sizeof *begin_;
    while (entries_ < room && begin_[entries_].d_tag != DT_NULL) entries_++;
    const ElfW(Dyn)* const table = find(DT_STRTAB);
    const ElfW(Dyn)* const size = find(DT_STRSZ);
    if (table == nullptr || size == nullptr || size->d_un.d_val == 0) return;
    const std::uintptr_t as_is = table->d_un.d_ptr, relocated = as_is + module.bias;
    const bool is_relocated = module.contain(as_is, size->d_un.d_val),
               is_relative = module.contain(relocated, size->d_un.d_val);
    if (is_relocated == is_relative && (!is_relocated || module.bias != 0)) return;
    strings_ = std::bit_cast<const char*>(is_relocated ? as_is : relocated);
    size_ = size->d_un.d_val;
  }

  /// Calls f(name) for each entry with this tag whose name lies in the string table.
  template <class Function>
  void each_name(ElfW(Sxword) tag, const Function& f) const {
    for (std::size_t i = 0; i < entries_ && size_ != 0; i++) {
      const std::size_t at = begin_[i].d_un.d_val;
      if (begin_[i].d_tag == tag && at < size_ && std::memchr(strings_ + at, 0, size_ - at) != nullptr)
        f(strings_ + at);
    }
  }

 private:
  const ElfW(Dyn) * find(ElfW(Sxword) tag) const {
    for (std::size_t i = 0; i < entries_; i++)
      if (begin_[i].d_tag == tag) return &begin_[i];
    return nullptr;
  }

  const ElfW(Dyn) * begin_;
  std::size_t entries_ = 0;  ///< without DT_NULL
  const char* strings_ = nullptr;
  std::size_t size_ = 0;  ///< of the string table; 0: none
};

}  // namespace usher::recorder
