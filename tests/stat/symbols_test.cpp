// Tests the lookup of this program's own functions and objects by means of a record of this process's mappings.
#include "watch/reader/name/symbols.hpp"

#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "symbols_library.hpp"
#include "watch/contract/module_identity.hpp"

namespace contract = usher::contract;
using namespace usher::reader;

namespace {

struct mapped {
  std::uint64_t begin, end, bias, identity;
  std::string path;
};

/// Computes a module's identity from its memory by the same method as libusher.so.
std::uint64_t identity_of(const mapped& m) {
  return usher::contract::module_identity(
      [&m](std::uint64_t place, void* to, std::size_t size) {
        if (place > m.end - m.begin || size > m.end - m.begin - place) return false;
        std::memcpy(to, reinterpret_cast<const void*>(m.begin + place), size);
        return true;
      },
      [&m](std::uint64_t, std::uint64_t address) { return m.bias + address - m.begin; });
}

/// Returns the modules of this process that are mapped from a file.
std::vector<mapped> own_modules() {
  std::vector<mapped> all;
  const auto add = [](dl_phdr_info* info, std::size_t, void* to) {
    mapped m{~std::uint64_t{0}, 0, info->dlpi_addr, 0, info->dlpi_name};
    for (int i = 0; i < info->dlpi_phnum; i++) {
      const auto& p = info->dlpi_phdr[i];
      if (p.p_type != PT_LOAD) continue;
      m.begin = std::min(m.begin, (m.bias + p.p_vaddr) / 4096 * 4096);
      m.end = std::max(m.end, m.bias + p.p_vaddr + p.p_memsz);
    }
    auto& modules = *static_cast<std::vector<mapped>*>(to);
    if (modules.empty()) m.path = std::filesystem::read_symlink("/proc/self/exe");
    if (m.path.starts_with('/')) modules.push_back(m);
    return 0;
  };
  dl_iterate_phdr(add, &all);
  for (mapped& m : all) m.identity = identity_of(m);
  return all;
}

/// A record, as libusher.so writes for `usher stat`, that contains only modules.
class modules_record {
 public:
  modules_record()
      : memory_(std::aligned_alloc(4096, usher::contract::view::size_for(room()))), view_(memory_, room()) {
    std::memset(memory_, 0, usher::contract::view::size_for(room()));
    view_.head().room = room();
    view_.head().processes = 3;
  }
  ~modules_record() { std::free(memory_); }
  modules_record(const modules_record&) = delete;
  modules_record& operator=(const modules_record&) = delete;

  usher::contract::view view() const { return view_; }
  /// Adds a module and returns its number.
  std::uint32_t add(std::uint32_t process, const mapped& m) {
    const std::uint32_t index = view_.head().modules.fetch_add(1);
    usher::contract::module_slot& slot = view_.module(index);
    slot.process = process;
    slot.begin = m.begin;
    slot.end = m.end;
    slot.bias = m.bias;
    slot.identity = m.identity;
    slot.path_length = static_cast<std::uint32_t>(m.path.size());
    slot.path = view_.head().text.fetch_add(slot.path_length);
    std::memcpy(view_.text() + slot.path, m.path.data(), m.path.size());
    slot.ready = 1;
    return index + 1;
  }
  /// Adds all modules of this process. `change_library` may replace the path of the library that the test looks up.
  void add_own(
      std::uint32_t process, const std::function<void(mapped&)>& change_library = [](mapped&) {}) {
    for (mapped m : own_modules()) {
      if (m.path == STAT_TEST_LIBRARY) change_library(m);
      add(process, m);
    }
  }

 private:
  static usher::contract::capacities room() {
    usher::contract::capacities c;
    c.objects = c.details = c.chains = c.charges = c.windows = c.threads = 2;
    return c;
  }
  void* memory_;
  usher::contract::view view_;
};

std::function<void(mapped&)> as_file(std::string path) {
  return [path](mapped& m) {
    m.path = path;
    m.identity = 0;
  };
}

[[gnu::noinline]] void* who_calls() {
  return __builtin_return_address(0);
}
std::uint64_t address(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p);
}
std::string file_of(const frame& f) {
  return std::filesystem::path(f.file).filename();
}

