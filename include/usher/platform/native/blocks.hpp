// Memory for records, nodes and inflated states: blocks of 64 KiB, mapped one at a time, never unmapped.
//
// No larger piece is reserved, because of processes that have locked their memory (mlockall with MCL_FUTURE). In such a
// process a large piece would become resident at once, in the middle of a lock call. Or it could not be mapped, because
// locked addresses count against RLIMIT_MEMLOCK even without access permission. Small blocks also suit a system that
// limits committed memory to the machine's memory (vm.overcommit_memory=2).
//
// Usually one thread maps a block: it claims the block's entry in the process's table, and the other threads wait for
// the address. The wait is bounded: the claiming thread may be one that a fork did not copy, or the waiting thread
// itself, if a signal handler has interrupted it. After the wait any thread may map the block: the first to write an
// address decides, and the others unmap theirs. A child that is forked while a block is being mapped finds the table
// with or without the address; without it, the child loses the address space of one block.
//
//     mapping thread      block = mmap();  table = block (b1);  load the table (b2);  write the count or a handle (b3)
//     another thread      reads the count or a handle;  loads the table, relaxed (b4);  accesses the block
//
// If a thread has taken a node, or owns a list that contains it, the operation by which the thread got the node or the
// list orders it after (b3), so (b4) finds the address. Locks also follow handles that they have read by relaxed loads,
// in nodes that may have another user by then. The address of (b4)'s load depends on the handle, and all processors but
// Alpha's order such loads. On the writing side, Arm's processors order (b1) before (b3), because (b1) and (b2) are
// sequentially consistent. A fence would do, too, but thread sanitizers do not model fences.
#pragma once

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "usher/core/node.hpp"
#include "usher/platform/native/state.hpp"
#include "usher/platform/native/system_call.h"

namespace usher::inline v2::native_detail {

/// Each has_…() maps the block if it is not mapped yet. It returns false if the process cannot get more memory now.
struct blocks {
  static bool has_record(std::uint32_t number) {
    if (number <= reserved_records) return true;
    return has(usher_process_state.record_block[(number - 1 - reserved_records) / records_a_block], 0);
  }

  static bool has_slot(node_handle h) {
    auto& s = usher_process_state;
    const std::uint32_t block = h / slots_a_block;
    if (block != 0) return has(s.slot_block[block], std::uintptr_t{block} * block_bytes);
    if (s.slot_block[0].load(std::memory_order_acquire) == 0) {
      s.slot_block[0].store(reinterpret_cast<std::uintptr_t>(s.reserved_slot), std::memory_order_seq_cst);  // (b1)
      return s.slot_block[0].load(std::memory_order_seq_cst) != 0;                                          // (b2)
    }
    return true;
  }

  /// Returns null if the table is not mapped.
  static std::atomic<std::uint64_t>* visible_readers() {
    auto* const table = usher_process_state.visible_readers.load(std::memory_order_acquire);
    return is_address(table) ? table : nullptr;
  }
  static bool has_visible_readers() { return has(usher_process_state.visible_readers, 0); }

  static bool has_inflated(std::uint32_t block) { return has(usher_process_state.inflated_block[block], 0); }
  static bool inflated_is_mapped(std::uint32_t block) {
    return is_address(usher_process_state.inflated_block[block].load(std::memory_order_acquire));
  }

 private:
  static constexpr std::uintptr_t claimed = 1;  ///< in place of an address: a thread is mapping the block
  static constexpr unsigned most_yields = 100;  ///< while another thread maps. Chosen, not measured

  template <class Address>
  static bool is_address(Address a) {
    return a != Address{} && a != (Address)claimed;
  }

  /// Maps the block of `entry` if it is not mapped yet, and sets the entry to the block's address minus `less`.
  template <class Address>
  [[gnu::cold]] static bool has(std::atomic<Address>& entry, std::uintptr_t less) {
    Address seen = entry.load(std::memory_order_acquire);
    if (is_address(seen)) return true;
    const bool mapper =
        seen == Address{} && entry.compare_exchange_strong(seen, (Address)claimed, std::memory_order_relaxed);
    if (!mapper)
      for (unsigned i = 0; i < most_yields && entry.load(std::memory_order_relaxed) == (Address)claimed; i++)
        system_call(SYS_sched_yield);
    seen = entry.load(std::memory_order_acquire);
    if (!is_address(seen)) {
      const long fresh =
          system_call(SYS_mmap, nullptr, block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (fresh > 0) {
        const auto mine = (Address)(std::uintptr_t(fresh) - less);
        while (!is_address(seen) && !entry.compare_exchange_weak(seen, mine, std::memory_order_seq_cst,
                                                                 std::memory_order_acquire)) {  // (b1)
        }
        if (is_address(seen))
          system_call(SYS_munmap, fresh, block_bytes);
        else
          // Otherwise the kernel could merge the block and its neighbours into one large page.
          system_call(SYS_madvise, fresh, block_bytes, MADV_NOHUGEPAGE);
      } else if (mapper) {  // another thread's claim stays: its block may be about to appear
        seen = (Address)claimed;
        entry.compare_exchange_strong(seen, Address{}, std::memory_order_relaxed);
      }
    }
    return is_address(entry.load(std::memory_order_seq_cst));  // (b2)
  }
};

}  // namespace usher::inline v2::native_detail
