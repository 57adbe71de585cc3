// The calling thread's call chain, taken in the middle of a lock call.
//
// capture() runs in pthread_mutex_lock() and similar functions: in allocators, in signal handlers, in forked children,
// on fibers, on stacks of 16 KiB, next to code that has no unwind tables. No library can be used there:
//   - libunwind and libdw take mutexes, allocate and call dl_iterate_phdr(), which takes the loader's lock: a thread
//     that holds it may wait for the very mutex whose chain is taken. So does backtrace(), whose first call loads
//     libgcc_s.
//   - libgcc's _Unwind_Backtrace() takes a mutex where frames have been registered (JIT compilers do), and reads memory
//     unchecked where code has no tables.
//   - The kernel's perf events need rights that programs do not have.
//
// Guarantees
//   - No allocation, no lock, no thread-local of its own, errno untouched, async-signal-safe, safe in children of
//     fork(). Uses about 0.7 KiB of the stack; the rest of what it needs is in an area that the caller provides.
//   - It calls one function, _dl_find_object() of glibc 2.35 and later, which is lock-free and async-signal-safe. To ask
//     whether a page can be read, it makes one system call: rt_sigprocmask with an operation that does not exist; the
//     kernel answers EFAULT or EINVAL and changes nothing. It opens no file: sandboxes may kill for open() but not for
//     this call, a descriptor could be seen or inherited, and /proc/self/maps is long where mappings are many.
//   - It does not fault: what it reads cannot be unmapped meanwhile. See below.
//   - It ends after at most 256 frames, whatever the tables say.
//
// Reasons why it does not fault
//   That a page was readable once does not show that it is at the next chain: modules are unloaded, stacks and code
//   unmapped. Nor does a check a moment ago, if another thread may unmap it. So only memory is read that another thread
//   cannot unmap before this one has gone on:
//   - A chain begins in our own frame. As long as each step is by unwind tables, the thread will return to each address,
//     so the code's module stays loaded, with its tables; and the frames lie on live stack. The kernel is asked all the
//     same for each page of the stack and of the tables, so that an error in tables mostly ends the chain.
//   - _dl_find_object() finds a module for a moment after its memory is unmapped, and so for code that is now in its
//     place. So its answer is not used while the loader unloads modules, but for modules that stay (unloading.hpp).
//   - A step by frame pointer is a guess, and so are tables in the frame of a function that a signal has interrupted, which
//     some compilers make exact only at calls. From there on the chain is uncertain: what is taken for a return address
//     may be any number. Only two kinds of memory are read then. The thread's own stack (own_stack.hpp) from the present
//     frame to the end: it lasts as long as the thread. The tables of modules that are never unloaded (initial_modules.hpp)
//     or that a certain frame of this chain is in. On a fiber's stack, or one for signals, the chain ends.
//   - Nothing is kept from chain to chain but the bounds of the thread's own stack, and rules by address and module.
//   Assumed are: tables that gcc, clang or the C library made for calls are right; a frame that was called will be
//   returned to (a program may instead leave a frame for good by longjmp() or pthread_exit(), or wait in it for ever, and
//   unload its module or unmap its stack meanwhile: then memory may go between the question and the reading, within a
//   microsecond); and what own_stack.hpp says of stacks without guard pages.
//
// How, on x86-64 and AArch64: by the DWARF tables of .eh_frame, found by binary search in .eh_frame_hdr. gcc and clang
// emit them for all code unless told otherwise, with or without frame pointers. Supported are any register, CFA and
// registers by expression (PLT, over-aligned frames, the signal trampoline), signal frames, alternate signal stacks,
// signed return addresses; frame_machine.hpp has what is different on AArch64. The rules of most frames fit into one word
// (frame_words.hpp), which is kept in a table of the process, by the address and by the module: where the module and its
// tables lie and, if it can be unloaded, its build id (module_identity.hpp), how many frames the tables have, and the
// first of them. So a module that is loaded in the place of another one is not unwound by the old one's rules.
//
// Cases in which the tables do not lead on
//   - No table for an address (JIT, hand-written code): one step by the frame pointer, if that is plausible: aligned,
//     above the stack pointer and within 1 MiB, on the thread's own stack, and with an address beside it that may be
//     code. Callers that keep no frame pointer are then missing in the chain. Not plausible: the chain ends here, `cut`.
//     V8 keeps frame pointers, HotSpot's optimised code only with -XX:+PreserveFramePointer.
//   - Code of a module that may be unloaded, in an uncertain chain or while any module is being unloaded: the same.
//   - The end of a fiber whose first frame is not marked as the first (makecontext()): `cut`, nothing above it is read.
//   - Tables that contradict themselves or need a register that no frame has saved: `cut`.
//   - No _dl_find_object() (musl, glibc before 2.35): tables for our own frames, so that the caller is always known;
//     frame pointers from there on.
//   - A seccomp filter that refuses the question: the caller, `cut`.
//   - AArch64, after a step by the frame pointer: the stack pointer is not known, so callers whose tables need it are
//     left by their frame pointers, too, which gcc and clang keep there by default.
//   - Elsewhere: nothing, `cut`.
//
// Cost on a virtual CPU of an AMD EPYC (Zen 4), in a tight loop: about 60 ns, and 10 ns for each frame whose rules are
// known; 0.2 µs for each module that may be unloaded; 0.3 µs for a frame whose rules are looked up, up to 1 µs where
// tables are large; 0.15 µs for each page that is asked for: few where the thread's own stack is known, two or three
// on other stacks. backtrace() takes 120 ns a frame.
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
  bool cut;         ///< there are or may be further callers
  /// Return addresses, the innermost first: pc − 1 lies in the calling instruction. For a frame that a signal has
  /// interrupted, pc is the address of the interrupted instruction + 1, so that pc − 1 is in that instruction.
  std::uint64_t pc[longest];
  std::uint16_t module[longest];  ///< number of the module of pc − 1, as in contract::word_of(); 0: not known
};

/// A function that returns the number of a module while a chain is taken. The module stays loaded during the call.
struct module_numbers {
  std::uint32_t (*number)(const void* context, const loaded_module& m);
  const void* context;
};

/// Work area of capture(), which may be larger than the stack of a signal handler.
struct capture_area {
  call_chain chain;
  alignas(16) std::byte room[machine::room];
};

/// Sets area.chain to the calling thread's call chain, without frames of libusher.so. `stack` is the calling thread's
/// stack_bounds. `numbers` may be null.
void capture(capture_area& area, stack_bounds& stack, const module_numbers* numbers);

}  // namespace usher::recorder