// The functions below have names that the tests look up. Each returns an address in itself, and the line numbers of the
// call in itself and in the callers into which it is inlined.
struct places {
  void* return_address;
  int line, middle_line, outer_line;
};
[[gnu::always_inline]] inline places in_line() {
  void* p = who_calls();
  return {p, __LINE__ - 1, 0, 0};
}
template <class T>
struct box {
  [[gnu::always_inline]] places member_in_line(T) {
    places p = in_line();
    p.middle_line = __LINE__ - 1;
    return p;
  }
};
[[gnu::noinline]] places not_in_line() {
  places p = box<long>{}.member_in_line(1);
  p.outer_line = __LINE__ - 1;
  return p;
}
template <class T, int N>
[[gnu::noinline]] places a_template(const T&) {
  void* p = who_calls();
  return {p, __LINE__ - 1, 0, 0};
}

int initialised[4] = {1, 2, 3, 4};
char zeroed[1 << 20];
thread_local int of_thread = 1;
int* in_function() {
  static int of_function[2];
  return of_function;
}

TEST(symbols, functions_in_line) {
  modules_record r;
  r.add_own(0);
  symbols names(r.view());
  const places p = not_in_line();
  const stack s = names.resolve(0, address(p.return_address));
  ASSERT_EQ(s.frames.size(), 3u);
  // gcc gives no linkage name to a function that is local to a file and always inlined, so the name has no arguments.
  EXPECT_TRUE(s.frames[0].function.starts_with("(anonymous namespace)::in_line")) << s.frames[0].function;
  EXPECT_EQ(s.frames[0].line, static_cast<unsigned>(p.line));
  EXPECT_TRUE(s.frames[0].is_inlined);
  EXPECT_TRUE(s.frames[1].function.starts_with("(anonymous namespace)::box<long")) << s.frames[1].function;
  EXPECT_EQ(s.frames[1].line, static_cast<unsigned>(p.middle_line));
  EXPECT_TRUE(s.frames[1].is_inlined);
  EXPECT_EQ(s.frames[2].function, "(anonymous namespace)::not_in_line()");
  EXPECT_EQ(s.frames[2].line, static_cast<unsigned>(p.outer_line));
  EXPECT_FALSE(s.frames[2].is_inlined);
  for (const frame& f : s.frames) {
    EXPECT_EQ(file_of(f), "symbols_test.cpp");
    EXPECT_EQ(f.address, address(p.return_address) - 1);
    EXPECT_EQ(f.offset, s.frames[0].offset);
    EXPECT_EQ(f.module, std::filesystem::read_symlink("/proc/self/exe").string());
  }
}

TEST(symbols, lambdas_in_line) {
  modules_record r;
  r.add_own(0);
  int line = 0;
  const auto lambda = [&line]() __attribute__((always_inline)) {
    void* p = who_calls();
    line = __LINE__ - 1;
    return p;
  };
  void* const p = lambda();
  const unsigned called = __LINE__ - 1;
  const stack s = symbols(r.view()).resolve(0, address(p));
  ASSERT_EQ(s.frames.size(), 2u);
  EXPECT_NE(s.frames[0].function.find("operator()"), std::string::npos) << s.frames[0].function;
  EXPECT_EQ(s.frames[0].line, static_cast<unsigned>(line));
  EXPECT_NE(s.frames[1].function.find("TestBody"), std::string::npos) << s.frames[1].function;
  EXPECT_EQ(s.frames[1].line, called);
}

TEST(symbols, templates_are_demangled) {
  modules_record r;
  r.add_own(0);
  const places p = a_template<std::vector<int>, 7>({});
  const stack s = symbols(r.view()).resolve(0, address(p.return_address));
  ASSERT_EQ(s.frames.size(), 1u);
  EXPECT_NE(s.frames[0].function.find("a_template<std::vector<int"), std::string::npos) << s.frames[0].function;
  EXPECT_EQ(s.frames[0].line, static_cast<unsigned>(p.line));
}

