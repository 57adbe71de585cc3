// Records the calling thread's call chain within a lock call.
//
// capture() runs in pthread_mutex_lock() and similar functions: in allocators, in signal handlers, in forked children,
// on fibers, on stacks of 16 KiB, next to code without unwind tables. No library can be used there:
//   - libunwind and libdw take mutexes, allocate, and call dl_iterate_phdr(), which takes the loader's lock: a thread
//     that holds this lock may wait for the mutex whose call is being recorded. The same holds for backtrace(), whose
//     first call loads libgcc_s.
//   - libgcc's _Unwind_Backtrace() takes a mutex if frames have been registered (JIT compilers do this), and reads memory
//     unchecked where code has no tables.
//   - The kernel's perf events need rights that programs do not have.
//
// Guarantees
//   - No allocation, no lock, no thread-local of its own, errno untouched, async-signal-safe, safe in children of
//     fork(). Uses about 0.7 KiB of the stack; the other data are in an area that the caller provides.
//   - It calls one function, _dl_find_object() of glibc 2.35 and later, which is lock-free and async-signal-safe. To test
//     whether a page can be read, it makes one system call: rt_sigprocmask with an invalid operation, which the kernel
//     answers with EFAULT or EINVAL and which changes nothing. It opens no file: sandboxes may kill for open() but not
//     for this call, a descriptor could be seen or inherited, and /proc/self/maps is long if mappings are many.
//   - It does not fault, because nothing that it reads can be unmapped at the same time. See below.
//   - It ends after at most 256 frames, with any tables.
//
// Reasons why it does not fault
//   A page that was readable once may be unmapped at the next chain: modules are unloaded, stacks and code unmapped. Even
//   after a successful test another thread may unmap the page. So only memory is read that no other thread can unmap
//   before this thread has continued:
//   - A chain begins in our own frame. As long as each step uses unwind tables, the thread will return to each address.
//     So the code's module stays loaded, with its tables, and the frames lie on a live stack. The kernel still tests
//     each page of the stack and of the tables, so that an error in tables in most cases only ends the chain.
//   - For a moment after a module is unmapped _dl_find_object() still finds it, also for other code in its place. So the
//     result is not used while the loader unloads modules, except for modules that stay (unloading.hpp).
//   - A step by frame pointer may be wrong. So may the tables of a function that a signal has interrupted, since some
//     compilers make tables that are right only at calls. From there the chain is uncertain: a presumed return address
//     may be any number. Then only two kinds of memory are read: the thread's own stack from the present frame to its
//     end (own_stack.hpp), which exists as long as the thread; and the tables of modules that are never unloaded
//     (initial_modules.hpp) or contain a certain frame of this chain. On a fiber's or a signal stack the chain ends.
//   - From chain to chain only the bounds of the thread's own stack, and rules by address and module, are kept.
//   Assumptions: tables that gcc, clang or the C library made for calls are right. Each called frame will be returned to;
//   a program may instead leave a frame by longjmp() or pthread_exit(), or wait in it for ever, and unload its module or
//   unmap its stack at the same time, within the microsecond between test and read. And own_stack.hpp's assumption on
//   stacks without guard pages.
//
// Method, on x86-64 and AArch64: the DWARF tables of .eh_frame, found by binary search in .eh_frame_hdr. gcc and clang
// emit them for all code by default, with or without frame pointers. Supported are any register, CFA and registers by
// expression (PLT, over-aligned frames, the signal trampoline), signal frames, alternate signal stacks, signed return
// addresses; frame_machine.hpp has the differences on AArch64. The rules of most frames fit into one word
// (frame_words.hpp). A table of the process keeps these words by address and module. A module is identified by its
// address and that of its tables and, if it can be unloaded, by its build id (module_identity.hpp), the number of frames
// in the tables, and the first of them. So the rules of an unloaded module are not applied to another one in its place.
//
// Cases that the tables do not cover
//   - No table for an address (JIT, hand-written code): one step by the frame pointer, if it is plausible: aligned,
//     above the stack pointer and within 1 MiB, on the thread's own stack, and next to an address that may be code.
//     Callers without a frame pointer are then missing in the chain. If it is not plausible, the chain ends, `cut`.
//     V8 keeps frame pointers, HotSpot's optimised code only with -XX:+PreserveFramePointer.
//   - Code of a module that may be unloaded, in an uncertain chain or while any module is being unloaded: the same.
//   - The end of a fiber whose first frame is not marked as the first (makecontext()): `cut`, nothing above it is read.
//   - Tables that contradict themselves or need a register that no frame has saved: `cut`.
//   - No _dl_find_object() (musl, glibc before 2.35): tables for our own frames, so that the caller is always known;
//     then frame pointers.
//   - A seccomp filter that refuses the test of memory: the caller, `cut`.
//   - AArch64, after a step by the frame pointer: the stack pointer is unknown. So steps from callers whose tables need
//     it use their frame pointers, too, which gcc and clang keep by default.
//   - Other processors: no chain, `cut`.
//
// Cost on a virtual CPU of an AMD EPYC (Zen 4), in a tight loop: about 60 ns, and 10 ns for each frame with known rules;
// 0.2 µs for each module that may be unloaded; 0.3 µs for a frame whose rules are looked up, up to 1 µs with large tables;
// 0.15 µs for each page that is tested: few if the thread's own stack is known, two or three on other stacks.
// backtrace() takes 120 ns a frame.
#pragma once

#include <cstddef>
#include <cstdint>

#include "watch/recorder/frame_machine.hpp"
#include "watch/recorder/loaded_module.hpp"
#include "watch/recorder/own_stack.hpp"

namespace usher::recorder {

struct call_chain {
  static constexpr unsigned longest = 29;
  unsigned length;  ///< of pc and module
  bool cut;         ///< 1: the chain is incomplete, or may be
  /// Return addresses, innermost first, so that pc − 1 lies in the calling instruction. For a frame that a signal has
  /// interrupted, pc is the address of the interrupted instruction + 1, so pc − 1 lies in that instruction.
  std::uint64_t pc[longest];
  std::uint16_t module[longest];  ///< number of the module of pc − 1, as in contract::word_of(); 0: not known
};

/// A function that returns a module's number in the record. The module stays loaded during the call.
struct module_numbers {
  std::uint32_t (*number)(const void* context, const loaded_module& m);
  const void* context;
};

/// Work area of capture(); it may be too large for a signal handler's stack.
struct capture_area {
  call_chain chain;
  alignas(16) std::byte room[machine::room];
};

/// Sets area.chain to the calling thread's call chain, without frames of libusher.so. `stack` is the calling thread's
/// stack_bounds. `numbers` may be null.
void capture(capture_area& area, stack_bounds& stack, const module_numbers* numbers);

}  // namespace usher::recorder
