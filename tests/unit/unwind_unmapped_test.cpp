// Call chains while other threads unload modules and unmap memory. Each case runs in a child process, because a fault
// ends the process.
#include "watch/contract/format.hpp"
#include "watch/recorder/initial_modules.hpp"
#include "watch/recorder/unwind.hpp"

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "unwind_code.hpp"

using usher::recorder::call_chain;
using usher::recorder::capture_area;
using usher::recorder::stack_bounds;

extern "C" void* loaded_early;  // defined in unwind_early.c

namespace {

thread_local stack_bounds of_thread{};

[[gnu::noinline]] void take_chain(void* into) {
  capture_area area;
  usher::recorder::capture(area, of_thread, nullptr);
  *static_cast<call_chain*>(into) = area.chain;
  __asm__ volatile("" ::: "memory");
}

/// Runs f() in a child process and returns the child's wait status.
template <class F>
int in_child(F f) {
  const pid_t child = fork();
  if (child == 0) {
    f();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

std::atomic<bool> enough{false};
template <class F>
pthread_t repeat(F& f) {
  pthread_t t{};
  const auto body = [](void* what) -> void* {
    while (!enough) (*static_cast<F*>(what))();
    return nullptr;
  };
  pthread_create(&t, nullptr, body, &f);
  return t;
}

char* reserve(std::size_t size) {
  return static_cast<char*>(mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

/// Code without unwind tables has a frame pointer to a word that looks like a return address into a module. The chain
/// has no real frame of this module, so another thread may unload the module while the chain is taken.
TEST(unwind_unmapped, module_that_is_unloaded_meanwhile) {
  const int status = in_child([] {
    void* module = dlopen(UNWIND_MODULE_1, RTLD_NOW);
    const auto code = reinterpret_cast<std::uint64_t>(dlsym(module, "through_the_module"));
    dlclose(module);
    std::atomic<unsigned> loads{0};
    auto load = [&loads] {
      if (void* const m = dlopen(UNWIND_MODULE_1, RTLD_NOW)) dlclose(m);
      loads++;
    };
    const pthread_t loader = repeat(load);
    struct {
      std::uint64_t room[2000], frame[2], above[64];
    } stack{};
    call_chain c;
    while (loads < 2000) {
      stack.frame[1] = code + loads % 200;
      on_stack(take_chain, &c, stack.room + 2000, reinterpret_cast<std::uint64_t>(stack.frame));
      if (c.length < 2) _exit(1);
    }
    enough = true;
    pthread_join(loader, nullptr);
  });
  EXPECT_EQ(status, 0);
}

/// In code without unwind tables the frame-pointer register may contain any number. Here it is an address in memory
/// that another thread unmaps.
TEST(unwind_unmapped, memory_at_the_frame_pointer_is_unmapped_meanwhile) {
  const int status = in_child([] {
    constexpr std::size_t size = 64 << 10;
    char* const stack = reserve(2 * size);
    mprotect(stack, size, PROT_READ | PROT_WRITE);
    char* const other = stack + size + 4096;
    std::atomic<unsigned> unmapped{0};
    auto unmap = [&] {
      mmap(other, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      for (int i = 0; i < 100; i++) static_cast<volatile char*>(other)[i] = 0;
      mmap(other, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      unmapped++;
    };
    const pthread_t unmapper = repeat(unmap);
    call_chain c;
    while (unmapped < 10000) {
      on_stack(take_chain, &c, stack + size - 64, reinterpret_cast<std::uint64_t>(other + 64));
      if (c.length < 2) _exit(1);
    }
    enough = true;
    pthread_join(unmapper, nullptr);
  });
  EXPECT_EQ(status, 0);
}

/// A fiber's stack is unmapped, and a smaller stack is mapped at the same address. The memory above the smaller stack
/// is no longer readable.
TEST(unwind_unmapped, stack_that_is_smaller_than_the_last_one_there) {
  const int status = in_child([] {
    constexpr std::size_t size = 64 << 10, smaller = size - 4096;
    char* const stack = reserve(size);
    mprotect(stack, size, PROT_READ | PROT_WRITE);
    call_chain c;
    at_marked_end(take_chain, &c, stack + size - 64);
    if (c.cut || c.length != 2) _exit(1);
    mprotect(stack + smaller, 4096, PROT_NONE);
    at_wrong_end(take_chain, &c, stack + smaller - 64);
    if (!c.cut || c.length != 2) _exit(2);
  });
  EXPECT_EQ(status, 0);
}

void* entry_of(void* address) {
  dl_find_object found{};
  return _dl_find_object(address, &found) == 0 ? found.dlfo_link_map : nullptr;
}

TEST(unwind_unmapped, modules_of_the_program_start) {
  using usher::recorder::is_initial;
  EXPECT_TRUE(is_initial(entry_of(reinterpret_cast<void*>(&entry_of))));
  EXPECT_TRUE(is_initial(entry_of(reinterpret_cast<void*>(&usher::recorder::capture))));
  for (const char* name : {"libc.so.6", "libstdc++.so.6", loader_name}) {
    void* const module = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(module, nullptr) << name;
    EXPECT_TRUE(is_initial(module)) << name;  // glibc's handle is the address of the loader's link_map
    dlclose(module);
  }
  // A module that a constructor loads is not one of the program's initial modules, although it was loaded before the
  // list of modules was read.
  ASSERT_NE(loaded_early, nullptr);
  EXPECT_FALSE(is_initial(entry_of(dlsym(loaded_early, "through_the_module"))));
  void* const module = dlopen(UNWIND_MODULE_1, RTLD_NOW);
  EXPECT_FALSE(is_initial(entry_of(dlsym(module, "through_the_module"))));
  dlclose(module);
  EXPECT_FALSE(is_initial(nullptr));
}

// ---- a module that the loader is unloading -----------------------------------------------------------------

// marks the test's own calls for the filter: munmap() has two arguments, and this is a third
constexpr unsigned let_through = 0x5a5a5a5a;

/// Installs a seccomp filter: from now on munmap() raises SIGSYS in this thread instead of unmapping. Returns false if
/// the system has no such filters.
bool trap_munmap(void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, let_through, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(rules), rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

struct {
  char* begin;
  void* entry;
  bool seen;  ///< a chain was taken at the module's address while the module was being unloaded
} unloaded;

/// Returns a module's number to capture(), which must not ask for a module that is being unloaded, since the loader is
/// about to free its link_map.
std::uint32_t number_if_loaded(const void*, const usher::recorder::loaded_module& m) {
  if (m.entry == unloaded.entry) _exit(1);
  return 1;
}
[[gnu::noinline]] void take_while_unloading(void* area) {
  const usher::recorder::module_numbers numbers{number_if_loaded, nullptr};
  usher::recorder::capture(*static_cast<capture_area*>(area), of_thread, &numbers);
  __asm__ volatile("" ::: "memory");
}

/// Called when the module's memory is unmapped and _dl_find_object() still finds the module. The function maps new
/// memory at this place and runs generated code in its last page. At first all other pages are readable. Then another
/// thread makes the first page inaccessible again and again.
void run_code_there(char* begin, std::size_t size) {
  constexpr std::size_t page = 4096;
  constexpr int map_fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  char* const code = begin + (size - 1) / page * page;
  mmap(begin, size, PROT_READ | PROT_WRITE, map_fixed, -1, 0);
  std::memcpy(code, with_frame_and_argument, sizeof with_frame_and_argument);
  if (mprotect(code, page, PROT_READ | PROT_EXEC) != 0) _exit(5);
  __builtin___clear_cache(code, code + page);
  if (entry_of(code + 1) != unloaded.entry) return;
  unloaded.seen = true;
  static capture_area area;
  const auto take = [code] { reinterpret_cast<void (*)(void (*)(void*), void*)>(code)(take_while_unloading, &area); };
  const auto has_code = [code](const call_chain& c) {
    return c.length > 1 && c.pc[1] - reinterpret_cast<std::uintptr_t>(code) < page && c.module[1] == 0;
  };
  take();
  if (!has_code(area.chain)) _exit(2);
  std::atomic<unsigned> unmapped{0};
  auto unmap = [&] {
    mmap(begin, page, PROT_READ, map_fixed, -1, 0);
    mmap(begin, page, PROT_NONE, map_fixed, -1, 0);
    unmapped++;
  };
  const pthread_t unmapper = repeat(unmap);
  while (unmapped < 10000) {
    take();
    if (!has_code(area.chain)) _exit(3);
  }
  enough = true;
  pthread_join(unmapper, nullptr);
}

void unmap_and_run(int, siginfo_t*, void* context) {
  trapped_call call(context);
  char* const begin = reinterpret_cast<char*>(call.first());
  const std::size_t size = std::size_t(call.second());
  call.result() = syscall(SYS_munmap, begin, size, let_through);
  if (begin == unloaded.begin) run_code_there(begin, size);
}

/// dlclose() unmaps a module before _dl_find_object() stops finding it.
TEST(unwind_unmapped, code_in_the_place_of_a_module_that_is_being_unloaded) {
  constexpr int without_filters = 100, not_seen = 101;
  const int status = in_child([] {
    void* const module = dlopen(UNWIND_MODULE_1, RTLD_NOW);
    dl_find_object found{};
    if (_dl_find_object(dlsym(module, "through_the_module"), &found) != 0) _exit(4);
    unloaded = {static_cast<char*>(found.dlfo_map_start), found.dlfo_link_map, false};
    if (!trap_munmap(unmap_and_run)) _exit(without_filters);
    dlclose(module);
    if (!unloaded.seen) _exit(not_seen);
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == without_filters) GTEST_SKIP() << "no filters of system calls here";
  if (WIFEXITED(status) && WEXITSTATUS(status) == not_seen)
    GTEST_SKIP() << "this C library forgets a module before its memory is free";
  EXPECT_EQ(status, 0);
}

/// Numbers the modules of a chain. A module is known by its link_map if it stays loaded, otherwise by its identity.
struct modules_seen {
  std::vector<std::pair<const void*, std::uint64_t>> all;
};
std::uint32_t number_among(const void* context, const usher::recorder::loaded_module& m) {
  auto& seen = const_cast<modules_seen*>(static_cast<const modules_seen*>(context))->all;
  const std::pair<const void*, std::uint64_t> key(m.stays ? m.entry : nullptr, m.identity);
  // an identity is computed from a module's memory, and only for a module that may be unloaded
  EXPECT_EQ(m.stays, m.identity == 0);
  const auto at = std::find(seen.begin(), seen.end(), key);
  if (at != seen.end()) return std::uint32_t(at - seen.begin()) + 1;
  seen.push_back(key);
  return std::uint32_t(seen.size());
}

capture_area numbered;
[[gnu::noinline]] void take_numbered(void* seen) {
  const usher::recorder::module_numbers numbers{number_among, seen};
  usher::recorder::capture(numbered, of_thread, &numbers);
  __asm__ volatile("" ::: "memory");
}

/// Each address of a chain belongs to the module that was loaded there when the chain was taken.
TEST(unwind_unmapped, numbers_of_modules) {
  modules_seen seen;
  seen.all.reserve(64);
  take_numbered(&seen);
  const call_chain& c = numbered.chain;
  const std::uint32_t own = c.module[0];
  ASSERT_NE(own, 0u);
  std::uint32_t of_form[2] = {};
  void* places[2] = {};
  for (int i = 0; i < 4; i++) {
    void* const module = dlopen(i % 2 == 0 ? UNWIND_MODULE_1 : UNWIND_MODULE_2, RTLD_NOW);
    void* const f = dlsym(module, "through_the_module");
    places[i % 2] = f;
    reinterpret_cast<void (*)(void (*)(void*), void*)>(f)(take_numbered, &seen);
    dlclose(module);
    ASSERT_GT(c.length, 3u);
    EXPECT_EQ(c.module[0], own);
    EXPECT_EQ(c.module[2], own);
    EXPECT_TRUE(c.module[1] != own && c.module[1] != 0);
    if (i >= 2) {
      EXPECT_EQ(c.module[1], of_form[i % 2]);
    }
    of_form[i % 2] = c.module[1];
  }
  EXPECT_NE(of_form[0], of_form[1]);

  auto* const code =
      static_cast<unsigned char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::memcpy(code, with_frame_and_argument, sizeof with_frame_and_argument);
  mprotect(code, 4096, PROT_READ | PROT_EXEC);
  __builtin___clear_cache(reinterpret_cast<char*>(code), reinterpret_cast<char*>(code) + 4096);
  reinterpret_cast<void (*)(void (*)(void*), void*)>(code)(take_numbered, &seen);
  munmap(code, 4096);
  ASSERT_GT(c.length, 2u);
  EXPECT_EQ(c.module[1], usher::contract::in_no_module);
  EXPECT_EQ(c.module[2], own);
#if defined(__aarch64__)
  if (places[0] != places[1]) GTEST_SKIP() << "as under an emulator, the second module was loaded elsewhere";
#endif
  EXPECT_EQ(places[0], places[1]) << "otherwise the test shows nothing";
}

}  // namespace
