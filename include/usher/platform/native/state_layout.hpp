// The state of a process: one object, and the layouts of its parts.
//
// All process-wide state is one object, `usher_process_state`. All code in the process that was built from this layout
// finds it under this one name. Two shared objects loaded with RTLD_LOCAL must agree on the waiting array and on the
// meaning of a node handle: otherwise a waiter in one of them would miss an unlock in the other. clang does not make an
// inline variable unique across shared objects, so the object is defined by an assembler directive, which is the same
// for both compilers: state_definition.hpp.
//
// records.hpp, nodes.hpp and inflation.hpp describe the operations on records, nodes and inflated states, and how they
// may be interrupted; fork.hpp explains what a fork does to the first page.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "usher/core/node.hpp"
#include "usher/core/platform.hpp"

namespace usher::inline v2 {

struct native;

namespace native_detail {

/// One queue node, alone in its cache line.
struct alignas(64) node_slot {
  queue_node<native>* queue() { return reinterpret_cast<queue_node<native>*>(this); }
  unsigned char raw[32];
  std::atomic<node_handle> next;  ///< link of the pool's list; outside `raw`, so that it always contains a handle
};

/// A thread's record. Only its owner accesses it. Its members are atomic only because the kernel orders a dead owner's
/// last writes, which thread sanitizers do not see. Interruptions and forks: records.hpp.
struct alignas(64) thread_record {
  static constexpr std::uint32_t most = 14, batch = most / 2;
  static constexpr std::uint32_t busy = ~std::uint32_t{0};  ///< not a valid epoch
  std::atomic<std::uint64_t> owner;                         ///< fork epoch << 32 | thread id; 0: no owner
  /// Points into free[]: the elements after free[0], up to and including the one pointed to, are the thread's free
  /// nodes. Null: the record was never used.
  std::atomic<std::atomic<node_handle>*> top;
  std::atomic<std::uint32_t> ready;         ///< the epoch for which the nodes are valid, or busy
  std::atomic<std::uint64_t> random;        ///< xorshift state, never 0
  std::atomic<std::uint32_t> place;         ///< NUMA node; from bit 16 on: how many more uses until it is queried again
  std::atomic<node_handle> free[1 + most];  ///< the first is always no_node
  std::atomic<std::uint32_t> number;        ///< the record's number, from 1 on; never changes

  std::uint32_t epoch() const { return std::uint32_t(owner.load(std::memory_order_relaxed) >> 32); }
  std::atomic<node_handle>* at(std::uint32_t i) { return &free[i]; }
};
static_assert(sizeof(thread_record) == 128);

/// The nodes that are in no thread's record (nodes.hpp): a list of free nodes, and the nodes that have never been used.
struct node_pool {
  /// The word is: number of changes << 24 | the first node of the list, or no_node. 0: the pool is not open yet. The
  /// number begins at a different value in each fork epoch, so that a parent's operation cannot succeed in its child.
  std::atomic<std::uint64_t> list;
  std::atomic<std::uint64_t> from;  ///< 1 + the number of nodes made before this pool was opened. 0: not open yet
  /// `from` plus the number of nodes made since; 0: not open yet. Keeps rising in children, for the reason given at
  /// `list`.
  std::atomic<std::uint64_t> made;
};

/// How a thread determines its NUMA node.
enum numa_source : std::uint32_t {
  numa_rseq = 1,    ///< read from the thread's restartable-sequences area: Linux 6.3, glibc 2.35
  numa_getcpu = 2,  ///< a system call, once in 256 uses
  numa_fake = 16,   ///< + n: USHER_FAKE_NODES=n divides the CPUs among n nodes that the machine does not have
};

/// The first records and nodes are members of process_state. All others are in blocks of records or blocks of nodes,
/// which are mapped one at a time when one is needed (blocks.hpp).
inline constexpr std::size_t block_bytes = 65536;
inline constexpr std::uint32_t records_a_block = block_bytes / sizeof(thread_record),
                               slots_a_block = block_bytes / sizeof(node_slot);
static_assert(records_a_block == 512 && slots_a_block == 1024);
/// Records and nodes that need no block. The records are enough for most programs, so that a thread's first lock of a
/// recursive mutex makes no system call. In a process that can map no memory, the nodes suffice for a few threads, each
/// of which may use more nodes than a record keeps.
inline constexpr std::uint32_t reserved_records = 64, reserved_slots = 256;
/// A record's number must fit into 16 bits (shared_memory.hpp), and a handle into 24 bits (nodes.hpp).
inline constexpr std::uint32_t most_records = reserved_records + 127 * records_a_block, record_blocks = 127,
                               slot_blocks = 1024;
static_assert(most_records < 65536);
inline constexpr std::uint32_t table_size = 4096, visible_slots = 4096;
static_assert(visible_slots * sizeof(std::uint64_t) <= block_bytes);

/// The header of each inflated state. A state that is given back keeps its content for the next lock of the same type.
struct alignas(128) inflated_slot {
  std::atomic<std::uint32_t> next_free;
  std::atomic<const void*> type;  ///< of the state's last lock; null: all bytes are zero
};

/// The slots of one size class. They are twice as large as those of the class before, and fill whole blocks.
struct inflated_class {
  static constexpr std::size_t least = 2048, classes = 6;
  static constexpr std::uint32_t most = 1024;  ///< slots of a class; slot 0 is unused

