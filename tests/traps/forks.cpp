// Trap: locks embedded in a program must notice that they run in the child of a fork, even if the kernel has not wiped
// memory for the child (MADV_WIPEONFORK). The program runs once directly and once under without_wipe.
#include <pthread.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "cases.h"
#include "usher/platform/native.hpp"

namespace {

using usher::native;

std::uint32_t above;

void have_another_stamp() {
  const std::uint32_t mine = native::fork_epoch();
  CHECK(mine > above);
  CHECK(mine == native::fork_epoch());
}

CASE(every_descendant_has_a_stamp_of_its_own) {
  for (int generation = 0; generation < 5; ++generation) {
    above = native::fork_epoch();
    CHECK_CHILD(start_child([](void*) { have_another_stamp(); }, nullptr), 0);
    CHECK(above == native::fork_epoch());
    const pid_t child = fork();
    if (child > 0) {
      CHECK_CHILD(child, 0);
      _exit(0);
    }
    be_a_child();
    have_another_stamp();
  }
}

struct chains {
  static constexpr std::uint32_t size = usher::native_detail::table_size;
  static constexpr usher::table_kind kind = usher::table_kind::chains;
};

CASE(chains_are_empty_in_a_child) {
  native::fork_epoch();
  auto* table = native::table<chains>();
  table[0] = table[chains::size - 1] = 17;
  CHECK_CHILD(start_child(
                  [](void*) {
                    native::fork_epoch();
                    for (std::uint32_t i = 0; i < chains::size; ++i) CHECK(native::table<chains>()[i] == 0);
                  },
                  nullptr),
              0);
  CHECK(table[0] == 17);
}

CASE(thread_has_another_id_in_a_child) {
  CHECK(native::thread_id() == getpid());
  CHECK_CHILD(start_child([](void*) { CHECK(native::thread_id() == getpid()); }, nullptr), 0);
}

/// Returns the address ranges that the kernel wipes (fills with zeros) in the child of a fork.
std::vector<std::pair<unsigned long, unsigned long>> wiped() {
  std::vector<std::pair<unsigned long, unsigned long>> all;
  unsigned long begin = 0, end = 0;
  std::ifstream maps("/proc/self/smaps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long from, to;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) begin = from, end = to;
    if (line.starts_with("VmFlags:") && line.find(" wf") != line.npos) all.emplace_back(begin, end);
  }
  return all;
}

// The kernel wipes whole pages, so wiped memory must begin and end at a multiple of the largest page size. This program
// is also built for pages of 64 KiB.
CASE(wiped_memory_shares_no_page_with_other_memory) {
  native::fork_epoch();
  const auto all = wiped();
  if (all.empty()) skip_case("this kernel wipes no memory");
  for (const auto& [begin, end] : all) {
    CHECK_NUMBER(begin % usher::native_detail::largest_page, 0);
    CHECK_NUMBER((end - begin) % usher::native_detail::largest_page, 0);
  }
}

// The child of vfork() shares the parent's memory. Lock calls in the child are undefined, but they must not store the
// child's ids as the parent's.
CASE(child_of_vfork_is_the_first_user) {
  const pid_t child = vfork();
  if (child == 0) {
    native::thread_id();
    native::thread_index();
    _exit(0);
  }
  CHECK_CHILD(child, 0);
  CHECK_NUMBER(native::thread_id(), getpid());
  static int index;
  index = int(native::thread_index());
  CHECK(index != 0);
  in_new_thread(
      [](void*) -> void* {
        CHECK(native::thread_id() != getpid());
        CHECK(native::thread_index() != 0 && int(native::thread_index()) != index);
        return nullptr;
      },
      nullptr);
}

}  // namespace
