// The definition of the process's state, one in each module (an executable or shared object), and the check that all
// modules of a process use the same one.
//
// The assembler directives are in a function because link-time optimisation merges functions of one name; it would keep
// the top-level directives of each translation unit. They are in the function's comdat group, so that object files with
// and without link-time optimisation can be mixed: whichever function the linker keeps, its directives are kept. With
// clang the function is weak: ThinLTO copies a strong inline function that the linker has not kept.
//
//     usher_process_state_v2          the state. STB_GNU_UNIQUE: the loader binds all modules that export it to one
//     usher_process_state_v2_in_use   hidden, in each module: the address of the state to which the loader, or already
//                                     the linker, has bound the module
//     .note.usher                     a note by which other modules find that pointer
//
// A module uses a state of its own if its references to the state are bound within it (-Bsymbolic, a version script
// with `local: *`, an executable that does not export the symbol). If such a module and another module use one lock,
// the lock hangs, because the two modules have different queue nodes and waiting arrays. So when a module is loaded, it
// compares its state with those of the modules loaded before, and reports a difference. With the macro
// USHER_PRIVATE_STATE the module has its own state on purpose: for a module whose locks no other module uses.
#pragma once

#include <errno.h>
#include <link.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "usher/platform/native/clock.hpp"
#include "usher/platform/native/state_layout.hpp"

namespace usher::inline v2::native_detail {

extern process_state* const state_in_use __asm__("usher_process_state_v2_in_use") __attribute__((visibility("hidden")));

/// The members are hidden symbols, because each module's own code must examine that module's state.
struct [[gnu::visibility("hidden")]] state_check {
  static void run() {
    state_check c;
    dl_iterate_phdr(check_module, &c);
    if (c.other_ != nullptr) c.report();
  }

  /// Returns true in a module's first call. Each translation unit registers a constructor, but one check is enough.
  static bool is_first() { return !std::exchange(done_, true); }

 private:
  struct note {
    static constexpr char owner[] = "usher_process_state_v2";
    ElfW(Nhdr) head;
    char name[(sizeof owner + 3) / 4 * 4];
    std::int32_t pointer;      ///< this member's distance from the module's state_in_use
    std::uint32_t is_private;  ///< 1: USHER_PRIVATE_STATE
  };

  /// Compares a module's state with this module's, and remembers a module that uses another state. Called for each
  /// module in the order of loading, up to this module: so of two modules with different states, only the one loaded
  /// second reports the difference.
  static int check_module(dl_phdr_info* module, std::size_t, void* check) {
    const note* const n = note_of(*module);
    if (n == nullptr) return 0;
    auto& c = *static_cast<state_check*>(check);
    const auto* const theirs =
        reinterpret_cast<process_state* const*>(reinterpret_cast<const char*>(&n->pointer) + n->pointer);
    if (!is_mapped(*module, reinterpret_cast<std::uintptr_t>(theirs), sizeof *theirs)) return 0;
    if (theirs == &state_in_use) {
      c.own_ = module->dlpi_name;
      return 1;
    }
    // Null: another thread is loading that module, and the loader has not yet bound it to a state.
    if (n->is_private == 0 && *theirs != nullptr && *theirs != state_in_use && c.other_ == nullptr)
      c.other_ = module->dlpi_name;
    return 0;
  }

  /// Returns whether these bytes are in a readable segment of the module. The loader need not map a segment of notes.
  static bool is_mapped(const dl_phdr_info& module, std::uintptr_t address, std::size_t size) {
    for (unsigned i = 0; i < module.dlpi_phnum; i++) {
      const auto& segment = module.dlpi_phdr[i];
      const std::uintptr_t at = address - (module.dlpi_addr + segment.p_vaddr);
      if (segment.p_type == PT_LOAD && (segment.p_flags & PF_R) != 0 && at < segment.p_memsz &&
          size <= segment.p_memsz - at)
        return true;
    }
    return false;
  }

  static const note* note_of(const dl_phdr_info& module) {
    for (unsigned i = 0; i < module.dlpi_phnum; i++) {
      const auto& segment = module.dlpi_phdr[i];
      if (segment.p_type != PT_NOTE || !is_mapped(module, module.dlpi_addr + segment.p_vaddr, segment.p_memsz))
        continue;
      const std::size_t align = segment.p_align == 8 ? 8 : 4;
      const auto rounded = [align](std::size_t size) { return (size + align - 1) & ~(align - 1); };
      const auto* const begin = reinterpret_cast<const char*>(module.dlpi_addr + segment.p_vaddr);
      for (std::size_t at = 0; at + sizeof(ElfW(Nhdr)) <= segment.p_memsz;) {
        const auto* const n = reinterpret_cast<const note*>(begin + at);
        if (at + sizeof(note) <= segment.p_memsz && n->head.n_namesz == sizeof note::owner &&
            std::memcmp(n->name, note::owner, sizeof note::owner) == 0)
          return n;
        at = rounded(rounded(at + sizeof n->head + n->head.n_namesz) + n->head.n_descsz);
      }
    }
    return nullptr;
  }

