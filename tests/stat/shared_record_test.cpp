// Tests how the observer handles a record that the recorded program forges or truncates, or replaces with another file.
#include "watch/access/shared_record.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "watch/access/census.hpp"
#include "watch/access/record_file.hpp"
#include "watch/reader/name/symbols.hpp"
#include "watch/reader/read/reading.hpp"

namespace usher::access {
namespace {

record_options small() {
  record_options o;
  o.objects = 64;
  return o;
}

constexpr unsigned seals = F_SEAL_SHRINK | F_SEAL_GROW;

/// Makes a file in memory (memfd) like the record of a process. The caller closes it.
int memory_file(std::uint64_t size, unsigned with_seals = seals, unsigned flags = MFD_ALLOW_SEALING) {
  const int file = memfd_create("usher stat", flags);
  EXPECT_GE(file, 0);
  EXPECT_EQ(ftruncate(file, static_cast<off_t>(size)), 0);
  EXPECT_TRUE(with_seals == 0 || fcntl(file, F_ADD_SEALS, with_seals) == 0);
  return file;
}

bool is_open(int descriptor) {
  return fcntl(descriptor, F_GETFD) >= 0;
}

/// Returns the reason why the observer refuses the descriptor, or nothing if it accepts the descriptor. The descriptor
/// is closed in any case.
std::string refusal_of(int descriptor) {
  std::string why;
  try {
    record_file::taken(descriptor, small());
  } catch (const std::runtime_error& e) {
    why = e.what();
  }
  EXPECT_FALSE(is_open(descriptor));
  EXPECT_EQ(why.find('\n'), std::string::npos);
  return why;
}

/// Returns the reason why the observer refuses a file. The file's header is valid except for `change`.
std::string refusal_of_header(const std::function<void(contract::header&)>& change) {
  const record_file good(small());
  const std::uint64_t size = record_file::size_for(small());
  const int file = memory_file(size);
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  EXPECT_NE(memory, MAP_FAILED);
  std::memcpy(memory, static_cast<const void*>(&good.live().head()), sizeof(contract::header));
  change(*static_cast<contract::header*>(memory));
  munmap(memory, size);
  return refusal_of(file);
}

/// Returns the resident memory of this process in KiB.
long resident() {
  long pages = 0, in_memory = 0;
  std::ifstream("/proc/self/statm") >> pages >> in_memory;
  return in_memory * 4;
}

class number_of_descriptors {
 public:
  ~number_of_descriptors() { EXPECT_EQ(next(), before_); }

