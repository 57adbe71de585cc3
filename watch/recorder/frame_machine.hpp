// The differences between processors in the unwinding of call chains: register numbers, the return address, the frame
// of a signal. Sources: the psABI of x86-64; "DWARF for the Arm 64-bit Architecture" (AADWARF64); for the signal frame
// of AArch64, struct rt_sigframe of Linux, whose layout is part of its interface to programs.
//
// AArch64 differs from x86-64 as follows:
//   - The return address is in a register, x30, until the function saves it. So a function that a signal has
//     interrupted may have no frame: its CFA is the stack pointer. A call overwrites x30, so x30 is known only in the
//     innermost frame and in frames that a signal has interrupted.
//   - Return addresses may be signed (pointer authentication) where DW_CFA_AARCH64_negate_ra_state is given. The
//     signature is removed, not checked.
//   - x29 points to a frame record, which may lie anywhere in its frame. So a step by the frame pointer yields only a
//     lower bound of the stack pointer.
//   - A signal handler returns to the vDSO, which has no tables for this address. It is recognised by its instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace usher::recorder {

#if defined(__x86_64__)

enum dwarf_register : unsigned { rbx = 3, rbp = 6, rsp = 7, r12 = 12, r13 = 13, r14 = 14, r15 = 15, rip = 16 };

struct machine {
  static constexpr unsigned columns = 17;    ///< the unwind tables' columns that are evaluated
  static constexpr unsigned registers = 17;  ///< the columns, and `pc` if it has no column
  static constexpr unsigned sp = rsp, frame = rbp, pc = rip, return_column = rip;
  static constexpr std::uint64_t survive_calls = 1u << rbx | 1u << rbp | 0xfu << r12;
  static constexpr bool signs_returns = false;
  static constexpr bool frame_pointer_finds_sp = true;
  static constexpr unsigned address_bits = 47;
  static constexpr std::size_t room = 1792;  ///< bytes for the state of a walk

  /// Reads the registers of the function into which this is inlined. `r` is the first of registers::r.
  [[gnu::always_inline]] static std::uint64_t read(std::uint64_t* r) {
    __asm__ volatile(
        "movq %%rbx, 3*8(%0)\n\tmovq %%rbp, 6*8(%0)\n\tmovq %%rsp, 7*8(%0)\n\t"
        "movq %%r12, 12*8(%0)\n\tmovq %%r13, 13*8(%0)\n\tmovq %%r14, 14*8(%0)\n\tmovq %%r15, 15*8(%0)\n\t"
        "leaq 0(%%rip), %%rax\n\tmovq %%rax, 16*8(%0)"
        :
        : "r"(r)
        : "rax", "memory");
    return survive_calls | 1u << rsp | 1u << rip;
  }
  static std::uint64_t without_signature(std::uint64_t address) { return address; }
};

#elif defined(__aarch64__)

enum dwarf_register : unsigned { x19 = 19, x20 = 20, x29 = 29, x30 = 30, x31_sp = 31 };

struct machine {
  static constexpr unsigned columns = 32, registers = 33;
  static constexpr unsigned sp = x31_sp, frame = x29, pc = 32, return_column = x30;
  static constexpr std::uint64_t survive_calls = 0x7ffu << x19;  ///< x19 to x29
  static constexpr bool signs_returns = true;
  static constexpr bool frame_pointer_finds_sp = false;
  static constexpr unsigned address_bits = 48;
  static constexpr std::size_t room = 2624;

  [[gnu::always_inline]] static std::uint64_t read(std::uint64_t* r) {
    __asm__ volatile(
        "stp x19, x20, [%0, 19*8]\n\tstp x21, x22, [%0, 21*8]\n\tstp x23, x24, [%0, 23*8]\n\t"
        "stp x25, x26, [%0, 25*8]\n\tstp x27, x28, [%0, 27*8]\n\tstp x29, x30, [%0, 29*8]\n\t"
        "mov x16, sp\n\tadr x17, .\n\tstp x16, x17, [%0, 31*8]"
        :
        : "r"(r)
        : "x16", "x17", "memory");
    return survive_calls | 1u << x30 | 1u << sp | std::uint64_t{1} << pc;
  }
  /// Has no effect on processors without pointer authentication.
  static std::uint64_t without_signature(std::uint64_t address) {
    register std::uint64_t in_x30 __asm__("x30") = address;
    __asm__("hint 7" : "+r"(in_x30));  // xpaclri, as a hint, which older assemblers and processors accept
    return in_x30;
  }

  /// The instructions at a handler's return address: mov x8, #__NR_rt_sigreturn; svc #0.
  static constexpr std::uint32_t signal_return[] = {0xd2801168, 0xd4000001};
  /// The distance of the saved x0 from the stack pointer at these instructions: a siginfo_t, the part of the ucontext
  /// before its mcontext, aligned to 16 bytes, and the fault address. x1 to x30, the stack pointer and the pc follow
  /// x0.
  static constexpr std::uint64_t saved_by_signal = 128 + 176 + 8;
};

#else

struct machine {
  static constexpr std::size_t room = 16;
};

#endif

}  // namespace usher::recorder