  [[gnu::cold]] void report() const {
    const int saved = errno;
    const auto part = [](const char* text) { return iovec{const_cast<char*>(text), std::strlen(text)}; };
    const auto name = [&](const char* file) { return part(file != nullptr && *file != 0 ? file : "the executable"); };
    const iovec line[] = {
        part("usher: "), name(own_), part(" does not use the process state of "), name(other_),
        part(": a lock that both use can hang. Link both so that they export usher_process_state_v2 (an executable by "
             "-rdynamic; no -Bsymbolic, no `local: *`), or compile the one whose locks the other does not use with "
             "-DUSHER_PRIVATE_STATE.\n")};
    [[maybe_unused]] const ssize_t n = writev(STDERR_FILENO, line, sizeof line / sizeof *line);
    errno = saved;
  }

  static inline constinit bool done_ = false;
  const char* own_ = nullptr;
  const char* other_ = nullptr;
};

}  // namespace usher::inline v2::native_detail

#ifdef __clang__
#define USHER_STATE_WEAK , gnu::weak
#else
#define USHER_STATE_WEAK
#endif
#ifdef USHER_PRIVATE_STATE
#define USHER_STATE_CALLED gnu::constructor, gnu::used
#define USHER_STATE_BINDING ".hidden usher_process_state_v2\n"
#define USHER_STATE_PRIVATE "1\n"
#else
#define USHER_STATE_CALLED gnu::constructor, gnu::used
#define USHER_STATE_BINDING
#define USHER_STATE_PRIVATE "0\n"
#endif

// The version in the symbols: state_layout.hpp, at the end. Not inlined: with -flto gcc calls all constructors of a
// program from one function, and an inlined copy there would define the symbols again.
extern "C"[[ USHER_STATE_CALLED, gnu::noinline, gnu::visibility("hidden") USHER_STATE_WEAK ]] inline void
usher_process_state_v2_definition() {
  __asm__ volatile(
      ".pushsection .bss.usher_process_state_v2,\"awG\",%nobits,usher_process_state_v2_definition,comdat\n"
      ".globl usher_process_state_v2\n" USHER_STATE_BINDING
      ".type usher_process_state_v2, %gnu_unique_object\n"
      ".size usher_process_state_v2, " USHER_TEXT(USHER_STATE_BYTES) "\n"
      ".balign " USHER_TEXT(USHER_LARGEST_PAGE) "\n"
      "usher_process_state_v2:\n"
      ".zero " USHER_TEXT(USHER_STATE_BYTES) "\n"
      ".popsection\n"
      ".pushsection .data.rel.ro.usher_process_state_v2,\"awG\",%progbits,usher_process_state_v2_definition,comdat\n"
      ".globl usher_process_state_v2_in_use\n"
      ".hidden usher_process_state_v2_in_use\n"
      ".type usher_process_state_v2_in_use, %object\n"
      ".size usher_process_state_v2_in_use, 8\n"
      ".balign 8\n"
      "usher_process_state_v2_in_use:\n"
      ".dc.a usher_process_state_v2\n"
      ".popsection\n"
      ".pushsection .note.usher,\"aG\",%note,usher_process_state_v2_definition,comdat\n"
      ".balign 4\n"
      ".long 23, 8, 1\n"
      ".asciz \"usher_process_state_v2\"\n"
      ".balign 4\n"
      ".long usher_process_state_v2_in_use - .\n"
      ".long " USHER_STATE_PRIVATE ".popsection\n");
  usher::native_detail::clocks::prepare();
#ifndef USHER_PRIVATE_STATE
  if (usher::native_detail::state_check::is_first()) usher::native_detail::state_check::run();
#endif
}

#undef USHER_TEXT
#undef USHER_TEXT_OF
#undef USHER_STATE_BYTES
#undef USHER_LARGEST_PAGE
#undef USHER_STATE_WEAK
#undef USHER_STATE_CALLED
#undef USHER_STATE_BINDING
#undef USHER_STATE_PRIVATE
