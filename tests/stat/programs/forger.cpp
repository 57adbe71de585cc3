// A recorded program that attacks its observer: while it is sampled, it writes forged values into its own record, then
// exits with status 7.
//
//     forger header     writes capacities and counts of all sizes, again and again
//     forger all        writes arbitrary bytes everywhere
//     forger circles    forges thousands of lasting deadlocks
//     forger ids        gives its processes and threads the ids of other processes and threads
//     forger waits      fills the table of waits: most contradict the record, some are plausible
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>

#include "watch/contract/format.hpp"

namespace {
using namespace usher::contract;

/// Finds the mapping of the record in this process. Returns null if this program is not recorded.
void* find_record(std::uint64_t& size) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "r");
  char line[512];
  void* found = nullptr;
  while (found == nullptr && std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long begin = 0, end = 0;
    if (std::strstr(line, "memfd:usher stat") == nullptr || std::sscanf(line, "%lx-%lx", &begin, &end) != 2) continue;
    found = reinterpret_cast<void*>(begin);
    size = end - begin;
  }
  std::fclose(maps);
  return found;
}

void pause_for(long ms) {
  const timespec t{ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, nullptr);
}

std::mt19937_64 dice(29);

void forge_header(header& h) {
  static constexpr std::uint32_t sizes[] = {0, 1, 64, 0x10000, 0x7fffffff, 0xffffffff};
  const auto any = [] { return sizes[dice() % std::size(sizes)]; };
  h.room = {any(), any(), any(), any(), any(), any(), any(), any(), any(), any()};
  for (word32* count : {&h.processes, &h.threads, &h.modules, &h.text, &h.details, &h.windows}) *count = any();
  h.size = dice();
  h.ticks_are_tsc = any();
}

void forge_all(void* memory, std::uint64_t size) {
  auto* const words = static_cast<std::uint64_t*>(memory);
  for (std::uint64_t at = 0; at < size / 8; at += 1 + dice() % 256) words[at] = dice() >> dice() % 64;
}

void forge_circles(const view& record) {
  record.head().threads = record.room().threads;
  for (std::uint32_t i = 0; i < record.room().threads; i++) {
    object& o = record.object(i);
    o.key = key_of(0, 0x1000 + i * 64);
    o.depth_and_kind = std::uint32_t(kind::mutex);
    o.owner = i + 1;
    record.thread(i).tid = std::uint32_t(getpid());  // a thread that lives
    record.thread(i).over = 0;
    record.thread(i).since = 1;
    record.thread(i).waits_for = i + 1;
  }
}

void forge_ids(const view& record) {
  record.head().processes = record.head().threads = 64;
  static const std::uint32_t ids[] = {1, std::uint32_t(getppid()), 0xffffffff, 0x80000000, std::uint32_t(getpid())};
  for (std::uint32_t i = 0; i < 64; i++) {
    record.process(i).pid = ids[i % std::size(ids)];
    record.process(i).ended = 0;
    record.thread(i).tid = ids[i / 5 % std::size(ids)];
    record.thread(i).process = i;
    record.thread(i).over = 0;
  }
}
/// Each chunk has a number that fits its place, so that its waits are read.
void forge_waits(const view& record) {
  const std::uint32_t room = record.room().waits;
  if (room == 0) _exit(1);  // not traced
  record.head().threads = 4;
  const std::uint64_t now = record.thread(0).last;
  const auto any = [] { return dice() >> dice() % 64; };
  for (std::uint32_t i = 0; i < room; i += room / 32) {
    wait_chunk& c = record.waits(i);
    c.number = std::uint64_t{room} * 5 + i + 1;
    c.taken = any();
    for (noted_wait& w : c.waits) {
      w.begin = now + dice() % 100'000'000;
      w.end = dice() % 8 == 0 ? any() : w.begin + dice() % 100'000'000;
      w.released = any();
      w.key = dice() % 4 == 0 ? any() : key_of(0, dice() % 65536 * 64);
      w.object = w.place = w.stack = std::uint32_t(any());
      w.kind_result = std::uint32_t(dice() % 9 | dice() % 4 << 8 | dice() % 3 << 16);
      w.thread = w.owner = std::uint32_t(any());
      w.tid = std::uint32_t(dice() % 4096);
      w.chunk = std::uint32_t(c.number);
    }
  }
  record.head().wait_chunks = dice() % 2 == 0 ? any() : std::uint64_t{room} * 6;
}

}  // namespace

int main(int count, char** arguments) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  for (int i = 0; i < 1000; i++) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
  }
  std::uint64_t size = 0;
  void* const memory = find_record(size);
  if (memory == nullptr || count != 2) return 1;
  const view record(memory);
  const std::string_view what = arguments[1];
  const int rounds = what == "circles" ? 60 : 200;
  for (int i = 0; i < rounds; i++) {
    if (what == "header") forge_header(record.head());
    if (what == "all") forge_all(memory, size);
    if (what == "circles") forge_circles(record);
    if (what == "ids") forge_ids(record);
    if (what == "waits") forge_waits(record);
    pause_for(what == "circles" ? 25 : 2);  // the observer reads each forged state
  }
  _exit(7);
}
