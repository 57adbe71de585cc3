// Memory for records, nodes and inflated states: blocks of 64 KiB, mapped one at a time, never unmapped.
//
// No larger piece is reserved: a process that has locked its memory (mlockall with MCL_FUTURE) would get all of it
// resident at once, in the middle of a lock call, or could not map it, because locked addresses count against
// RLIMIT_MEMLOCK whether they may be accessed or not. A process that may commit no more memory than the machine has
// (vm.overcommit_memory=2) gets small blocks, too.
//
// Any number of threads may map the same block: the first to write its address into the process's table decides, and
// the others unmap theirs. So a signal handler may interrupt this anywhere, and a child that is forked in the middle of
// it finds the table with or without the address; without it, the child loses the addresses of one block.
//
//     mapping thread      block = mmap();  table = block (b1);  load the table (b2);  the count, a handle (b3)
//     another thread      finds the count or a handle;  loads the table, relaxed (b4);  accesses the block
//
// A thread that has a node by taking it, or by a list that it owns, is ordered after (b3) by the operation that gave it
// the node, so (b4) finds the address. Locks also follow handles that they have read by relaxed loads, in nodes that
// may have changed hands. The address of (b4)'s load depends on the handle, and all processors but Alpha's order such
// loads. Those of Arm order (b1) before (b3), because (b1) and (b2) are sequentially consistent. A fence would do, too,
// but thread sanitizers do not know fences.
#pragma once

#include <errno.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "usher/core/node.hpp"
#include "usher/platform/native/state.hpp"

namespace usher::inline v1::native_detail {

/// Each returns false if the process may not have more memory now.
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

  static bool has_inflated(std::uint32_t h) { return has(usher_process_state.inflated[h], 0); }

 private:
  /// `less` is subtracted from the address.
  template <class Address>
  [[gnu::cold]] static bool has(std::atomic<Address>& entry, std::uintptr_t less) {
    Address none{};
    if (entry.load(std::memory_order_acquire) != none) return true;
    const int saved = errno;
    void* const fresh = mmap(nullptr, block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh != MAP_FAILED) {
      madvise(fresh, block_bytes, MADV_NOHUGEPAGE);  // the neighbours may become one large page with it
      const auto mine = (Address)(reinterpret_cast<std::uintptr_t>(fresh) - less);
      if (!entry.compare_exchange_strong(none, mine, std::memory_order_seq_cst, std::memory_order_acquire))  // (b1)
        munmap(fresh, block_bytes);
    }
    errno = saved;
    return entry.load(std::memory_order_seq_cst) != Address{};  // (b2)
  }
};

}  // namespace usher::inline v1::native_detail