TEST(symbols, a_library) {
  modules_record r;
  r.add_own(0);
  symbols names(r.view());
  const planted::call c = planted::exported(who_calls), hidden = planted::by_hidden(who_calls);
  stack s = names.resolve(0, address(c.return_address));
  ASSERT_EQ(s.frames.size(), 1u);
  EXPECT_EQ(s.frames[0].function, "planted::exported(void* (*)())");
  EXPECT_EQ(s.frames[0].line, static_cast<unsigned>(c.line));
  EXPECT_EQ(file_of(s.frames[0]), "symbols_library.cpp");
  EXPECT_EQ(s.frames[0].module, STAT_TEST_LIBRARY);
  s = names.resolve(0, address(hidden.return_address));
  ASSERT_GE(s.frames.size(), 1u);
  EXPECT_EQ(s.frames[0].function, "planted::(anonymous namespace)::hidden(void* (*)())");
  EXPECT_EQ(s.frames[0].line, static_cast<unsigned>(hidden.line));
}

// For a stripped library only exported names are found, and no lines.
TEST(symbols, a_stripped_library) {
  modules_record r;
  r.add_own(0, as_file(STAT_TEST_STRIPPED));
  symbols names(r.view());
  const frame f = names.resolve(0, address(planted::exported(who_calls).return_address)).frames.at(0);
  EXPECT_EQ(f.function, "planted::exported(void* (*)())");
  EXPECT_EQ(f.file, "");
  EXPECT_EQ(f.line, 0u);
  const frame h = names.resolve(0, address(planted::by_hidden(who_calls).return_address)).frames.at(0);
  EXPECT_EQ(h.function, "");
  EXPECT_EQ(h.module, STAT_TEST_STRIPPED);
  EXPECT_NE(h.offset, 0u);
  const auto data = names.object_at(0, address(&planted::exported_data[3]));
  ASSERT_TRUE(data);
  EXPECT_EQ(data->symbol, "planted::exported_data");
  EXPECT_EQ(data->offset, 3 * sizeof(int));
  const auto hidden = names.object_at(0, address(planted::hidden_data()));
  ASSERT_TRUE(hidden);
  EXPECT_EQ(hidden->symbol, "");
  EXPECT_EQ(hidden->module, STAT_TEST_STRIPPED);
  EXPECT_NE(hidden->module_offset, 0u);
}

// This copy of the library is stripped of debug information, but has a symbol table.
TEST(symbols, no_debug_information) {
  modules_record r;
  r.add_own(0, as_file(STAT_TEST_NO_DEBUG));
  const frame f = symbols(r.view()).resolve(0, address(planted::by_hidden(who_calls).return_address)).frames.at(0);
  EXPECT_EQ(f.function, "planted::(anonymous namespace)::hidden(void* (*)())");
  EXPECT_EQ(f.line, 0u);
}

// This copy of the library is stripped; its debug information is in another file in the same folder.
TEST(symbols, a_debug_file) {
  modules_record r;
  r.add_own(0, as_file(STAT_TEST_LINKED));
  symbols names(r.view());
  const planted::call c = planted::by_hidden(who_calls);
  const frame f = names.resolve(0, address(c.return_address)).frames.at(0);
  EXPECT_EQ(f.function, "planted::(anonymous namespace)::hidden(void* (*)())");
  EXPECT_EQ(f.line, static_cast<unsigned>(c.line));
  EXPECT_EQ(f.module, STAT_TEST_LINKED);
  EXPECT_EQ(names.object_at(0, address(planted::hidden_data()))->symbol,
            "planted::(anonymous namespace)::hidden_table");
}

TEST(symbols, servers_for_debug_information_are_not_asked_and_stay_set) {
  setenv("DEBUGINFOD_URLS", "http://127.0.0.1:9", 1);
  modules_record r;
  r.add_own(0, as_file(STAT_TEST_STRIPPED));
  EXPECT_EQ(symbols(r.view()).resolve(0, address(planted::exported(who_calls).return_address)).frames.size(), 1u);
  EXPECT_STREQ(getenv("DEBUGINFOD_URLS"), "http://127.0.0.1:9");
  unsetenv("DEBUGINFOD_URLS");
}

