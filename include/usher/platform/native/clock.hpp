// The clocks, read without a call through the dynamic linker (for the reason given in system_call.h).
//
// A clock is read by the function that the kernel maps into each process (vDSO), because a system call would take about
// ten times as long. A constructor in each module with this header looks the function up when the module is loaded.
// Before that, or without the function, a system call is made. So a lock call never looks up a symbol.
//
// A library that replaces clock_gettime() for the program does not affect these clocks. This is right for the waiting
// times of the locks, because they measure the time that the hardware takes. It is also right for a deadline that the
// program gives: the C library, too, passes it to the kernel unchanged, and the kernel compares it with its own clock.
// A library that fakes the time must convert deadlines between the program and the C library's functions, as
// libfaketime does; then the locks get converted deadlines.
#pragma once

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "usher/core/cxx20.hpp"
#include "usher/platform/native/system_call.h"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2::native_detail {

/// The dynamic symbols of the vDSO.
class vdso {
 public:
  explicit vdso(std::uintptr_t at) : base_(at) {
    const auto& head = *reinterpret_cast<const ElfW(Ehdr)*>(at);
    const auto* const segments = reinterpret_cast<const ElfW(Phdr)*>(at + head.e_phoff);
    const ElfW(Dyn)* entries = nullptr;
    bool is_loaded = false;
    for (unsigned i = 0; i < head.e_phnum; i++) {
      if (segments[i].p_type == PT_LOAD && !is_loaded) {
        base_ = at + segments[i].p_offset - segments[i].p_vaddr;
        begin_ = at + segments[i].p_offset, size_ = segments[i].p_memsz;
        is_loaded = true;
      }
      if (segments[i].p_type == PT_DYNAMIC) entries = reinterpret_cast<const ElfW(Dyn)*>(at + segments[i].p_offset);
    }
    for (; is_loaded && entries != nullptr && entries->d_tag != DT_NULL; entries++) note(*entries);
  }

  /// Returns the address of a function, or 0.
  std::uintptr_t find(const char* name) const {
    if (symbols_ == nullptr || names_ == nullptr) return 0;
    const std::uint32_t n = count();
    for (std::uint32_t i = 0; i < n; i++)
      if (symbols_[i].st_shndx != SHN_UNDEF && (symbols_[i].st_info & 15) == STT_FUNC &&
          is_equal(names_ + symbols_[i].st_name, name))
        return base_ + symbols_[i].st_value;
    return 0;
  }

 private:
  void note(const ElfW(Dyn) & entry) {
    const std::uintptr_t address = base_ + entry.d_un.d_ptr;
    if (address - begin_ >= size_) return;  // a number, or an address outside the segment
    if (entry.d_tag == DT_STRTAB) names_ = reinterpret_cast<const char*>(address);
    if (entry.d_tag == DT_SYMTAB) symbols_ = reinterpret_cast<const ElfW(Sym)*>(address);
    if (entry.d_tag == DT_HASH) hash_ = reinterpret_cast<const std::uint32_t*>(address);
    if (entry.d_tag == DT_GNU_HASH) gnu_hash_ = reinterpret_cast<const std::uint32_t*>(address);
  }

  /// Returns the number of symbols: from the hash table, or in a GNU hash table from the end of the last chain.
  std::uint32_t count() const {
    if (hash_ != nullptr) return hash_[1];
    if (gnu_hash_ == nullptr) return 0;
    const std::uint32_t buckets = gnu_hash_[0], first = gnu_hash_[1], filters = gnu_hash_[2];
    const std::uint32_t* const bucket = gnu_hash_ + 4 + filters * (sizeof(ElfW(Addr)) / sizeof(std::uint32_t));
    const std::uint32_t* const chain = bucket + buckets;
    std::uint32_t last = 0;
    for (std::uint32_t i = 0; i < buckets; i++) last = bucket[i] > last ? bucket[i] : last;
    if (last < first) return 0;
    while ((chain[last - first] & 1) == 0) last++;
    return last + 1;
  }

  static bool is_equal(const char* a, const char* b) {
    while (*a != 0 && *a == *b) a++, b++;
    return *a == *b;
  }

  std::uintptr_t base_, begin_ = 0, size_ = 0;
  const char* names_ = nullptr;
  const ElfW(Sym) * symbols_ = nullptr;
  const std::uint32_t *hash_ = nullptr, *gnu_hash_ = nullptr;
};

struct clocks {
  /// Not inlined: otherwise lock functions would contain an indirect call, whose target no test of their code can know.
  [[gnu::noinline]] static timespec read(clockid_t clock) {
    timespec t{};  // memory sanitizers do not see that the kernel writes it
    const function f = in_vdso.load(std::memory_order_relaxed);
    if (f == nullptr || f(clock, &t) != 0) [[unlikely]]
      system_call(SYS_clock_gettime, clock, &t);
    return t;
  }

  /// Called by the constructor of each module with this header.
  static void prepare() {
#if defined(__x86_64__)
    constexpr const char* name = "__vdso_clock_gettime";
#else
    constexpr const char* name = "__kernel_clock_gettime";
#endif
    if (in_vdso.load(std::memory_order_relaxed) != nullptr) return;
    const std::uintptr_t at = getauxval(AT_SYSINFO_EHDR);
    if (at != 0) in_vdso.store(reinterpret_cast<function>(vdso(at).find(name)), std::memory_order_relaxed);
  }

 private:
  using function = int (*)(clockid_t, timespec*);
  static inline constinit std::atomic<function> in_vdso{nullptr};
};

}  // namespace usher::inline v2::native_detail

#include "usher/core/shadow_end.h"
