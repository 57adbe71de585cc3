// Functions in assembly for the tests of the unwinder (unwind_code.cpp), and machine code that has no unwind tables.
#pragma once

#include <ucontext.h>

#include <cstdint>

extern "C" {
/// Has no unwind tables. Calls f(argument) with the given stack pointer and frame pointer.
void on_stack(void (*f)(void*), void* argument, void* stack, std::uint64_t frame);
/// Executes an instruction that faults. On x86-64 its frame then contains only the return address; on AArch64 its frame
/// is empty.
void faulting_leaf();
/// Calls f. The function's unwind tables first say that it has no caller, and cancel this before the call.
void restoring(void (*f)());

// The unwind tables of these functions give a false CFA (canonical frame address): a far one, an odd one, one below the
// stack pointer, the stack pointer itself; one relative to a register with any value, or to an unknown register; one
// that an expression computes, which in the last case never ends.
void lying_far(void (*f)());
void lying_odd(void (*f)());
void lying_below(void (*f)());
void lying_still(void (*f)());
void lying_register(void (*f)());
void lying_unknown(void (*f)());
void lying_expression(void (*f)());
void lying_endless(void (*f)());

// Both call f(argument) on another stack. According to the unwind tables, the first function has no caller, and the
// frame of the second one's caller lies 4096 bytes above.
void at_marked_end(void (*f)(void*), void* argument, void* stack);
void at_wrong_end(void (*f)(void*), void* argument, void* stack);
}

#if defined(__x86_64__)

// with_frame: push rbp; mov rbp, rsp; call *rdi; pop rbp; ret. with_wrong_frame sets rbp to 1 instead of rsp.
// with_frame_and_argument exchanges rdi and rsi before the call.
constexpr unsigned char with_frame[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
constexpr unsigned char with_wrong_frame[] = {0x55, 0x48, 0xc7, 0xc5, 1, 0, 0, 0, 0xff, 0xd7, 0x5d, 0xc3};
constexpr unsigned char with_frame_and_argument[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x87, 0xfe, 0xff, 0xd6, 0x5d, 0xc3};
constexpr unsigned returns_at = 6, wrong_returns_at = 10;
constexpr const char* loader_name = "ld-linux-x86-64.so.2";

inline void skip_faulting_instruction(void* context) {
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP] += 2;
}

/// The first two arguments and the result of a system call that has raised SIGSYS.
struct trapped_call {
  explicit trapped_call(void* context) : r(static_cast<ucontext_t*>(context)->uc_mcontext.gregs) {}
  auto& first() { return r[REG_RDI]; }
  auto& second() { return r[REG_RSI]; }
  auto& result() { return r[REG_RAX]; }
  greg_t* r;
};

#elif defined(__aarch64__)

// with_frame: stp x29, x30, [sp, -16]!; mov x29, sp; blr x0; ldp x29, x30, [sp], 16; ret. with_wrong_frame sets x29 to
// 1. with_frame_and_argument calls x1 with the argument x0.
constexpr std::uint32_t with_frame[] = {0xa9bf7bfd, 0x910003fd, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0};
constexpr std::uint32_t with_wrong_frame[] = {0xa9bf7bfd, 0xd280003d, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0};
constexpr std::uint32_t with_frame_and_argument[] = {0xa9bf7bfd, 0x910003fd, 0xaa0003e9, 0xaa0103e0,
                                                     0xd63f0120, 0xa8c17bfd, 0xd65f03c0};
constexpr unsigned returns_at = 12, wrong_returns_at = 12;
constexpr const char* loader_name = "ld-linux-aarch64.so.1";

inline void skip_faulting_instruction(void* context) {
  static_cast<ucontext_t*>(context)->uc_mcontext.pc += 4;
}

/// The first two arguments and the result of a system call that has raised SIGSYS.
struct trapped_call {
  explicit trapped_call(void* context) : m(static_cast<ucontext_t*>(context)->uc_mcontext) {}
  auto& first() { return m.regs[0]; }
  auto& second() { return m.regs[1]; }
  auto& result() { return m.regs[0]; }
  mcontext_t& m;
};

extern "C" {
// These functions sign their return address, keep it in their frame, and call f. They differ in what their unwind
// tables say about the signature.
void signing(void (*f)());  ///< negate_ra_state
void signing_with_second_key(void (*f)());
void signing_undone(void (*f)());     ///< the tables say that the address is signed, and cancel this; it is not signed
void signing_in_secret(void (*f)());  ///< the tables do not say that the address is signed
void signing_only_in_tables(void (*f)());
/// Executes an instruction that faults at five points: at the beginning, after x30 was signed, after the frame was
/// made, after x30 was restored, and after x30's signature was removed.
void faulting_signed();
/// Sets the stack pointer and calls f. At f's return address are the instructions of a signal trampoline.
[[noreturn]] void like_a_handler(void (*f)(), void* stack);
}

#endif