 private:
  /// Returns the lowest free number.
  static int next() {
    const int free = dup(0);
    close(free);
    return free;
  }
  int before_ = next();
};

TEST(taken_record, an_empty_file_gets_a_header) {
  const number_of_descriptors same;
  record_options o = small();
  o.hold_times = true;
  const int file = memory_file(record_file::size_for(o));
  const auto r = record_file::taken(file, o);
  EXPECT_EQ(r->descriptor(), file);
  const contract::header& h = r->live().head();
  EXPECT_EQ(h.magic, contract::magic);
  EXPECT_EQ(h.version, contract::version);
  EXPECT_EQ(h.size, record_file::size_for(o));
  EXPECT_EQ(h.room.objects, 64u);
  EXPECT_EQ(h.hold_times, 1u);
  EXPECT_EQ(h.enabled.load(), 1u);
  EXPECT_EQ(h.ticks_are_tsc != 0, r->clock().is_tsc());
}

TEST(taken_record, a_header_has_its_own_capacities) {
  const record_file made(small());
  record_options other;
  other.objects = 4096;
  const auto r = record_file::taken(dup(made.descriptor()), other);
  EXPECT_EQ(r->live().room().objects, 64u);
  EXPECT_EQ(r->clock().is_tsc(), made.clock().is_tsc());
}

TEST(taken_record, times_in_nanoseconds_stay_so) {
  const record_file made(small());
  made.live().head().ticks_are_tsc = 0;
  EXPECT_FALSE(record_file::taken(dup(made.descriptor()), small())->clock().is_tsc());
}

TEST(taken_record, what_is_no_memory_file) {
  const number_of_descriptors same;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[1]);
  EXPECT_NE(refusal_of(ends[0]).find("it is no memory file"), std::string::npos);
  char name[] = "/tmp/usher-record-XXXXXX";
  const int on_disk = mkstemp(name);
  unlink(name);
  EXPECT_EQ(ftruncate(on_disk, static_cast<off_t>(record_file::size_for(small()))), 0);
  EXPECT_NE(refusal_of(on_disk), "");
  EXPECT_NE(refusal_of(open("/dev/zero", O_RDWR)).find("it is no memory file"), std::string::npos);
  EXPECT_NE(refusal_of(open("/proc/self/maps", O_RDONLY)), "");
  EXPECT_NE(refusal_of(-1).find("no such descriptor"), std::string::npos);
}

TEST(taken_record, what_could_be_truncated) {
  const std::uint64_t size = record_file::size_for(small());
  for (const unsigned some : {0, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL})
    EXPECT_NE(refusal_of(memory_file(size, some)).find("not sealed"), std::string::npos) << some;
  EXPECT_NE(refusal_of(memory_file(size, 0, 0)).find("not sealed"), std::string::npos);
  // A file that has a name in a tmpfs cannot be sealed, so it must be refused.
  char name[] = "/dev/shm/usher-record-XXXXXX";
  if (const int named = mkstemp(name); named >= 0) {
    unlink(name);
    EXPECT_EQ(ftruncate(named, static_cast<off_t>(size)), 0);
    EXPECT_NE(refusal_of(named).find("not sealed"), std::string::npos);
  }
}

TEST(taken_record, what_cannot_be_written_to) {
  const std::uint64_t size = record_file::size_for(small());
  EXPECT_NE(refusal_of(memory_file(size, seals | F_SEAL_WRITE)), "");
  const record_file made(small());
  EXPECT_NE(refusal_of(open(made.path().c_str(), O_RDONLY | O_CLOEXEC)), "");
}

TEST(taken_record, sizes) {
  const std::uint64_t size = record_file::size_for(small());
  EXPECT_NE(refusal_of(memory_file(0)).find("smaller than"), std::string::npos);
  EXPECT_NE(refusal_of(memory_file(4095)).find("smaller than"), std::string::npos);
  EXPECT_NE(refusal_of(memory_file(size - 4096)).find("bytes"), std::string::npos);
  EXPECT_NE(refusal_of(memory_file(size + 4096)).find("bytes"), std::string::npos);
  EXPECT_NE(refusal_of(memory_file(std::uint64_t{1} << 40)).find("more than 1024"), std::string::npos);
}

TEST(taken_record, forged_headers) {
  EXPECT_EQ(refusal_of_header([](contract::header&) {}), "");
  EXPECT_NE(refusal_of_header([](contract::header& h) { h.magic++; }).find("no record"), std::string::npos);
  const std::string other = refusal_of_header([](contract::header& h) { h.version = 7; });
  EXPECT_NE(other.find("format 7"), std::string::npos) << other;
  EXPECT_NE(refusal_of_header([](contract::header& h) { h.size = 1; }), "");
  for (std::uint32_t contract::capacities::*n :
       {&contract::capacities::objects, &contract::capacities::details, &contract::capacities::threads,
        &contract::capacities::processes, &contract::capacities::modules, &contract::capacities::text,
        &contract::capacities::chains, &contract::capacities::charges, &contract::capacities::windows}) {
    for (const std::uint32_t forged : {0u, 0x80000000u, 0xffffffffu})
      EXPECT_NE(refusal_of_header([=](contract::header& h) { h.room.*n = forged; }), "") << forged;
  }
  for (std::uint32_t contract::capacities::*n :
       {&contract::capacities::objects, &contract::capacities::chains, &contract::capacities::charges})
    EXPECT_NE(refusal_of_header([=](contract::header& h) { (h.room.*n)--; }), "");
}

/// Does everything that the observer does with a record while its program runs and at the end.
void observe(const record_file& file) {
  census c(file.live());
  const std::uint64_t now = file.clock().now();
  c.sample(now);
  reader::circles(file.live());
  c.finish(now + 1);
  c.living_processes();
  const record_copy copy = file.copy();
  reader::symbols names(copy.view());
  reader::read_report(copy.view(), {now, now + 1, 1e-9}, names, 100);
  sum_of(copy.view());
}

TEST(forged_record, a_header_that_changes_after_the_check) {
  const record_file file(small());
  contract::header& h = file.live().head();
  for (const std::uint32_t forged : {0u, 1u, 0x7fffffffu, 0xffffffffu}) {
    h.room = {forged, forged, forged, forged, forged, forged, forged, forged, forged};
    for (contract::word32* count : {&h.processes, &h.threads, &h.modules, &h.text, &h.details, &h.windows})
      *count = 0xffffffff;
    EXPECT_EQ(file.live().room().objects, 64u);
    observe(file);
    EXPECT_EQ(file.copy().view().head().room.objects, 64u);
  }
}

TEST(forged_record, any_bytes) {
  const record_file file(small());
  auto* const bytes = reinterpret_cast<unsigned char*>(&file.live().head());
  const std::uint64_t size = record_file::size_for(small());
  std::mt19937_64 random(29);
  for (const std::uint64_t pattern : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{0x0000000100000001}}) {
    for (std::uint64_t at = 0; at + 8 <= size; at += 8 * (1 + random() % 512)) {
      const std::uint64_t word = pattern != 0 ? pattern : random();
      std::memcpy(bytes + at, &word, sizeof word);
    }
    observe(file);
  }
}