TEST(symbols, a_file_that_is_gone_or_another_one_gives_no_names) {
  const std::uint64_t call = address(planted::exported(who_calls).return_address) - 1;
  for (const auto& change : std::vector<std::function<void(mapped&)>>{
           [](mapped& m) { m.path += " (deleted)"; },
           [](mapped& m) { m.identity++; },
           [](mapped& m) { m.path = "/nowhere/libplanted.so"; },
           [](mapped& m) {
             m.path = "/etc/passwd";  // not an ELF file
             m.identity = 0;
           },
       }) {
    modules_record r;
    mapped as{};
    r.add_own(0, [&](mapped& m) {
      change(m);
      as = m;
    });
    symbols names(r.view());
    const stack s = names.resolve(0, call + 1);
    ASSERT_EQ(s.frames.size(), 1u);
    EXPECT_EQ(s.frames[0].function, "");
    EXPECT_EQ(s.frames[0].file, "");
    EXPECT_EQ(s.frames[0].module, as.path);
    EXPECT_EQ(s.frames[0].offset, call - as.bias);
    EXPECT_FALSE(names.object_at(0, address(planted::hidden_data())));
  }
}

TEST(symbols, generated_code_has_an_address_only) {
  modules_record r;
  r.add_own(0);
  r.add(0, {0x10000, 0x20000, 0, 0, ""});
  symbols names(r.view());
  for (const std::uint64_t there : {0x11000u, 0x1000u}) {
    const stack s = names.resolve(0, there + 1);
    ASSERT_EQ(s.frames.size(), 1u);
    EXPECT_EQ(s.frames[0].address, there);
    EXPECT_EQ(s.frames[0].module + s.frames[0].function, "");
  }
}

TEST(symbols, chains) {
  modules_record r;
  r.add_own(0);
  usher::contract::chain& c = r.view().chain(0);
  const places p = not_in_line();
  c.process = 0;
  c.length = 2;
  c.cut = 1;
  c.pc[0] = address(p.return_address);
  c.pc[1] = address(planted::exported(who_calls).return_address);
  const stack s = symbols(r.view()).resolve(c);
  EXPECT_TRUE(s.is_cut);
  ASSERT_EQ(s.frames.size(), 4u);
  EXPECT_EQ(s.frames[3].function, "planted::exported(void* (*)())");
}

// A forked process has the same mappings as its parent until it maps other modules itself.
TEST(symbols, of_a_forked_process) {
  modules_record r;
  r.add_own(0);
  r.view().process(1).parent = 1;
  r.view().process(2).parent = 2;
  symbols names(r.view());
  const std::uint64_t call = address(planted::exported(who_calls).return_address);
  EXPECT_EQ(names.resolve(2, call).frames.at(0).function, "planted::exported(void* (*)())");
  EXPECT_EQ(names.object_at(2, address(&initialised[1]))->symbol, "(anonymous namespace)::initialised");
  r.add_own(1, as_file("/nowhere/libplanted.so"));
  symbols again(r.view());
  EXPECT_EQ(again.resolve(2, call).frames.at(0).module, "/nowhere/libplanted.so");
}

// The record stores an address with the number of its module. So the address keeps its name even if another module is
// later loaded at the same addresses.
TEST(symbols, of_modules_at_the_same_place) {
  modules_record r;
  std::vector<mapped> own = own_modules();
  const auto library =
      std::find_if(own.begin(), own.end(), [](const mapped& m) { return m.path == STAT_TEST_LIBRARY; });
  ASSERT_NE(library, own.end());
  mapped other = *library;
  other.path = "/nowhere/libother.so";
  const std::uint32_t first = r.add(0, *library), second = r.add(0, other);
  symbols names(r.view());
  const std::uint64_t call = address(planted::exported(who_calls).return_address),
                      data = address(planted::hidden_data());
  const auto function = [&](std::uint32_t module) {
    return names.resolve(0, usher::contract::word_of(call, module)).frames.at(0);
  };
  EXPECT_EQ(function(first).function, "planted::exported(void* (*)())");
  EXPECT_EQ(function(second).module, "/nowhere/libother.so");
  EXPECT_EQ(function(0).module, "/nowhere/libother.so");  // the module that was loaded last
  for (const std::uint32_t none : {usher::contract::in_no_module, second + 1, 60000u}) {
    EXPECT_EQ(function(none).module, "");
    EXPECT_EQ(function(none).address, call - 1);
    EXPECT_FALSE(names.object_at(0, contract::word_of(data, none)));
  }
  EXPECT_EQ(names.object_at(0, contract::word_of(data, first)).value_or(symbols::static_object{}).symbol,
            "planted::(anonymous namespace)::hidden_table");
  EXPECT_FALSE(names.object_at(0, contract::word_of(data, second)));
}

