// Tests dynamic_section (watch/recorder/dynamic_section.hpp), which reads names from a module's dynamic section, with
// the forms of modules that loaders make. An inaccessible page follows each module, so that a read beyond the module's
// segments ends the test.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "watch/recorder/dynamic_section.hpp"

namespace usher::preload {
namespace {

using names = std::vector<std::string>;
constexpr std::size_t text_at = 512, text_size = 32;  // the offset and the size of the string table in the module
constexpr char text[text_size] = "\0libone.so.1\0libtwo.so.2\0tail";

/// A module in one readable page: a dynamic section at the beginning, and a string table. The page behind it is
/// inaccessible.
class fake_module {
 public:
  explicit fake_module(std::uintptr_t linked_for) {
    page_ = std::size_t(sysconf(_SC_PAGESIZE));
    bytes_ = static_cast<unsigned char*>(
        mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(bytes_ + page_, page_, PROT_NONE);
    std::memcpy(bytes_ + text_at, text, text_size);
    bias_ = address() - linked_for;
    segments_[0].p_type = PT_LOAD;
    segments_[0].p_memsz = page_;
    segments_[1].p_type = PT_DYNAMIC;
    segments_[1].p_memsz = text_at;
    for (auto& s : segments_) s.p_flags = PF_R, s.p_vaddr = linked_for;
  }
  ~fake_module() { munmap(bytes_, 2 * page_); }
  fake_module(const fake_module&) = delete;
  fake_module& operator=(const fake_module&) = delete;

  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(bytes_); }
  std::size_t page() const { return page_; }
  unsigned char* bytes() { return bytes_; }
  ElfW(Phdr) & segment(int i) { return segments_[i]; }

  void add(ElfW(Sxword) tag, std::uintptr_t value) { entries_.push_back({.d_tag = tag, .d_un = {.d_val = value}}); }
  /// Writes a dynamic section: two needed libraries, a string table, the end. `table` and `size` are the address and
  /// the size that the section gives for the string table; `second` is the offset of the second library's name.
  void write(std::uintptr_t table, std::size_t size = text_size, std::size_t second = 13) {
    add(DT_NEEDED, 1);
    add(DT_NEEDED, second);
    add(DT_STRTAB, table);
    if (size != 0) add(DT_STRSZ, size);
    add(DT_NULL, 0);
    write_entries();
  }
  void write_entries() { std::memcpy(bytes_, entries_.data(), entries_.size() * sizeof entries_[0]); }

  names needed() { return needed_at(bytes_); }
  names needed_at(const void* place) {
    names found;
    recorder::dynamic_section(place, {bias_, segments_, 2}).each_name(DT_NEEDED, [&](const char* name) {
      found.emplace_back(name);
    });
    return found;
  }

 private:
  std::size_t page_;
  unsigned char* bytes_;
  std::uintptr_t bias_;
  ElfW(Phdr) segments_[2]{};
  std::vector<ElfW(Dyn)> entries_;
};

const names both = {"libone.so.1", "libtwo.so.2"};

TEST(dynamic_section, of_a_module_that_the_loader_has_relocated) {
  fake_module m(0);
  m.write(m.address() + text_at);
  EXPECT_EQ(m.needed(), both);
}

TEST(dynamic_section, of_a_read_only_section) {
  fake_module m(0);
  m.write(text_at);
  EXPECT_EQ(m.needed(), both);
}

// Like gVisor's vDSO: the loader has not relocated the address of the string table, which is linked for an address
// above that of the module.
TEST(dynamic_section, of_a_module_that_is_linked_for_a_high_address) {
  constexpr std::uintptr_t top = 0xffffffffff700000;
  fake_module m(top);
  m.write(top + text_at);
  EXPECT_EQ(m.needed(), both);
}

TEST(dynamic_section, with_addresses_outside_of_the_module) {
  for (const std::uintptr_t outside : {std::uintptr_t{8}, ~std::uintptr_t{0} - 4, std::uintptr_t{0x7000000000000000}}) {
    fake_module m(0x100000);
    m.write(outside);
    EXPECT_EQ(m.needed(), names{}) << outside;
  }
  fake_module m(0);
  m.write(m.address() + m.page());  // the first address behind the module
  EXPECT_EQ(m.needed(), names{});
}

TEST(dynamic_section, with_a_table_that_reaches_beyond_the_segment) {
  fake_module m(0);
  m.write(text_at, m.page() - text_at + 1);
  EXPECT_EQ(m.needed(), names{});
  fake_module wraps(0);
  wraps.write(text_at, ~std::size_t{0});
  EXPECT_EQ(wraps.needed(), names{});
}

TEST(dynamic_section, without_the_size_of_the_table) {
  fake_module m(0);
  m.write(text_at, 0);
  EXPECT_EQ(m.needed(), names{});
}

TEST(dynamic_section, leaves_out_names_outside_of_the_table_or_without_an_end) {
  fake_module m(0);
  m.write(text_at, text_size, text_size);
  EXPECT_EQ(m.needed(), names{"libone.so.1"});
  fake_module cut(0);
  cut.write(text_at, 20);  // the second name ends beyond the end of the table
  EXPECT_EQ(cut.needed(), names{"libone.so.1"});
}

TEST(dynamic_section, ends_with_its_program_header) {
  fake_module m(0);
  m.add(DT_STRTAB, text_at);
  m.add(DT_STRSZ, text_size);
  for (int i = 0; i < 6; i++) m.add(DT_NEEDED, 1);
  m.write_entries();
  m.segment(1).p_memsz = 4 * sizeof(ElfW(Dyn));  // no DT_NULL within it
  EXPECT_EQ(m.needed().size(), 2u);
}

TEST(dynamic_section, is_not_read_where_no_header_has_it) {
  fake_module m(0);
  m.write(text_at);
  EXPECT_EQ(m.needed_at(m.bytes() + sizeof(ElfW(Dyn))), names{});
  EXPECT_EQ(m.needed_at(m.bytes() + m.page()), names{});
  m.segment(1).p_memsz = m.page() + 1;
  EXPECT_EQ(m.needed(), names{});
}

TEST(dynamic_section, is_not_read_in_a_segment_without_access) {
  fake_module m(0);
  m.write(text_at);
  m.segment(0).p_flags = 0;
  EXPECT_EQ(m.needed(), names{});
}

}  // namespace
}  // namespace usher::preload