TEST(forged_record, cannot_be_truncated) {
  const record_file file(small());
  const int again = open(file.path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(again, 0);
  EXPECT_NE(ftruncate(again, 0), 0);
  EXPECT_NE(fcntl(again, F_ADD_SEALS, F_SEAL_WRITE), 0);
  // Holes are zeros.
  EXPECT_EQ(fallocate(again, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20), 0);
  observe(file);
  close(again);
}

TEST(record_copies, do_not_change) {
  const record_file file(small());
  contract::header& h = file.live().head();
  h.threads = 3;
  file.live().thread(2)->tid = 77;
  const record_copy copy = file.copy();
  h.threads = 0xffffffff;
  file.live().thread(2)->tid = 0;
  EXPECT_EQ(copy.view().head().threads.load(), 3u);
  EXPECT_EQ(copy.view().thread(2).tid.load(), 77u);
}

TEST(record_copies, are_bounded) {
  const record_file file(small());
  contract::header& h = file.live().head();
  h.processes = 1;
  std::memset(file.live().process(0)->lock, 'x', sizeof(contract::process_slot::lock));
  std::memset(file.live().process(0)->command, 'x', sizeof(contract::process_slot::command));
  h.text = 0xfffffff;
  h.windows = 0xfffffff;
  const record_copy copy = file.copy();
  EXPECT_EQ(std::strlen(copy.view().process(0).lock), sizeof(contract::process_slot::lock) - 1);
  EXPECT_EQ(std::strlen(copy.view().process(0).command), sizeof(contract::process_slot::command) - 1);
  EXPECT_EQ(copy.view().head().text.load(), copy.view().room().text);
  EXPECT_EQ(copy.view().head().windows.load(), copy.view().room().windows);
}

TEST(record_copies, of_a_sparse_file_cost_what_is_used) {
  const record_file file;
  file.live().thread(4000)->tid = 5;
  file.live().object(60000)->key = 6;
  const long before = resident();
  const record_copy copy = file.copy();
  EXPECT_EQ(copy.view().thread(4000).tid.load(), 5u);
  EXPECT_EQ(copy.view().object(60000).key.load(), 6u);
  // The file has 54 MiB, but only three of its pages were written, and the observer's copy contains only these. With
  // transparent huge pages each of them takes 2 MiB.
  EXPECT_LT(resident() - before, 12 * 1024);
}

}  // namespace
}  // namespace usher::access
