// mmicro, as in "Malthusian Locks" (§6.5): each thread repeatedly allocates 1000 blocks of 1000 bytes, zeroes them, and
// frees them all. The program needs an allocator with one lock that is a pthread mutex. The C library's allocator has
// no such lock; a preloaded jemalloc with one arena has one. If the allocator gives a block to two threads, the program
// detects this when it frees the block.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "options.hpp"
#include "team.hpp"

int main(int argc, char** argv) {
  long threads = 8, blocks = 1000, size = 1000;
  workloads::budget limit;
  workloads::options o("mmicro", "threads allocate many blocks, zero them, and free them");
  o.number("threads", threads, 1, 4096, "threads (8)");
  o.real("seconds", limit.seconds, 0.01, 86400, "how long (2)");
  o.number("operations", limit.operations, 1, 1L << 40, "this many blocks in all instead");
  o.number("blocks", blocks, 1, 1L << 24, "blocks that a thread has before it frees them (1000)");
  o.number("size", size, static_cast<long>(sizeof(long)), 1L << 24, "bytes of a block (1000)");
  o.parse(argc, argv);

  const workloads::team_result result =
      workloads::run_team(threads, limit, [&](long index, workloads::allowance& mine) {
        std::vector<void*> held;
        held.reserve(static_cast<std::size_t>(blocks));
        // Each block counts as an operation, and the loop may end after any block: under a slow lock a thousand blocks
        // take too long.
        bool more = true;
        while (more) {
          while (held.size() < static_cast<std::size_t>(blocks) && (more = mine.another())) {
            void* const block = std::malloc(static_cast<std::size_t>(size));
            if (block == nullptr) workloads::fail("out of memory");
            std::memset(block, 0, static_cast<std::size_t>(size));
            std::memcpy(block, &index, sizeof index);
            held.push_back(block);
          }
          for (void* const block : held) {
            if (std::memcmp(block, &index, sizeof index) != 0)
              workloads::fail("a block was overwritten by somebody else");
            std::free(block);
          }
          held.clear();
        }
      });
  std::printf("throughput: %.0f blocks/s\n", result.rate());
  return 0;
}