  static constexpr std::size_t slot_bytes(std::size_t c) { return least << c; }
  static constexpr std::size_t room(std::size_t c) { return slot_bytes(c) - sizeof(inflated_slot); }
  static constexpr std::uint32_t slots_a_block(std::size_t c) { return std::uint32_t(block_bytes / slot_bytes(c)); }
  /// The index of the class's first block in the table of blocks; first_block(classes) is the size of that table.
  static constexpr std::uint32_t first_block(std::size_t c) {
    return c == 0 ? 0 : first_block(c - 1) + most / slots_a_block(c - 1);
  }
  static constexpr std::size_t of(std::size_t bytes) {
    std::size_t c = 0;
    while (c < classes && room(c) < bytes) c++;
    return c;
  }

  std::atomic<std::uint64_t> free;  ///< number of changes << 32 | first slot of the free list, 0: none
  std::atomic<std::uint32_t> made;  ///< slots 1 … made have been used at least once
};
static_assert(inflated_class::slot_bytes(inflated_class::classes - 1) == block_bytes);

// The largest page that Linux may use on this architecture, and the size of process_state, for the assembler. With an
// alignment above the linker's page size, shared objects have a segment that valgrind cannot read.
#if defined(__x86_64__) && !defined(USHER_TEST_LARGE_PAGES)
#define USHER_LARGEST_PAGE 4096
#define USHER_STATE_BYTES 110592
#else
#define USHER_LARGEST_PAGE 65536
#define USHER_STATE_BYTES 155648
#endif
#define USHER_TEXT_OF(number) #number
#define USHER_TEXT(number) USHER_TEXT_OF(number)

/// The part that is wiped in a child fills whole pages.
inline constexpr std::size_t largest_page = USHER_LARGEST_PAGE, wiped_variables = 2 * 128 + table_size * 4,
                             wiped_bytes = (wiped_variables + largest_page - 1) / largest_page * largest_page;

/// All bytes are zero at first. The object is aligned to largest_page. In a child, the members before last_epoch are
/// wiped: by the kernel (MADV_WIPEONFORK), or by forget_parent().
struct process_state {
  /// fork epoch << 32 | 4; 0 before the first use in this process. preload/layout.hpp explains the 4.
  alignas(128) std::atomic<std::uint64_t> epoch_word;
  alignas(128) node_pool wiped_pool;  ///< in use if orphaned_are_free is 1
  alignas(128) std::atomic<std::uint32_t> chain_array[table_size];
  unsigned char unused[wiped_bytes - wiped_variables];
  std::atomic<std::uint32_t> last_epoch;      ///< the last epoch of this process and its ancestors; not wiped by a fork
  std::atomic<std::int32_t> pid;              ///< the process's id; 0: unknown (fork.hpp)
  std::atomic<std::uint32_t> ids_as_in_libc;  ///< the epoch in which id_in_libc() is right for every thread: fork.hpp
  std::atomic<std::uint32_t> made;            ///< records 1 … made have been used at least once
  std::atomic<std::uint32_t> cursor;          ///< the record at which the next search for a dead thread's record begins
  std::atomic<std::uint32_t> spin, yield, sleep;  ///< wait limits + 1; 0: unknown
  std::atomic<std::uint32_t> cpus;                ///< 0: not counted yet
  std::atomic<std::uint32_t> seed;
  std::atomic<std::uint32_t> monitor;  ///< the processor's monitor_kind (monitor.hpp); 0: unknown
  std::atomic<std::uint32_t> numa;     ///< a numa_source; 0: unknown
  /// 1: locks that were held or had waiters across a fork are reset in the child (by libusher.so). The nodes of
  /// orphaned threads, those that a fork did not copy, are then free.
  std::atomic<std::uint32_t> orphaned_are_free;
  std::atomic<std::uint32_t> unwiped;        ///< 1: the kernel does not wipe pages in children; forget_parent() does
  std::atomic<std::uint32_t> told_of_forks;  ///< 1: a fork handler calls forget_parent()
  std::atomic<std::uint32_t> nice_ranks;     ///< 1: priority() uses the nice value: set_priorities_by_nice()
  /// The table of visible readers (core/read_write_core.hpp), in a block that is mapped when a lock first needs it. In
  /// earlier releases with this version of the symbol, these bytes were padding, and zero.
  std::atomic<std::atomic<std::uint64_t>*> visible_readers;
  alignas(128) node_pool pool;  ///< in use if orphaned_are_free is 0: locks may stay in use across a fork
  std::atomic<std::uint64_t>
      ever_made;  ///< the number of nodes that this process and its ancestors have made, or a few more
  alignas(4096) std::atomic<std::uint32_t> waiting_array[table_size];
  std::atomic<std::uint32_t> id_array[table_size];
  alignas(64) thread_record reserved_record[reserved_records];
  node_slot reserved_slot[reserved_slots];  ///< those with handles below first_node are unused
  // The addresses of blocks. Each is written once, when the block is mapped; before, it is null or a claim.
  std::atomic<thread_record*> record_block[record_blocks];
  /// The block's address minus the offset of its first node: a node's address is this value + its handle *
  /// sizeof(node_slot). The first block is reserved_slot.
  std::atomic<std::uintptr_t> slot_block[slot_blocks];
  std::atomic<unsigned char*> inflated_block[inflated_class::first_block(inflated_class::classes)];
  inflated_class inflated[inflated_class::classes];
};
static_assert(sizeof(process_state) == USHER_STATE_BYTES && offsetof(process_state, last_epoch) == wiped_bytes);

}  // namespace native_detail

// The symbol has the same version as the inline namespace. Both change when the layout of process_state, of its parts,
// or of a lock changes, so that objects built from different releases share neither state nor code.
extern native_detail::process_state usher_process_state __asm__("usher_process_state_v2")
    __attribute__((visibility("default")));

}  // namespace usher::inline v2
