#include "unwind_code.hpp"

#if defined(__x86_64__)

__asm__(R"(
  .text
  .macro begin name
  .globl \name
  .type \name, @function
\name:
  .endm
  .macro end name
  .size \name, . - \name
  .endm

  begin on_stack           # (f, argument, stack, frame pointer)
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  mov %rsp, %rbx
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsp
  mov %rcx, %rbp
  call *%rax
  mov %rbx, %rsp
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
  end on_stack

  begin faulting_leaf
  .cfi_startproc
  ud2
  ret
  .cfi_endproc
  end faulting_leaf

  begin restoring
  .cfi_startproc
  sub $8, %rsp
  .cfi_def_cfa_offset 16
  .cfi_undefined %rip
  .cfi_restore %rip
  call *%rdi
  add $8, %rsp
  ret
  .cfi_endproc
  end restoring

  .macro lying name, rule:vararg
  begin \name
  .cfi_startproc
  sub $8, %rsp
  \rule
  call *%rdi
  add $8, %rsp
  ret
  .cfi_endproc
  end \name
  .endm
  lying lying_far, .cfi_def_cfa_offset 0x7ffff0
  lying lying_odd, .cfi_def_cfa_offset 17
  lying lying_below, .cfi_def_cfa_offset -64
  lying lying_still, .cfi_def_cfa_offset 0
  lying lying_register, .cfi_def_cfa %rbx, 16
  lying lying_unknown, .cfi_def_cfa %r10, 16
  lying lying_expression, .cfi_escape 0x0f, 3, 0x73, 0, 0x06    # CFA: *rbx
  lying lying_endless, .cfi_escape 0x0f, 3, 0x2f, 0xfd, 0xff    # CFA: jumps to itself

  .macro switching name, rule:vararg
  begin \name
  .cfi_startproc
  push %rbx
  .cfi_def_cfa_offset 16
  .cfi_offset %rbx, -16
  mov %rsp, %rbx
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsp
  .cfi_remember_state
  \rule
  call *%rax
  mov %rbx, %rsp
  .cfi_restore_state
  pop %rbx
  ret
  .cfi_endproc
  end \name
  .endm
  switching at_marked_end, .cfi_undefined %rip
  switching at_wrong_end, .cfi_def_cfa %rsp, 4096
)");

#elif defined(__aarch64__)

__asm__(R"(
  .text
  .macro begin name
  .globl \name
  .type \name, %function
\name:
  .endm
  .macro end name
  .size \name, . - \name
  .endm

  begin on_stack           // (f, argument, stack, frame pointer)
  stp x29, x30, [sp, -32]!
  str x19, [sp, 16]
  mov x19, sp
  mov x9, x0
  mov x0, x1
  mov sp, x2
  mov x29, x3
  blr x9
  mov sp, x19
  ldr x19, [sp, 16]
  ldp x29, x30, [sp], 32
  ret
  end on_stack

  begin faulting_leaf
  .cfi_startproc
  .inst 0
  ret
  .cfi_endproc
  end faulting_leaf

  .macro calling name, rule:vararg
  begin \name
  .cfi_startproc
  stp x29, x30, [sp, -16]!
  .cfi_def_cfa_offset 16
  .cfi_offset x29, -16
  .cfi_offset x30, -8
  .cfi_remember_state
  \rule
  blr x0
  .cfi_restore_state
  ldp x29, x30, [sp], 16
  ret
  .cfi_endproc
  end \name
  .endm
  .macro undefined_and_back
  .cfi_remember_state
  .cfi_undefined x30
  .cfi_restore_state
  .endm
  calling restoring, undefined_and_back
  calling lying_far, .cfi_def_cfa_offset 0x7ffff0
  calling lying_odd, .cfi_def_cfa_offset 17
  calling lying_below, .cfi_def_cfa_offset -64
  calling lying_still, .cfi_def_cfa_offset 0
  calling lying_register, .cfi_def_cfa x19, 16
  calling lying_unknown, .cfi_def_cfa x10, 16
  calling lying_expression, .cfi_escape 0x0f, 3, 0x83, 0, 0x06    // CFA: *x19
  calling lying_endless, .cfi_escape 0x0f, 3, 0x2f, 0xfd, 0xff    // CFA: jumps to itself

  .macro switching name, rule:vararg
  begin \name
  .cfi_startproc
  stp x29, x30, [sp, -32]!
  .cfi_def_cfa_offset 32
  .cfi_offset x29, -32
  .cfi_offset x30, -24
  str x19, [sp, 16]
  .cfi_offset x19, -16
  mov x19, sp
  mov x9, x0
  mov x0, x1
  mov sp, x2
  .cfi_remember_state
  \rule
  blr x9
  mov sp, x19
  .cfi_restore_state
  ldr x19, [sp, 16]
  ldp x29, x30, [sp], 32
  ret
  .cfi_endproc
  end \name
  .endm
  switching at_marked_end, .cfi_undefined x30
  switching at_wrong_end, .cfi_def_cfa sp, 4096

  // hint 25: paciasp; 29: autiasp; 27: pacibsp; 31: autibsp; 0: nop. Processors without pointer authentication ignore them.
  .macro signed_call name, sign:req, check:req, rule:vararg
  begin \name
  .cfi_startproc
  \rule
  hint \sign
  stp x29, x30, [sp, -16]!
  .cfi_def_cfa_offset 16
  .cfi_offset x29, -16
  .cfi_offset x30, -8
  blr x0
  ldp x29, x30, [sp], 16
  hint \check
  ret
  .cfi_endproc
  end \name
  .endm
  .macro negate_twice
  .cfi_negate_ra_state
  .cfi_negate_ra_state
  .endm
  .macro with_second_key
  .cfi_b_key_frame
  .cfi_negate_ra_state
  .endm
  signed_call signing, 25, 29, .cfi_negate_ra_state
  signed_call signing_with_second_key, 27, 31, with_second_key
  signed_call signing_undone, 0, 0, negate_twice
  signed_call signing_in_secret, 25, 29
  signed_call signing_only_in_tables, 0, 0, .cfi_negate_ra_state

  begin faulting_signed
  .cfi_startproc
  .inst 0
  hint 25
  .cfi_negate_ra_state
  .inst 0
  stp x29, x30, [sp, -16]!
  .cfi_def_cfa_offset 16
  .cfi_offset x29, -16
  .cfi_offset x30, -8
  .inst 0
  ldp x29, x30, [sp], 16
  .cfi_def_cfa_offset 0
  .cfi_restore x29
  .cfi_restore x30
  .inst 0
  hint 29
  .cfi_negate_ra_state
  .inst 0
  ret
  .cfi_endproc
  end faulting_signed

  begin like_a_handler     // without tables
  mov sp, x1
  blr x0
  mov x8, 139
  svc 0
  end like_a_handler
)");

#endif
