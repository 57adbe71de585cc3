// Trap: two shared objects embed the header library and lock the same mutex. Each object has its own copy of the code.
// But the process-wide state of the locks (TWA's waiting array and the queue nodes) must exist only once; otherwise an
// unlock in one object would not wake a waiter in the other. Two things make copies likely: RTLD_LOCAL hides an
// object's symbols from others, and clang does not make inline variables unique as gcc does.
//
// The objects lie in the folder of the program. If the program is built with PROGRAM_EMBEDS, it embeds the header
// library, too, and shares its state with the objects. Otherwise two objects cannot find each other's state through the
// program.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "cases.h"
#include "embedded.hpp"

namespace {

struct combination {
  const char* name;
  const char* objects[2];  ///< null: the copy in this program
  const char* lock;        ///< the function that returns the table
};

#ifndef PROGRAM_EMBEDS
constexpr combination combinations[] = {
    {"twa_gcc_and_clang", {"embedded_gcc", "embedded_clang"}, "embedded_twa"},
    {"twa_clang_and_clang", {"embedded_clang", "embedded_clang_again"}, "embedded_twa"},
    {"twa_gcc_and_gcc", {"embedded_gcc", "embedded_gcc_again"}, "embedded_twa"},
    {"twa_hidden_gcc_and_clang", {"embedded_gcc_hidden", "embedded_clang_hidden"}, "embedded_twa"},
    {"twa_hidden_gcc_and_gcc", {"embedded_gcc_hidden", "embedded_gcc"}, "embedded_twa"},
    {"mcs_gcc_and_clang", {"embedded_gcc", "embedded_clang"}, "embedded_mcs"},
    {"mcs_clang_and_clang", {"embedded_clang", "embedded_clang_again"}, "embedded_mcs"},
    {"mcs_hidden_gcc_and_clang", {"embedded_gcc_hidden", "embedded_clang_hidden"}, "embedded_mcs"},
};
#else
constexpr combination combinations[] = {
    {"twa_program_and_gcc", {nullptr, "embedded_gcc"}, "embedded_twa"},
    {"twa_program_and_clang", {nullptr, "embedded_clang"}, "embedded_twa"},
    {"twa_program_and_hidden_clang", {nullptr, "embedded_clang_hidden"}, "embedded_twa"},
    {"mcs_program_and_gcc", {nullptr, "embedded_gcc"}, "embedded_mcs"},
    {"mcs_program_and_clang", {nullptr, "embedded_clang"}, "embedded_mcs"},
};
#endif

const embedded_functions* load(const char* object, const char* lock, int flags) {
#ifdef PROGRAM_EMBEDS
  if (!object) return std::string(lock) == "embedded_twa" ? embedded_twa() : embedded_mcs();
#endif
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  CHECK(length > 0);
  std::string path(self, std::size_t(length));
  path.resize(path.rfind('/') + 1);
  path += std::string("lib") + object + ".so";
  if (access(path.c_str(), R_OK) != 0) skip_case("%s was not built", object);
  void* library = dlopen(path.c_str(), RTLD_NOW | flags);
  if (!library) fail_case(__FILE__, __LINE__, "%s", dlerror());
  using getter = const embedded_functions* (*)();
  return reinterpret_cast<getter>(dlsym(library, lock))();
}

struct scene {
  alignas(128) unsigned char memory[512];
  const embedded_functions* functions[2];
  int inside = 0;
  long count = 0;
  int waiting = 0;
};

struct worker {
  scene* at;
  int number, rounds;
};

void* work(void* argument) {
  const auto* me = static_cast<worker*>(argument);
  scene& at = *me->at;
  for (int i = 0; i < me->rounds; ++i) {
    // In half of the rounds the mutex is locked through one object and unlocked through the other.
    const embedded_functions* in = at.functions[me->number % 2];
    const embedded_functions* out = at.functions[(me->number + i) % 2];
    flag_add(&at.waiting, 1);
    in->lock(at.memory);
    CHECK(__atomic_exchange_n(&at.inside, 1, __ATOMIC_RELAXED) == 0);
    ++at.count;
    compute(30);
    __atomic_store_n(&at.inside, 0, __ATOMIC_RELAXED);
    out->unlock(at.memory);
  }
  return nullptr;
}

void share(const combination& which, int flags) {
  static scene at;
  at.functions[0] = load(which.objects[0], which.lock, flags);
  at.functions[1] = load(which.objects[1], which.lock, flags);
  CHECK(at.functions[0]->size <= sizeof at.memory);
  CHECK(at.functions[0]->size == at.functions[1]->size);
  at.functions[0]->construct(at.memory);
  worker workers[8];
  for (int i = 0; i < 8; ++i) workers[i] = {&at, i, 300};
  // In the first five rounds the lock is unlocked only when several threads sleep in its queue.
  for (int round = 0; round < 5; ++round) {
    at.waiting = 0;
    for (worker& one : workers) one.rounds = 1;
    pthread_t threads[8];
    at.functions[round % 2]->lock(at.memory);
    for (int i = 0; i < 8; ++i) threads[i] = start_thread(work, &workers[i]);
    await_flag(&at.waiting, 8);
    await_sleepers(8);
    at.functions[round % 2]->unlock(at.memory);
    for (pthread_t thread : threads) join_thread(thread);
  }
  for (worker& one : workers) one.rounds = 300;
  run_threads(8, work, workers, sizeof *workers);
  CHECK_NUMBER(at.count, 8 * 305);
  CHECK(at.functions[0]->try_lock(at.memory));
  CHECK(!at.functions[1]->try_lock(at.memory));
  at.functions[1]->unlock(at.memory);
}

CASE_FOR(loaded_locally, combination, which, combinations) {
  share(*which, RTLD_LOCAL);
}

#ifndef PROGRAM_EMBEDS
// With RTLD_DEEPBIND an object prefers its own symbols to those of the program. So the objects must find the shared
// state in another way than through the program's symbols.
CASE_FOR(loaded_deeply_bound, combination, which, combinations) {
  share(*which, RTLD_LOCAL | RTLD_DEEPBIND);
}
#endif

}  // namespace
