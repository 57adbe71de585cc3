// A test of allocators: a preloaded allocator whose locks are mutexes of Usher. Threads fill blocks with a pattern and
// pass them on through shared slots; the thread that takes a block out verifies the pattern, and resizes or frees the
// block. If an allocator's lock admits two threads at a time, it hands out overlapping blocks, and the patterns show
// that.
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#include "options.hpp"
#include "team.hpp"

namespace {

using workloads::fail;

struct block {
  std::uint64_t size;   // of the whole block, including this header
  std::uint64_t stamp;  // determines the contents of the rest
};

unsigned char fill_byte(std::uint64_t stamp, std::uint64_t place) {
  return static_cast<unsigned char>((stamp + place * 7) >> 1);
}

void fill(block* b, std::uint64_t size, std::uint64_t stamp) {
  *b = {size, stamp};
  auto* bytes = reinterpret_cast<unsigned char*>(b);
  for (std::uint64_t i = sizeof(block); i < size; ++i) bytes[i] = fill_byte(stamp, i);
}

void verify(const block* b, std::uint64_t until) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(b);
  for (std::uint64_t i = sizeof(block); i < until; ++i)
    if (bytes[i] != fill_byte(b->stamp, i)) fail("a block was overwritten by somebody else");
}

block* allocate(workloads::random_source& random) {
  const std::uint64_t size = sizeof(block) + (random.below(16) == 0 ? random.below(20000) : random.below(400));
  void* memory = nullptr;
  switch (random.below(4)) {
    case 0: {
      memory = std::calloc(1, size);
      const auto* bytes = static_cast<const unsigned char*>(memory);
      for (std::uint64_t i = 0; memory != nullptr && i < size; ++i)
        if (bytes[i] != 0) fail("calloc gave memory that is not zero");
      break;
    }
    case 1:
      memory = std::aligned_alloc(64, (size + 63) / 64 * 64);
      if (reinterpret_cast<std::uintptr_t>(memory) % 64 != 0) fail("aligned_alloc gave an unaligned block");
      break;
    default:
      memory = std::malloc(size);
  }
  if (memory == nullptr) fail("out of memory");
  auto* b = static_cast<block*>(memory);
  fill(b, size, random.next());
  return b;
}

void release(block* b, workloads::random_source& random) {
  verify(b, b->size);
  if (random.below(8) == 0) {
    const std::uint64_t size = sizeof(block) + random.below(1000), kept = std::min(size, b->size);
    auto* moved = static_cast<block*>(std::realloc(b, size));
    if (moved == nullptr) fail("out of memory");
    verify(moved, kept);
    b = moved;
  }
  std::free(b);
}

}  // namespace

int main(int argc, char** argv) {
  long threads = 8, slots = 256;
  workloads::budget limit;
  workloads::options o("malloc_check", "threads allocate, exchange, verify and free blocks");
  o.number("threads", threads, 1, 4096, "threads (8)");
  o.real("seconds", limit.seconds, 0.01, 86400, "how long (2)");
  o.number("operations", limit.operations, 1, 1L << 40, "this many blocks in all instead");
  o.number("slots", slots, 1, 1L << 20, "blocks alive at a time (256)");
  o.parse(argc, argv);

  std::vector<std::atomic<block*>> shared(static_cast<std::size_t>(slots));
  std::atomic<long> released{0};
  const workloads::team_result result =
      workloads::run_team(threads, limit, [&](long index, workloads::allowance& mine) {
        workloads::random_source random(static_cast<unsigned long>(index) + 1);
        long mine_released = 0;
        while (mine.another()) {
          block* mine_now = allocate(random);
          if (block* other = shared[random.below(static_cast<unsigned long>(slots))].exchange(mine_now)) {
            release(other, random);
            ++mine_released;
          }
        }
        released += mine_released;
      });
  workloads::random_source random(0);
  for (std::atomic<block*>& slot : shared) {
    if (block* left = slot.load()) {
      release(left, random);
      ++released;
    }
  }
  if (released != result.operations) fail("blocks were lost");
  std::printf("throughput: %.0f operations/s\n", result.rate());
  std::printf("checked: %ld blocks\n", released.load());
  return 0;
}