TEST(symbols, identity_in_memory_and_in_the_file) {
  std::vector<std::uint64_t> seen;
  for (const mapped& m : own_modules()) {
    EXPECT_NE(m.identity, 0u) << m.path;
    seen.push_back(m.identity);
    modules_record r;
    r.add(0, m);
    EXPECT_TRUE(symbols(r.view()).object_at(0, m.begin + 4)) << m.path;  // this shows that the file was accepted
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
}

// The loader's list of modules has an empty path for the program itself; its other paths may be relative to a working
// directory.
TEST(symbols, paths_of_the_loader) {
  const std::vector<mapped> own = own_modules();
  for (mapped m : own) {
    const std::string path = m.path;
    const bool is_program = path == std::filesystem::read_symlink("/proc/self/exe");
    m.path = is_program ? "" : std::filesystem::path(path).lexically_relative(std::filesystem::current_path()).string();
    if (!is_program) m.path = "./" + m.path;
    modules_record r;
    r.view().process(0).pid = static_cast<std::uint32_t>(getpid());
    r.add(0, m);
    EXPECT_EQ(symbols(r.view()).resolve(0, m.begin + 4097).frames.at(0).module, path);
  }
}

// A program may load modules after the observer has looked up names.
TEST(symbols, of_modules_that_come_later) {
  modules_record r;
  symbols names(r.view());
  const std::uint64_t call = address(planted::exported(who_calls).return_address);
  EXPECT_EQ(names.resolve(0, call).frames.at(0).module, "");
  r.add_own(0);
  EXPECT_EQ(names.resolve(0, call).frames.at(0).module, STAT_TEST_LIBRARY);
}

TEST(symbols, static_objects) {
  modules_record r;
  r.add_own(0);
  symbols names(r.view());
  const auto found = [&](const void* p) { return names.object_at(0, address(p)).value_or(symbols::static_object{}); };
  EXPECT_EQ(found(&initialised[2]).symbol, "(anonymous namespace)::initialised");
  EXPECT_EQ(found(&initialised[2]).offset, 2 * sizeof(int));
  EXPECT_EQ(found(&initialised[2]).size, sizeof initialised);
  EXPECT_EQ(found(&zeroed[999999]).symbol, "(anonymous namespace)::zeroed");
  EXPECT_EQ(found(&zeroed[999999]).offset, 999999u);
  EXPECT_EQ(found(in_function() + 1).symbol, "(anonymous namespace)::in_function()::of_function");
  EXPECT_EQ(found(&planted::exported_data[0]).symbol, "planted::exported_data");
  EXPECT_EQ(found(planted::hidden_data()).symbol, "planted::(anonymous namespace)::hidden_table");
  EXPECT_EQ(found(planted::hidden_data()).module, STAT_TEST_LIBRARY);
  const int on_stack = 0;
  const auto on_heap = std::make_unique<int>();
  for (const void* p : {static_cast<const void*>(&on_stack), static_cast<const void*>(on_heap.get()),
                        static_cast<const void*>(&of_thread)})
    EXPECT_FALSE(names.object_at(0, address(p)));
}

// ---- the place of a stack -------------------------------------------------------------------------------------------

stack of_functions(std::initializer_list<const char*> functions, const char* module = "/opt/server") {
  stack s;
  for (const char* f : functions) {
    s.frames.emplace_back().function = f;
    s.frames.back().module = module;
  }
  return s;
}

TEST(place, wrappers_are_passed_over) {
  for (const char* wrapper : {
           "std::mutex::lock()",
           "std::unique_lock<std::mutex>::lock()",
           "std::lock_guard<std::mutex>::lock_guard(std::mutex&)",
           "void std::lock<std::mutex, std::mutex>(std::mutex&, std::mutex&)",
           "std::scoped_lock<std::mutex, std::mutex>::scoped_lock(std::mutex&, std::mutex&)",
           "void std::condition_variable::wait<work()::{lambda()#1}>(std::unique_lock<std::mutex>&, "
           "work()::{lambda()#1})",
           "std::enable_if<is_invocable_r_v<void, void (*&)()>, void>::type std::__invoke_r<void, void (*&)()>(void "
           "(*&)())",
           "decltype (f(1)) std::__invoke<void (*)(int), int>(void (*&&)(int), int&&)",
           "std::__1::mutex::lock()",
           "__gthread_mutex_lock(pthread_mutex_t*)",
           "__gthread_mutex_lock",
           "__gnu_cxx::__scoped_lock::__scoped_lock(__gnu_cxx::__mutex&)",
           "boost::unique_lock<boost::mutex>::lock()",
           "rocksdb::port::Mutex::Lock()",
           "rocksdb::InstrumentedMutexLock::InstrumentedMutexLock(rocksdb::InstrumentedMutex*)",
           "rocksdb::InstrumentedMutex::LockInternal()",
           "kyotocabinet::ScopedMutex::~ScopedMutex()",
           "DBMutex<int>::lock(int)",
           "absl::Mutex::Lock()",
           "folly::detail::mutex_impl::try_lock()",
           "v8::base::Semaphore::Wait()",
           "g_mutex_lock",
           "uv_cond_wait",
           "inline_mysql_mutex_lock",
           "je_malloc_mutex_lock_slow",
           "SDL_LockMutex",
           "PyThread_acquire_lock_timed",
           "PyThread_allocate_lock",
           "uv_mutex_init",
           "uv__sem_init",
           "rocksdb::port::CondVar::CondVar(rocksdb::port::Mutex*)",
           "v8::base::ConditionVariable::ConditionVariable()",
           "os::PlatformMonitor::PlatformMonitor()",
       })
    EXPECT_EQ(of_functions({wrapper, "work()"}).place()->function, "work()") << wrapper;
}

TEST(place, what_is_the_programs) {
  for (const char* own : {
           "worker",
           "my::std::lock()",
           "LockManager::acquire(int)",
           "BlockCache::lookup(int)",
           "Clock::wait()",
           "lock_over_sleep(int)",
           "wait_for_lock",
           "mutex_table",
           "mutex_init()",
           "Variable::Variable()",
           "tdc_init",
           "Semaphores::work()",
           "Lock::rebuild_index()",
           "server::lock(std::mutex&)",
           "(anonymous namespace)::work(std::mutex&)",
           "std_lock(int)",
           "void work<std::mutex>(std::mutex&)",
           "std::vector<int> collect(std::mutex&)",
           "table<std::mutex>::operator[](std::string const&)",
           "table::operator std::mutex&()",
           "main::{lambda}::operator()",
           "main::{lambda(std::mutex&)#1}::operator()(std::mutex&) const",
           "",
       })
    EXPECT_EQ(of_functions({own, "main"}).place()->function, own) << own;
}

TEST(place, libraries_are_passed_over) {
  for (const char* module :
       {"/lib/x86_64-linux-gnu/libc.so.6", "/lib/libpthread-2.31.so", "/lib64/ld-linux-x86-64.so.2",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30", "/usr/lib/llvm-16/lib/libc++.so.1.0"}) {
    stack s = of_functions({"f"}, module);
    s.frames.emplace_back().module = "/opt/libcache.so";
    EXPECT_EQ(s.place()->module, "/opt/libcache.so") << module;
  }
}

// If all functions of a stack are lock functions, the place is the program's own lock function.
TEST(place, the_programs_own_lock_if_nothing_else_is) {
  stack s = of_functions({"std::mutex::lock()", "Mutex::lock()"});
  EXPECT_EQ(s.place()->function, "Mutex::lock()");
}

TEST(place, the_innermost_if_all_are_wrappers) {
  EXPECT_EQ(of_functions({"std::mutex::lock()", "std::thread::_M_run()"}).place()->function, "std::mutex::lock()");
  EXPECT_EQ(stack{}.place(), nullptr);
}

}  // namespace
