// Runs a program with a record and prints the entry of each object as a line of JSON, instead of a report. It is for
// developers of the recording.
//
//     dump_record LIBRARY LOCK [--hold-times] CMD…
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "watch/contract/format.hpp"

namespace {
using namespace usher::contract;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

void print_chain(const view& record, const char* name, std::uint32_t index) {
  if (index >= record.head().room.chains || record.chain(index).ready == 0) return;
  const auto& chain = record.chain(index);
  std::printf(", \"%s\": [", name);
  for (std::uint32_t i = 0; i < chain.length; ++i) {
    // The form that addr2line accepts.
    std::string module = "?";
    std::uint64_t offset = address_of(chain.pc[i]);
    if (const std::uint32_t number = module_of(chain.pc[i]); number != 0 && number != in_no_module) {
      const auto& one = record.module(number - 1);
      module.assign(record.text() + one.path, one.path_length);
      offset -= one.bias;
    }
    std::printf("%s\"%s+0x%lx\"", i > 0 ? ", " : "", module.substr(module.rfind('/') + 1).c_str(), offset);
  }
  std::printf("%s]", chain.cut ? ", \"…\"" : "");
}

/// Prints the figures that some kinds have beside those of a condition, and the figures in the object's `detail`.
void print_others(const view& record, const object& o) {
  const kind k = kind(o.depth_and_kind & 0xff);
  if (k == kind::rwlock)
    std::printf(
        ", \"reads\": %lu, \"contended_reads\": %lu, \"waited_to_read\": %.9f, \"readers\": %u, \"most_readers\": %u",
        o.rwlock.reads.load(), o.rwlock.contended_reads.load(), static_cast<double>(o.rwlock.waited_to_read) * 1e-9,
        o.rwlock.readers.load(), o.rwlock.most_readers.load());
  if (k == kind::barrier) std::printf(", \"barrier_size\": %u", o.barrier.size.load());
  if (o.detail - 1 >= record.head().room.details) return;
  const detail& d = record.detail(o.detail - 1);
  std::printf(", \"failed_tries\": %lu", d.failed_tries.load());
  if (k == kind::rwlock)
    std::printf(
        ", \"behind_writer_to_read\": %lu, \"behind_writer_to_write\": %lu, \"behind_readers_to_read\": %lu, "
        "\"behind_readers_to_write\": %lu, \"longest_read_wait\": %lu",
        d.behind_writer[0].load(), d.behind_writer[1].load(), d.behind_readers[0].load(), d.behind_readers[1].load(),
        d.longest_read_wait.load());
  if (k != kind::barrier) return;
  std::uint32_t came_last = 0, most = 0;
  for (const auto& t : d.threads) came_last += t.waits, most = std::max(most, t.waits.load());
  std::printf(", \"came_last\": %u, \"came_last_most\": %u", came_last, most);
}

void print(const view& record) {
  const auto& head = record.head();
  std::printf(
      "{\"processes\": %u, \"threads\": %u, \"modules\": %u, \"details\": %u, \"windows\": %u, \"calls\": %lu, "
      "\"retired\": %lu, \"dropped\": [%lu, %lu, %lu, %lu, %lu, %lu, %lu]}\n",
      head.processes.load(), head.threads.load(), head.modules.load(), head.details.load(), head.windows.load(),
      head.calls.load(), head.retired.load(), head.dropped.objects.load(), head.dropped.details.load(),
      head.dropped.threads.load(), head.dropped.processes.load(), head.dropped.modules.load(),
      head.dropped.chains.load(), head.dropped.charges.load());
  for (std::uint32_t i = 0; i < head.room.objects; ++i) {
    const auto& o = record.object(i);
    if (o.key == 0 || o.key == object::vacant) continue;
    std::printf(
        "{\"process\": %u, \"address\": \"%lx\", \"kind\": \"%s\", \"acquisitions\": %lu, \"contended\": %lu, "
        "\"waited\": %.9f, \"longest\": %.9f, \"held\": %.9f, \"holds\": %u, \"signals\": %lu, "
        "\"unheard\": %lu, \"most_waiting\": %u, \"waiting\": %lu, \"timeouts\": %u, \"herd\": %u, "
        "\"owner\": %u, \"flags\": %u",
        process_of(o.key), address_of(o.key), kind_names[o.depth_and_kind & 7], o.acquisitions.load(),
        o.contended.load(), static_cast<double>(o.waited) * 1e-9, static_cast<double>(o.longest) * 1e-9,
        static_cast<double>(o.held) * 1e-9, o.holds.load(), o.condition.signals.load(), o.condition.unheard.load(),
        o.most_waiting.load(), o.waiting & waiting_count, o.timeouts.load(), o.condition.herd.load(), o.owner.load(),
        o.flags.load());
    print_others(record, o);
    if (o.place != 0) print_chain(record, "place", o.place - 1);
    std::printf("}\n");
  }
  for (std::uint32_t i = 0; i < head.room.charges; ++i) {
    const auto& c = record.charge(i);
    if (c.key == 0) continue;
    std::printf("{\"charge\": \"%s\", \"whom\": %u, \"count\": %lu, \"ticks\": %lu",
                what_of(c.key) == charged::waiter ? "waiter" : "holder", whom_of(c.key), c.count.load(),
                c.ticks.load());
    print_chain(record, "chain", chain_of(c.key));
    std::printf("}\n");
  }
}
}  // namespace

int main(int count, char** arguments) {
  if (count < 4) {
    std::fprintf(stderr, "usage: dump_record LIBRARY LOCK [--hold-times] CMD…\n");
    return 2;
  }
  const bool hold_times = std::strcmp(arguments[3], "--hold-times") == 0;
  const capacities room;
  const auto size = view::size_for(room);
  const int file = memfd_create(file_name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0 ||
      fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    fail("memfd_create");
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) fail("mmap");
  auto& head = *new (memory) header{};
  head.magic = magic;
  head.version = version;
  head.hold_times = hold_times;
  head.size = size;
  head.room = room;
  head.ticks_are_tsc = 0;
  head.ticks_a_ms = 1000000;
  head.enabled = 1;
  setenv(variable, ("/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file)).c_str(), 1);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    setenv("LD_PRELOAD", arguments[1], 1);
    setenv("USHER_LOCK", arguments[2], 1);
    execvp(arguments[3 + hold_times], arguments + 3 + hold_times);
    fail(arguments[3 + hold_times]);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) fail("waitpid");
  print(view(memory));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
